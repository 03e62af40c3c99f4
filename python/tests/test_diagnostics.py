"""Influence, label issues and summaries of rows."""

from __future__ import annotations

import numpy as np
import pytest
from robustard import JointARD

pytest.importorskip("pandas")


def clean(n: int = 300, p: int = 4):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, p))
    return X, X @ np.arange(1.0, p + 1) + 2 + 0.5 * rng.normal(size=n)


def test_influence_is_that_of_statsmodels_where_nothing_is_shrunk():
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = clean()
    X[0] *= 4  # a row of high leverage
    y[0] += 3
    y[7] += 4
    ours = JointARD(
        features="linear", noise="shared", weight_precision_bounds=(1e-12, 1e-9), initial_weight_precision=1e-10
    ).fit(X, y)
    theirs = statsmodels.OLS(y, statsmodels.add_constant(X)).fit().get_influence().summary_frame()
    frame = ours.influence()
    for name in ["hat_diag", "cooks_d", "standard_resid", "student_resid", "dffits", "dffits_internal"]:
        np.testing.assert_allclose(frame[name], theirs[name], rtol=0.02, atol=2e-4, err_msg=name)


def test_leave_one_out_is_that_of_refits():
    X, y = clean(60, 3)
    model = JointARD(features="linear", noise="shared").fit(X, y)
    # The same precisions, one row left out: ridge by hand.
    precision, variance = np.append(model.weight_precision_, 1e-12), model.noise_variance_[0]
    design = np.column_stack([X - X.mean(axis=0), np.ones(60)])
    for row in [0, 17, 59]:
        kept = np.arange(60) != row
        A = design[kept].T @ design[kept] / variance + np.diag(precision)
        weights = np.linalg.solve(A, design[kept].T @ (y[kept] - y.mean()) / variance)
        residual = y[row] - y.mean() - design[row] @ weights
        np.testing.assert_allclose(model.influence()["loo_residual"][row], residual, rtol=1e-5)


def test_wrong_labels_are_found(line):
    X, y = line
    issues = JointARD().fit(X, y).find_label_issues()
    assert list(issues.columns) == ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert list(np.flatnonzero(issues["is_label_issue"])) == [10, 50, 90]
    assert list(np.argsort(issues["label_quality"])[:3].sort_values()) == [10, 50, 90]
    assert (issues["label_quality"][issues["is_label_issue"]] < 0.5).all()
    assert issues["label_quality"].between(0, 1).all()
    np.testing.assert_allclose(issues["given_label"], y)
    right = X @ [0, 2, 0, -1, 0] + 4
    np.testing.assert_allclose(issues["predicted_label"], right, atol=0.1)


def test_clean_tables_have_no_issues():
    X, y = clean()
    model = JointARD(features="linear").fit(X, y)
    assert model.find_label_issues()["is_label_issue"].sum() <= 2
    assert not model.find_label_issues()["label_quality"].isna().any()


def test_columns_of_influence(line):
    X, y = line
    frame = JointARD().fit(X, y).influence()
    assert {
        "hat_diag",
        "cooks_d",
        "standard_resid",
        "student_resid",
        "dffits",
        "noise_variance",
        "relevance",
        "loo_residual",
    } <= set(frame)
    assert np.isfinite(frame.to_numpy()).all() and len(frame) == 150
    assert list(frame["student_resid"].abs().nlargest(3).index.sort_values()) == [10, 50, 90]
    np.testing.assert_allclose(frame["relevance"], 1 / frame["noise_variance"])
