"""The manners of scikit-learn: names, routing, threads, seeds; and that all front ends say the same."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path

import joblib
import numpy as np
import pytest
import robustard
from robustard import RVM, ARDRegression, JointARD
from sklearn import config_context
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def test_parameters_stand_in_one_place():
    joint, rvm = (set(inspect.signature(kind.__init__).parameters) - {"self"} for kind in (JointARD, RVM))
    assert joint - rvm == {"features"} and rvm == set(robustard._settings.PARAMETERS)
    for kind in (JointARD, RVM):
        for name in inspect.signature(kind.__init__).parameters:
            assert name == "self" or f"\n    {name} :" in kind.__doc__, name
    with pytest.raises(TypeError, match="seed"):
        JointARD(seed=1)


def test_random_state(line):
    X, y = line
    fit = lambda state: JointARD(features="rff:30", random_state=state).fit(X, y).predict(X)
    assert (fit(0) == fit(np.int64(0))).all()
    assert (fit(np.random.RandomState(3)) == fit(np.random.RandomState(3))).all()
    assert not (fit(0) == fit(1)).all()
    with pytest.raises(ValueError, match="random_state"):
        JointARD(random_state=-1).fit(X, y)


def test_threads():
    assert JointARD()._threads() == 1
    assert JointARD(n_jobs=3)._threads() == 3
    assert JointARD(n_jobs=-1)._threads() == joblib.cpu_count()
    with joblib.parallel_config("threading", n_jobs=2):
        assert JointARD()._threads() == 2
    for wrong in (0, -2, 1.5, True):
        with pytest.raises(ValueError, match="n_jobs"):
            JointARD(n_jobs=wrong)._threads()


def test_weights_are_routed(line):
    X, y = line
    weight = 1.0 + (np.arange(150) % 3)
    with config_context(enable_metadata_routing=True):
        model = JointARD(features="linear", noise="shared").set_fit_request(sample_weight=True)
        piped = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
        piped.fit(X, y, sample_weight=weight)
        search = GridSearchCV(model.set_score_request(sample_weight=True), {"tol": [1e-3, 1e-4]}, cv=2)
        search.fit(X, y, sample_weight=weight)
    scaled = StandardScaler().fit_transform(X)
    alone = JointARD(features="linear", noise="shared").fit(scaled, y, sample_weight=weight)
    np.testing.assert_allclose(piped.predict(X), alone.predict(scaled), rtol=1e-9)


def test_selected_columns_keep_their_names(line):
    pandas = pytest.importorskip("pandas")
    X, y = line
    frame = pandas.DataFrame(X, columns=list("abcde"))
    selector = SelectFromModel(JointARD(features="linear"), threshold=0.1).set_output(transform="pandas")
    assert list(selector.fit_transform(frame, y).columns) == ["b", "d"]


def test_models_come_back_as_what_they_were(line, tmp_path):
    X, y = line
    for model in (
        ARDRegression(max_iter=77, fit_intercept=False, alpha_1=1e-5, compute_score=True),
        RVM(lengthscale=1.0, n_jobs=2),
        JointARD(features="rbf", tol=1e-3, noise="auto", noise_start=2),
    ):
        model.fit(X, y).save(tmp_path / "a.model")
        again = robustard.load(tmp_path / "a.model")
        assert type(again) is type(model)
        assert (again.predict(X) == model.predict(X)).all()
        assert again.get_params() == model.get_params()
        if isinstance(model, ARDRegression):
            assert again.alpha_ == model.alpha_ and (again.lambda_ == model.lambda_).all()


def test_rows_dropped_at_the_end_keep_their_places(line, tmp_path):
    X, y = line
    X = X.copy()
    X[-4:, 2] = np.nan
    with pytest.warns(UserWarning, match="missing"):
        model = JointARD(features="linear", missing="drop").fit(X, y)
    model.save(tmp_path / "a.model")
    again = robustard.load(tmp_path / "a.model")
    assert len(again.noise_variance_) == len(again.outlier_mask_) == 150
    assert np.isnan(again.noise_variance_[-4:]).all()
    np.testing.assert_array_equal(again.noise_variance_, model.noise_variance_)


def test_the_command_line_says_the_same_in_the_same_units(line, tmp_path, robustard_command):
    jsonschema = pytest.importorskip("jsonschema")
    X, y = line
    y = 1000.0 * y
    lines = ["x0,x1,x2,x3,x4,y"] + [",".join(repr(float(v)) for v in [*row, target]) for row, target in zip(X, y)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    schema = json.loads((Path(__file__).resolve().parents[2] / "docs" / "fit.schema.json").read_text(encoding="utf-8"))
    for features, noise in [("linear", "auto"), ("linear", "student-t"), ("smooth", "auto"), ("auto", "auto")]:
        command = [robustard_command, "fit", str(tmp_path / "table.csv"), "--target", "y", "--json", "--quiet"]
        done = subprocess.run([*command, "--features", features, "--noise", noise], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        theirs = json.loads(done.stdout)
        jsonschema.validate(theirs, schema)
        ours = JointARD(features=features, noise=noise).fit(X, y)
        assert theirs["evidence"] == ours.evidence_
        assert theirs["noise_variance"] == list(ours.noise_variance_)
        assert [column["importance"] for column in theirs["effects"]["columns"]] == list(ours.feature_importances_)
        assert (theirs["features"] is None) == (ours.features_ == "smooth")
        known = {feature["name"]: feature for feature in theirs["features"] or []}
        for place, name in enumerate(ours.coef_names_ if known else []):
            assert known[name]["coefficient"] == ours.coef_[place]
            assert known[name]["precision"] == ours.weight_precision_[place]
            assert known[name]["standard_error"] == ours.coef_std_[place]
        assert list(theirs["quality"].values()) == list(ours.loo_[:4])
        assert [row["row"] - 1 for row in theirs["flagged_rows"]] == sorted(
            np.flatnonzero(ours.outlier_mask_),
            key=lambda row: [r["row"] - 1 for r in theirs["flagged_rows"]].index(row),
        )
        if features == "linear" and noise == "student-t":
            # The target's unit is in everything: a thousandth of it is a thousandth of the coefficients.
            small = JointARD(features=features, noise=noise).fit(X, y / 1000)
            np.testing.assert_allclose(ours.coef_, 1000 * small.coef_, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(ours.weight_precision_, small.weight_precision_ / 1e6, rtol=1e-3)
            np.testing.assert_allclose(ours.evidence_, small.evidence_ - 150 * np.log(1000), rtol=1e-6)
