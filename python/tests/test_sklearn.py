"""At home in scikit-learn."""

from __future__ import annotations

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest
from robustard import RVM, ARDRegression, JointARD
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, make_regression
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import ARDRegression as SklearnARD
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

ESTIMATORS = [
    JointARD(),
    JointARD(features="linear", noise="shared"),
    JointARD(features="linear", noise="student-t"),
    JointARD(features="poly:2"),
    JointARD(features="linear", missing="impute"),
    RVM(),
    RVM(noise="student-t", lengthscale=1.0),
    ARDRegression(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learns_own_checks_pass(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    failed = [f"{result['check_name']}: {result['exception']}" for result in results if result["status"] == "failed"]
    assert not failed, "\n".join(failed)
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    # It asks for an environment variable, and is about arrays on other devices.
    assert skipped <= {"check_array_api_input"}
    assert sum(result["status"] == "passed" for result in results) > 50


@pytest.mark.parametrize("estimator", [JointARD(features="linear"), RVM(), ARDRegression()], ids=repr)
def test_model_selection(estimator):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:240], y[:240]
    scores = cross_val_score(estimator, X, y, cv=3)
    assert scores.shape == (3,) and (scores > 0.25).all(), scores
    assert cross_val_predict(make_pipeline(StandardScaler(), estimator), X, y, cv=3).shape == y.shape


def test_grid_search_in_processes():
    X, y = make_regression(n_samples=80, n_features=4, noise=1.0, random_state=0)
    search = GridSearchCV(
        JointARD(features="linear"), {"noise": ["shared", "student-t"], "tol": [1e-3, 1e-4]}, cv=2, n_jobs=2
    )
    search.fit(X, y)
    assert search.best_score_ > 0.9
    assert set(search.best_params_) == {"noise", "tol"}


def test_column_transformer_and_selection():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame({"area": rng.normal(size=90), "age": rng.normal(size=90), "city": list("abc") * 30})
    y = 2 * table["area"] + table["city"].map({"a": 0, "b": 1, "c": 5}) + 0.1 * rng.normal(size=90)
    columns = ColumnTransformer([("numbers", StandardScaler(), ["area", "age"]), ("words", OneHotEncoder(), ["city"])])
    assert make_pipeline(columns, JointARD(features="linear")).fit(table, y).score(table, y) > 0.98
    selected = SelectFromModel(JointARD(features="linear"), threshold=0.1).fit(table[["area", "age"]], table["area"])
    assert list(selected.get_feature_names_out()) == ["area"]


@pytest.mark.parametrize("estimator", [JointARD(), JointARD(features="rff:20"), RVM(), ARDRegression()], ids=repr)
def test_copies_predict_the_same(estimator, line, tmp_path):
    X, y = line
    model = clone(estimator).fit(X, y)
    expected, std = model.predict(X, return_std=True)
    joblib.dump(model, tmp_path / "model.joblib")
    for other in [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")]:
        mean, error = other.predict(X, return_std=True)
        assert (mean == expected).all() and (error == std).all()
        assert (other.feature_importances_ == model.feature_importances_).all()
        assert other.get_params() == model.get_params()
        if hasattr(model, "weights_"):
            assert (other.weights_ == model.weights_).all() and (other.sigma_ == model.sigma_).all()
    # The training table is not part of a pickle.
    assert hasattr(model, "_training") and not hasattr(pickle.loads(pickle.dumps(model)), "_training")


def log_evidence(X, y, weight_precision, noise_variance):
    """log p(y | γ, λ) of centred data with flat intercept, as scikit-learn's class centres."""
    X, y = X - X.mean(axis=0), y - y.mean()
    kept = weight_precision < 1e6 * np.median(weight_precision[np.isfinite(weight_precision)])
    covariance = noise_variance * np.eye(len(y)) + (X[:, kept] / weight_precision[kept]) @ X[:, kept].T
    sign, log_determinant = np.linalg.slogdet(covariance)
    assert sign > 0
    return -0.5 * (log_determinant + y @ np.linalg.solve(covariance, y) + len(y) * np.log(2 * np.pi))


@pytest.mark.parametrize("case", ["diabetes", "sparse", "scaled", "wide"])
@pytest.mark.parametrize("make", [ARDRegression, lambda: JointARD(features="linear", noise="shared")])
def test_same_evidence_as_scikit_learn(case, make):
    if case == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    elif case == "wide":
        X, y = make_regression(60, 80, n_informative=5, noise=3.0, random_state=2)
    else:
        X, y = make_regression(200, 30, n_informative=6, noise=5.0, random_state=1)
    if case == "scaled":
        X = X * np.logspace(-2, 2, X.shape[1])
    theirs = SklearnARD(max_iter=3000, tol=1e-8, threshold_lambda=1e12).fit(X, y)
    ours = make().fit(X, y)
    own = log_evidence(X, y, ours.weight_precision_, ours.noise_variance_[0])
    other = log_evidence(X, y, theirs.lambda_, 1.0 / theirs.alpha_)
    assert own > other - 1e-3 * abs(other), f"{own} against {other}"
    if case != "wide":
        np.testing.assert_allclose(own, other, rtol=1e-3)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=0.02 * y.std())


def test_migration_from_scikit_learn_is_one_line():
    X, y = load_diabetes(return_X_y=True)
    arguments = dict(
        max_iter=500, tol=1e-3, alpha_1=1e-6, alpha_2=1e-6, lambda_1=1e-6, lambda_2=1e-6,
        compute_score=True, threshold_lambda=1e4, fit_intercept=True, copy_X=True, verbose=False,
    )  # fmt: skip
    theirs, ours = SklearnARD(**arguments).fit(X, y), ARDRegression(**arguments).fit(X, y)
    assert set(theirs.get_params()) | {"n_jobs"} == set(ours.get_params())
    for name in ["coef_", "alpha_", "lambda_", "sigma_", "scores_", "intercept_", "n_iter_", "n_features_in_"]:
        assert hasattr(ours, name), name
    np.testing.assert_allclose(ours.alpha_, theirs.alpha_, rtol=0.02)
    mean, std = ours.predict(X[:5], return_std=True)
    other, other_std = theirs.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean, other, atol=0.05 * y.std())
    np.testing.assert_allclose(std, other_std, rtol=0.05)
