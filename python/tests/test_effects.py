"""What matters and how: importance, effects, interactions, explanations."""

import json
import re
import subprocess

import numpy as np
import pytest
from robustard import JointARD
from sklearn.feature_selection import SelectFromModel


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.5, 1.5, size=(300, 5))
    y = 2 * X[:, 0] + 1.5 * np.sin(2 * X[:, 1]) + 1.5 * X[:, 2] * X[:, 3] + 0.2 * rng.normal(size=300)
    y[[5, 80]] += 9
    return X, y


@pytest.fixture(scope="module")
def model(table):
    return JointARD().fit(*table)


def test_importances_have_one_value_per_column(model, table):
    X, y = table
    importances = model.feature_importances_
    assert importances.shape == (5,) and importances.sum() == pytest.approx(1)
    assert importances[4] < 0.1 * importances[:4].min()
    shown = model.importances()
    assert list(shown["column"])[-1] == "x4" and list(shown["standing"])[:4] == ["clear"] * 4
    assert ((shown["loss"] > shown["loss_by_chance"]) == (shown["standing"] == "clear")).all()
    chosen = SelectFromModel(JointARD(), threshold=0.02).fit(X, y).get_support()
    assert list(chosen) == [True] * 4 + [False]
    assert SelectFromModel(JointARD(features="linear"), threshold=0.5).fit(X, y).get_support()[0]


def test_effects_are_those_of_the_function(model, table):
    X, _ = table
    effects = model.effects("x1")
    truth = 1.5 * np.sin(2 * effects["value"]) - np.mean(1.5 * np.sin(2 * X[:, 1]))
    assert np.abs(effects["effect"] - truth).max() < 0.5
    assert ((effects["lower"] <= effects["effect"]) & (effects["effect"] <= effects["upper"])).all()
    assert effects["share_of_rows"].sum() == pytest.approx(1)
    assert list(model.effects()["column"].unique()) == list(model.importances()["column"])
    with pytest.raises(ValueError, match="no column 'other'"):
        model.effects("other")
    pairs = model.interactions()
    assert (pairs["column"][0], pairs["other_column"][0]) == ("x2", "x3") and pairs["share"][0] > 0.1


def test_contributions_add_up(model, table):
    X, _ = table
    why = model.explain(X[:30])
    parts = why[["average", "x0", "x1", "x2", "x3", "x4"]].sum(axis=1)
    np.testing.assert_allclose(parts, why["prediction"], atol=1e-9)
    np.testing.assert_allclose(why["prediction"], model.predict(X[:30]), atol=1e-9)
    assert np.corrcoef(why["x0"], X[:30, 0])[0, 1] > 0.99


def test_frames_with_categories_and_missing_values():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Rome", "Kyiv"], size=200)
    size = np.where(rng.random(200) < 0.1, np.nan, rng.normal(size=200))
    y = np.where(city == "Rome", 3.0, 0.0) + np.nan_to_num(size) + 0.1 * rng.normal(size=200)
    frame = pandas.DataFrame({"city": city, "size": size, "same": 1.0}, index=range(1000, 1200))
    model = JointARD(missing="impute").fit(frame, y)
    assert model.feature_importances_.shape == (3,) and model.feature_importances_[2] == 0
    levels = model.effects("city").set_index("value")["effect"]
    assert levels["Rome"] - levels["Oslo"] == pytest.approx(3, abs=0.3)
    why = model.explain(frame[:5])
    assert list(why.index) == list(frame.index[:5]) and list(why) == ["average", "city", "size", "same", "prediction"]
    np.testing.assert_allclose(why["prediction"], model.predict(frame[:5]), atol=1e-9)


def test_pictures(model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    assert len(model.plot_effects()) == 5
    assert len(model.plot_effects(["x2"])) == 1
    with pytest.raises(ValueError, match="no column 'other'"):
        model.plot_effects(["other"])
    assert "columns clearly matter" in model.plot_features().get_title()
    assert "of 5 columns clearly matter" in model._repr_html_()


def test_standard_errors_are_one_figure_everywhere(tmp_path, robustard_command):
    """With more columns than rows the fit's own noise is far too small; summary, JSON and Python say the same."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 60))
    y = 3 * X[:, 0] - 2 * X[:, 1] + 0.5 * rng.normal(size=40)
    model = JointARD(features="linear").fit(X, y)
    assert (model.coef_std_[:2] > 0.05).all()
    np.testing.assert_allclose(np.sqrt(np.diag(model.sigma_)), model.coef_std_, rtol=1e-9)
    lines = [",".join([*model.coef_names_, "y"])]
    lines += [",".join(repr(float(value)) for value in [*row, target]) for row, target in zip(X, y)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    command = [robustard_command, "fit", str(tmp_path / "table.csv"), "--target", "y", "--features", "linear"]
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    errors = {feature["name"]: feature["standard_error"] for feature in found["features"]}
    assert [errors[name] for name in model.coef_names_] == list(model.coef_std_)
    summary = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = float(re.search(r"x0 .*± (\S+)", summary)[1])
    assert shown == pytest.approx(model.coef_std_[0], rel=0.06)


def test_many_levels_name_the_way_out():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": np.arange(40.0), "name": [f"n{k}" for k in range(40)]})
    with pytest.warns(UserWarning, match=r'different values; categorical=\["name"\] uses it'):
        JointARD().fit(frame, np.arange(40.0) + np.sin(np.arange(40.0)))


def test_the_same_importance_everywhere(model, table, tmp_path, robustard_command):
    """Summary, JSON, page and Python."""
    X, y = table
    lines = ["x0,x1,x2,x3,x4,y"] + [",".join(repr(float(v)) for v in [*row, target]) for row, target in zip(X, y)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    command = [robustard_command, "fit", str(tmp_path / "table.csv"), "--target", "y"]
    page = tmp_path / "page.html"
    summary = subprocess.run([*command, "--report", str(page)], capture_output=True, text=True, check=True).stdout
    found = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    ours = model.feature_importances_
    assert [column["importance"] for column in found["effects"]["columns"]] == list(ours)
    html = page.read_text(encoding="utf-8")
    for place in range(4):
        percent = f"{100 * ours[place]:.1f}%"
        assert re.search(rf"x{place} +{re.escape(percent)}", summary), summary
        assert re.search(rf"x{place}</t[dh]>.{{0,200}}?{re.escape(percent)}", html), (place, percent)
