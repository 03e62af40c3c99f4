"""Attributes, predictions, settings and bad input."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import robustard
from robustard import RVM, ARDRegression, JointARD
from sklearn.exceptions import ConvergenceWarning, NotFittedError


def test_attributes(line):
    X, y = line
    model = JointARD(features="linear").fit(X, y)
    assert model.n_features_in_ == 5 and model.coef_names_ == ["x0", "x1", "x2", "x3", "x4"]
    np.testing.assert_allclose(model.coef_, [0, 2, 0, -1, 0], atol=0.04)
    np.testing.assert_allclose(model.intercept_, 4, atol=0.04)
    assert (model.coef_std_ < 0.05).all()
    np.testing.assert_allclose(np.sqrt(np.diag(model.sigma_)), model.coef_std_, rtol=1e-9, atol=1e-12)
    assert model.weight_precision_.shape == (5,) and model.weight_precision_[1] < model.weight_precision_[0]
    assert model.noise_variance_.shape == (150,)
    np.testing.assert_allclose(model.row_relevance_, 1 / model.noise_variance_)
    assert list(np.flatnonzero(model.outlier_mask_)) == [10, 50, 90]
    assert model.noise_variance_[10] > 100 * np.median(model.noise_variance_)
    assert 0 < model.effective_support_.features < 1 and 0.9 < model.effective_support_.rows < 1
    assert model.status_ == "converged" and model.converged_
    assert len(model.scores_) == model.n_iter_ and model.scores_[-1] >= model.scores_[0]
    assert model.loo_.r2 < 1 and model.loo_.rmse > model.loo_.median_error
    assert model.features_ == "linear" and "per row" in model.noise_
    assert model.choice_["reasons"]
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)
    assert model.score(X, y) > 0.3


def test_prediction_is_the_line_and_carries_noise(line):
    X, y = line
    model = JointARD(features="linear").fit(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, X @ model.coef_ + model.intercept_, rtol=1e-9)
    also, covariance = model.predict(X, return_cov=True)
    assert (mean == also).all()
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std)
    assert np.linalg.eigvalsh(covariance).min() > 0
    latent = X @ model.sigma_ @ X.T
    assert abs(np.corrcoef(latent[0, 1:], covariance[0, 1:])[0, 1]) > 0.99
    low, high = model.predict_interval(X, level=0.9).T
    inside = np.mean((y >= low) & (y <= high))
    assert 0.85 < inside < 0.97
    wide = model.predict_interval(X, level=0.99)
    assert (wide[:, 0] < low).all() and (wide[:, 1] > high).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_interval(X, level=95)
    with pytest.raises(RuntimeError, match="at most one"):
        model.predict(X, return_std=True, return_cov=True)


@pytest.mark.parametrize("features", ["linear", "smooth", "poly:3", "rff:30", "rbf", "rbf:all", "auto"])
def test_every_kind_of_features(features, mcycle):
    x, y = mcycle
    model = JointARD(features=features).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    assert (model.predict(x) == mean).all()
    assert np.isfinite(mean).all() and (std > 0).all()
    if model.features_ in ("smooth", "rff:30"):
        assert not any(hasattr(model, name) for name in ["weights_", "coef_", "coef_std_", "coef_names_", "sigma_"])
    else:
        assert len(model.weights_) == len(model.coef_names_) == len(model.coef_std_) == len(model.weight_precision_)
        assert model.sigma_.shape == (len(model.weights_), len(model.weights_))
    assert hasattr(model, "coef_") == (features == "linear")
    assert model.feature_importances_.shape == (1,)
    assert np.isfinite(model.intercept_)
    if features not in ("linear", "poly:3"):
        assert model.score(x, y) > 0.4
    assert model.features_ == (features if features != "auto" else "smooth")


@pytest.mark.parametrize("solver", ["em", "mackay", "irls-l2", "irls-l1", "gradient", "growing", "passes"])
@pytest.mark.parametrize("noise", ["shared", "student-t"])
def test_every_solver(solver, noise, line):
    X, y = line
    y = y.copy()
    y[[10, 50, 90]] = y.mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = JointARD(features="linear", solver=solver, noise=noise, max_iter=3000).fit(X, y)
    np.testing.assert_allclose(model.coef_, [0, 2, 0, -1, 0], atol=0.25)


def test_every_setting_is_passed_on(line):
    X, y = line
    settings = dict(
        studentized_power=2.0, damping_weights=0.5, damping_noise=0.5, units="absolute",
        weight_precision_bounds=(1e-5, 1e5), noise_variance_bounds=[1e-5, 1e5], initial_weight_precision=0.5,
        initial_noise_variance=0.2, noise_start=3, noise_every=2, max_iter=77, tol=1e-3, patience=2,
        acceleration="none", acceleration_memory=5, pruning=False, route="sample-space", learning_rate=0.1,
        inner_tolerance=1e-5, inner_max_iterations=99, base_noise="trimmed",
    )  # fmt: skip
    engine = {name: known for name, (_, known, _) in robustard._settings.PARAMETERS.items()}
    others = {
        "noise",
        "target_transform",
        "interval_rows",
        "solver",
        "lengthscale",
        "intercept",
        "standardize",
        "preset",
    }
    others |= {"seed"}
    assert {engine[name] for name in settings} == set(engine.values()) - others - {None}
    # Every option of the engine has a parameter.
    assert set(robustard._robustard.option_names()) == (set(engine.values()) - {None}) | {"features"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = JointARD(features="linear", noise="student-t:3", solver="mackay", **settings)
        model.fit(X, y)
    import json

    used = json.loads(model._fitted.settings)
    for name, value in settings.items():
        assert used[engine[name]] == (list(value) if isinstance(value, tuple) else value), name
    assert used["solver"] == "mackay" and used["noise"] == "student-t:3"


def test_defaults_are_the_engines(line):
    import json

    X, y = line
    given = JointARD(features="linear", noise="student-t", solver="em").fit(X, y)
    plain = JointARD(features="linear", noise="student-t").fit(X, y)
    assert json.loads(given._fitted.settings) == json.loads(plain._fitted.settings)
    assert (given.coef_ == plain.coef_).all()


@pytest.mark.parametrize(
    "wrong, words",
    [
        (dict(features="cubic"), "'cubic'.*linear.*poly.*rff.*smooth.*rbf.*auto"),
        (dict(noise="quiet"), "noise.*quiet.*shared.*flat.*student-t.*auto"),
        (dict(solver="newton"), "solver.*newton.*em.*mackay.*irls-l2.*irls-l1.*gradient.*growing"),
        (dict(preset="mine"), "preset.*mine.*default.*paper"),
        (dict(missing="guess"), "missing is 'guess'.*error, drop or impute"),
        (dict(tol=-1), "tol is -1.*above 0"),
        (dict(tol=float("nan")), "tol"),
        (dict(max_iter=0), "max_iter is 0.*at least 1"),
        (dict(max_iter=2.5), "max_iter.*2.5"),
        (dict(damping_noise=2.0), "damping_noise is 2"),
        (dict(weight_precision_bounds=(1, 1)), "weight_precision_bounds"),
        (dict(acceleration="warp"), "acceleration.*warp.*anderson"),
        (dict(features="rff", lengthscale=-1), "-1.*each"),
        (dict(features="linear", lengthscale=1.0), "only rff and rbf"),
        (dict(n_jobs=0), "n_jobs is 0"),
        (dict(features=3), "features is 3.*linear"),
        (dict(noise=1), "noise is 1"),
        (dict(missing=None), "missing is None"),
        (dict(missing="mean"), "missing is 'mean'.*error, drop or impute"),
        (dict(fit_intercept="no"), "fit_intercept is 'no'"),
        (dict(lengthscale=[1, 2], features="rff"), r"lengthscale is \[1, 2\]"),
        (dict(categorical=5), "categorical is 5"),
        (dict(categorical=[True]), "categorical has True"),
        (dict(random_state=-1), "random_state"),
        (dict(categorical=["nothing"]), "nothing"),
        (dict(categorical=[7]), "7.*5 columns"),
    ],
)
def test_wrong_values_are_named(wrong, words, line):
    X, y = line
    with pytest.raises(ValueError, match=f"(?s){words}"):
        JointARD(**wrong).fit(X, y)


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda X, y: (X, y[:-1]), "inconsistent numbers of samples"),
        (lambda X, y: (X, None), "y"),
        (lambda X, y: (np.where(X[3, 2] == X, np.nan, X), y), "NaN"),
        (lambda X, y: (np.where(X[3, 2] == X, np.inf, X), y), "infinity"),
        (lambda X, y: (X, np.where(y == y[3], np.nan, y)), "y contains NaN"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X[:, 0], y), "2D array"),
        (lambda X, y: (X + 1j, y), "[Cc]omplex"),
        (lambda X, y: (X, np.column_stack([y, y])), "1d array|shape"),
        (lambda X, y: (X, np.array(["a"] * len(y))), "convert"),
        (lambda X, y: ([["a", "b"]] * len(y), y), "convert"),
    ],
)
def test_bad_tables_are_refused(spoil, words, line):
    with pytest.raises(ValueError, match=words):
        JointARD().fit(*spoil(*line))


def test_bad_weights_are_refused(line):
    X, y = line
    for weight, words in [
        (-np.ones(150), "weight"),
        (np.zeros(150), "zero"),
        (np.ones(149), "shape"),
        (np.full(150, np.nan), "NaN"),
    ]:
        with pytest.raises(ValueError, match=words):
            JointARD().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "estimator", [JointARD(), RVM(), JointARD(features="smooth"), JointARD(features="rff:8")], ids=repr
)
@pytest.mark.parametrize(
    "X, y",
    [
        ([[1.0]], [2.0]),
        ([[1.0], [2.0]], [1.0, 2.0]),
        (np.ones((12, 2)), np.arange(12.0)),
        (np.random.default_rng(0).normal(size=(6, 30)), np.arange(6.0)),
        (np.random.default_rng(0).normal(size=(40, 2)), np.zeros(40)),
        (np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 9, axis=0), np.repeat(np.arange(5.0), 9)),
        (1e90 * np.random.default_rng(0).normal(size=(40, 2)), 1e-90 * np.arange(40.0)),
    ],
    ids=["one", "two", "constant", "wide", "flat", "copies", "scales"],
)
def test_small_and_odd_tables(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(X, y)
        mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all() and np.isfinite(std).all()
    assert len(model.noise_variance_) == len(y)


def test_columns_must_be_those_of_the_fit(line):
    X, y = line
    model = JointARD(features="linear").fit(X, y)
    with pytest.raises(ValueError, match="4 features.*5 features"):
        model.predict(X[:, :4])
    with pytest.raises(NotFittedError):
        JointARD().predict(X)
    with pytest.raises(NotFittedError):
        JointARD().influence()


def test_no_convergence_is_a_warning_that_says_what_to_do(line):
    X, y = line
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = JointARD(features="linear", noise="student-t", max_iter=2).fit(X, y)
    assert model.status_ == "iteration-limit" and not model.converged_ and model.n_iter_ == 2


def test_weights_count_rows(line):
    X, y = line
    weight = np.arange(len(y)) % 3
    weighted = JointARD(features="linear").fit(X, y, sample_weight=weight)
    repeated = JointARD(features="linear").fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    # Rows without weight are not fitted, but keep their places.
    assert len(weighted.noise_variance_) == len(y)
    assert (np.isnan(weighted.noise_variance_) == (weight == 0)).all()
    assert len(weighted.influence()) == len(y)


def test_missing_values(line):
    X, y = line
    X, y = X.copy(), y.copy()
    X[[3, 4], 0] = np.nan
    dropped = JointARD(features="linear", missing="drop")
    with pytest.warns(UserWarning, match="2 rows"):
        dropped.fit(X, y)
    assert np.isnan(dropped.noise_variance_[[3, 4]]).all()
    with pytest.warns(UserWarning, match="2 rows"):
        predicted = dropped.predict(X)
    assert np.isnan(predicted[[3, 4]]).all() and np.isfinite(np.delete(predicted, [3, 4])).all()
    with pytest.warns(UserWarning, match="2 rows"):
        assert 0.3 < dropped.score(X, y) < 1
    y[7] = np.nan
    with pytest.warns(UserWarning, match="3 rows"):
        assert np.isnan(dropped.fit(X, y).noise_variance_[[3, 4, 7]]).all()
    with pytest.raises(ValueError, match="y contains NaN"):
        JointARD(features="linear", missing="impute").fit(X, y)
    y[7] = 0.0
    imputed = JointARD(features="linear", missing="impute").fit(X, y)
    assert "x0 (missing)" in imputed.coef_names_
    assert np.isfinite(imputed.predict(X)).all()


def test_rvm(mcycle):
    x, y = mcycle
    model = RVM().fit(x, y)
    vectors = len(model.dual_coef_)
    assert 3 <= vectors < 25
    assert model.relevance_vectors_.shape == (vectors, 1)
    np.testing.assert_allclose(model.relevance_vectors_, x[model.relevance_indices_], rtol=1e-12)
    assert model.score(x, y) > 0.7
    # The kernel by hand.
    one = RVM(lengthscale=0.5, noise="shared").fit(x, y)
    scaled = (x - x.mean()) / x.std()
    centres = (one.relevance_vectors_ - x.mean()) / x.std()
    kernel = np.exp(-0.5 * ((scaled - centres.T) / 0.5) ** 2)
    np.testing.assert_allclose(one.predict(x), kernel @ one.dual_coef_ + one.intercept_, rtol=1e-9, atol=1e-9)


def test_rvm_is_robust():
    rng = np.random.default_rng(1)
    x = rng.uniform(-10, 10, size=(400, 1))
    truth = np.sinc(x[:, 0] / np.pi)
    y = truth + 0.05 * rng.normal(size=400)
    wrong = rng.choice(400, 40, replace=False)
    y[wrong] += rng.choice([-1, 1], 40) * rng.uniform(1, 3, 40)
    robust, plain = RVM().fit(x, y), RVM(noise="shared").fit(x, y)
    error = lambda model: np.sqrt(np.mean((model.predict(x) - truth) ** 2))
    assert error(robust) < 0.02 and error(robust) < 0.5 * error(plain)
    assert robust.outlier_mask_[wrong].mean() > 0.9
    assert robust.outlier_mask_.sum() < 50


def test_seed_and_threads_decide_nothing_but_what_they_should(line):
    X, y = line
    for features in ["linear", "smooth", "rff:40", "rbf"]:
        one, two, again = (JointARD(features=features, n_jobs=jobs).fit(X, y) for jobs in (1, 2, 1))
        assert (one.predict(X) == again.predict(X)).all()
        np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-9)
    assert not (
        JointARD(features="rff:40", random_state=1).fit(X, y).predict(X)
        == JointARD(features="rff:40").fit(X, y).predict(X)
    ).all()


def test_parts_of_records_are_taken_as_they_are(line):
    X, y = line
    record = np.zeros(len(X), dtype=[("tag", "i1"), ("x", "f8", (X.shape[1],))])
    record["x"] = X
    plain, part = (ARDRegression().fit(table, y) for table in (X, record["x"]))
    assert (plain.coef_ == part.coef_).all()
    assert (plain.predict(X) == plain.predict(record["x"])).all()


def test_a_failed_refit_leaves_the_model_as_it_was(line):
    import pandas as pd

    X, y = line
    frame = pd.DataFrame(X, columns=[f"c{place}" for place in range(X.shape[1])])
    model = ARDRegression().fit(frame, y)
    before = model.predict(frame)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((len(y), 2), np.nan), y)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert (model.predict(frame) == before).all()


def test_target_is_transformed():
    random = np.random.default_rng(0)
    X = random.uniform(-1.5, 1.5, (300, 2))
    y = 100 * np.exp(X[:, 0] + 0.3 * random.standard_normal(300))
    model = robustard.JointARD().fit(X, y)
    assert model.target_transform_ == "asinh"
    low, high = model.predict_interval(X).T
    median, mean = model.predict_median(X), model.predict(X)
    assert np.all(low < median) and np.all(median < mean) and np.all(mean < high)
    assert 0.9 < np.mean((low < y) & (y < high)) <= 1
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), mean)
    log = robustard.JointARD(features="linear", noise="shared", target_transform="log").fit(X, y)
    assert log.target_transform_ == "log"
    assert abs(log.coef_[0] - 1) < 0.1
    assert abs(log.predict(X).mean() / y.mean() - 1) < 0.1
    assert robustard.JointARD(target_transform="none").fit(X, y).target_transform_ == "none"
    with pytest.raises(ValueError, match="log is for targets that are all above 0"):
        robustard.JointARD(target_transform="log").fit(X, y - 100)
    with pytest.raises(ValueError, match="none, log or asinh"):
        robustard.JointARD(target_transform="sqrt").fit(X, y)


def test_intervals_for_right_rows_or_for_all():
    random = np.random.default_rng(1)
    X = random.uniform(-2, 2, (400, 2))
    wrong = random.random(400) < 0.1
    y = X[:, 0] + np.where(wrong, 4.0, 0.3) * random.standard_normal(400)
    right, all_rows = (robustard.JointARD(interval_rows=rows).fit(X, y) for rows in ("right", "all"))
    narrow, wide = (np.diff(model.predict_interval(X)).mean() for model in (right, all_rows))
    assert 2 * narrow < wide
    with pytest.raises(ValueError, match="right"):
        robustard.JointARD(interval_rows="some").fit(X, y)


def test_error_bars_follow_noise_that_varies(tmp_path):
    random = np.random.default_rng(2)
    X = random.uniform(-2, 2, (600, 2))
    y = X[:, 0] + 0.5 * np.exp(0.7 * X[:, 1]) * random.standard_normal(600)
    model = robustard.JointARD().fit(X, y)
    new = np.array([[0.0, -1.5], [0.0, 1.5]])
    _, std = model.predict(new, return_std=True)
    assert 5 < std[1] / std[0] < 12
    model.save(tmp_path / "m.model")
    again = robustard.load(tmp_path / "m.model")
    assert np.array_equal(again.predict_interval(new), model.predict_interval(new))
