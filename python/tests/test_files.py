"""Model files, and the command line on the same data."""

from __future__ import annotations

import json
import re
import subprocess

import numpy as np
import pytest
import robustard
from robustard import RVM, JointARD


def write_csv(path, X, y, weight=None):
    """A table whose numbers are read back bit by bit."""
    names = [f"x{k}" for k in range(X.shape[1])] + ["y"] + (["w"] if weight is not None else [])
    table = np.column_stack([X, y] + ([weight] if weight is not None else []))
    lines = [",".join(names)] + [",".join(repr(float(value)) for value in row) for row in table]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "options, arguments",
    [
        ({}, []),
        (dict(features="linear", noise="shared"), ["--features", "linear", "--noise", "shared"]),
        (
            dict(features="linear", noise="student-t", solver="mackay"),
            ["--features", "linear", "--noise", "student-t", "--solver", "mackay"],
        ),
        (dict(features="poly:3", tol=1e-5), ["--features", "poly:3", "--set", "tolerance=1e-5"]),
        (dict(features="rff:30", random_state=4), ["--features", "rff:30", "--seed", "4"]),
        (dict(features="rbf", lengthscale=1.0), ["--features", "rbf", "--lengthscale", "1"]),
        (dict(features="linear", preset="paper"), ["--features", "linear", "--preset", "paper"]),
        (
            dict(features="linear", fit_intercept=False, standardize=False),
            ["--features", "linear", "--no-intercept", "--no-standardize"],
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_same_coefficients_as_the_command_line(options, arguments, line, tmp_path, robustard_command):
    X, y = line
    path = write_csv(tmp_path / "table.csv", X, y)
    theirs = json.loads(run(robustard_command, "fit", path, "--target", "y", "--json", "--quiet", *arguments))
    ours = JointARD(**options).fit(X, y)
    assert [column["importance"] for column in theirs["effects"]["columns"]] == list(ours.feature_importances_)
    assert hasattr(ours, "weights_") == (theirs["features"] is not None)
    if theirs["features"] is not None:
        coefficients = {feature["name"]: feature["coefficient"] for feature in theirs["features"]}
        # The command line counts rows from 1.
        names = [re.sub(r"^row (\d+)$", lambda row: f"row {int(row[1]) + 1}", name) for name in ours.coef_names_]
        assert [coefficients[name] for name in names] == list(ours.weights_)
    assert theirs["iterations"] == ours.n_iter_ and theirs["status"] == ours.status_
    assert theirs["noise_variance"] == list(ours.noise_variance_)


def test_weights_as_in_the_command_line(line, tmp_path, robustard_command):
    X, y = line
    weight = 1.0 + (np.arange(150) % 3)
    path = write_csv(tmp_path / "table.csv", X, y, weight)
    theirs = json.loads(
        run(robustard_command, "fit", path, "--target", "y", "--weights", "w", "--json", "--features", "linear")
    )
    ours = JointARD(features="linear").fit(X, y, sample_weight=weight)
    coefficients = {feature["name"]: feature["coefficient"] for feature in theirs["features"]}
    assert [coefficients[name] for name in ours.coef_names_] == list(ours.coef_)


def test_model_files_go_both_ways(line, tmp_path, robustard_command):
    X, y = line
    table = write_csv(tmp_path / "table.csv", X, y)
    model = JointARD().fit(X, y)
    model.save(tmp_path / "python.model")
    run(robustard_command, "predict", tmp_path / "python.model", table, "-o", tmp_path / "predicted.csv")
    predicted = np.genfromtxt(tmp_path / "predicted.csv", delimiter=",", names=True)
    mean, std = model.predict(X, return_std=True)
    name = next(name for name in predicted.dtype.names if "predict" in name or "mean" in name)
    np.testing.assert_allclose(predicted[name], mean, rtol=1e-12)
    run(robustard_command, "fit", table, "--target", "y", "-o", tmp_path / "command.model", "--quiet")
    loaded = robustard.load(tmp_path / "command.model")
    assert isinstance(loaded, JointARD)
    assert (loaded.predict(X) == mean).all()
    assert (loaded.predict(X, return_std=True)[1] == std).all()
    assert list(np.flatnonzero(loaded.outlier_mask_)) == [10, 50, 90]


def test_a_command_line_model_takes_the_whole_table(tmp_path, robustard_command):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(2)
    frame = pandas.DataFrame({"id": [f"r{k}" for k in range(80)], "size": rng.normal(size=80), "city": list("ab") * 40})
    frame["price"] = 3 * frame["size"] + (frame["city"] == "b") + 0.1 * rng.normal(size=80)
    frame.to_csv(tmp_path / "houses.csv", index=False)
    run(
        robustard_command,
        "fit",
        tmp_path / "houses.csv",
        "--target",
        "price",
        "--id",
        "id",
        "-o",
        tmp_path / "m",
        "--quiet",
    )
    model = robustard.load(tmp_path / "m")
    assert model.score(frame, frame["price"]) > 0.98
    assert list(model.feature_names_in_) == ["size", "city"]


@pytest.mark.parametrize("estimator", [JointARD(features="linear"), JointARD(features="smooth"), RVM()], ids=repr)
def test_files_come_back(estimator, line, tmp_path):
    X, y = line
    model = estimator.fit(X, y)
    model.save(tmp_path / "a.model")
    again = robustard.load(str(tmp_path / "a.model"))
    assert type(again) is type(model)
    assert (again.predict(X) == model.predict(X)).all()
    weights = [] if not hasattr(model, "weights_") else ["weights_", "coef_std_", "weight_precision_"]
    for name in [*weights, "feature_importances_", "noise_variance_", "outlier_mask_", "scores_"]:
        assert (getattr(again, name) == getattr(model, name)).all(), name
    assert again.loo_ == model.loo_ and again.effective_support_ == model.effective_support_
    refitted = again.fit(X, y)
    np.testing.assert_allclose(refitted.predict(X), model.predict(X), rtol=1e-6)


def test_rows_keep_their_places(line, tmp_path):
    X, y = line
    weight = np.where(np.arange(150) < 20, 0.0, 1.0)
    model = RVM(lengthscale=1.0).fit(X, y, sample_weight=weight)
    assert (model.relevance_indices_ >= 20).all()
    assert model.coef_names_[0] == f"row {model._rows[model._fitted.centre_rows()[0]]}"
    model.save(tmp_path / "a.model")
    again = robustard.load(tmp_path / "a.model")
    assert (again.relevance_indices_ == model.relevance_indices_).all()
    assert len(again.noise_variance_) == 150 and np.isnan(again.noise_variance_[:20]).all()
    again.report(tmp_path / "a.html", X, y, weight)


def test_bad_files_are_refused(tmp_path):
    (tmp_path / "no.model").write_bytes(b"not a model")
    with pytest.raises(OSError, match="no.model"):
        robustard.load(tmp_path / "no.model")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        robustard.load(tmp_path / "nowhere.model")
    with pytest.raises(OSError):
        JointARD(features="linear").fit([[0.0], [1.0]], [0.0, 1.0]).save(tmp_path / "no" / "such" / "folder")


def test_report(line, tmp_path, robustard_command):
    X, y = line
    model = JointARD().fit(X, y)
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for question in ["In short", "What matters?", "Which rows should I check?"]:
        assert question in page
    # The page of the command line, but for the time that it took.
    model.save(tmp_path / "a.model")
    table = write_csv(tmp_path / "150 rows", X, y)
    run(robustard_command, "report", tmp_path / "a.model", table, "-o", tmp_path / "theirs.html", "--quiet")

    def without_times(name):
        return re.sub(r"Time: [^<]*", "", (tmp_path / name).read_text(encoding="utf-8"))

    assert without_times("theirs.html") == without_times("page.html")
    loaded = robustard.load(tmp_path / "a.model")
    with pytest.raises(ValueError, match="give X and y"):
        loaded.report(tmp_path / "b.html")
    loaded.report(tmp_path / "b.html", X, y)
    assert without_times("b.html") == without_times("page.html")
    with pytest.raises(ValueError, match="not the table"):
        loaded.report(tmp_path / "c.html", X + 1, y)
