"""Plots and notebook summaries."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from robustard import RVM, JointARD  # noqa: E402


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.mark.parametrize("features", ["linear", "smooth"])
def test_every_plot_returns_its_axes(features, line):
    X, y = line
    model = JointARD(features=features).fit(X, y)
    for plot in [model.plot_features, model.plot_rows, model.plot_fit, model.plot_path, model.plot_calibration]:
        ax = plot()
        assert isinstance(ax, plt.Axes)
        assert ax.get_xlabel() and ax.has_data()
        _, mine = plt.subplots()
        assert plot(ax=mine) is mine
        ax.figure.canvas.draw()


def test_what_plots_show(line):
    X, y = line
    model = JointARD(features="linear").fit(X, y)
    names = [text.get_text() for text in model.plot_features().get_yticklabels()]
    assert names[-1] == "x1" and "x3" in names
    assert "3 of 150 rows flagged as outliers" in model.plot_rows().get_title()
    levels, coverage = model.plot_calibration().lines[-1].get_data()
    assert np.abs(np.asarray(levels) - coverage).max() < 0.2
    fresh = model.plot_calibration(X, y).lines[-1].get_data()[1]
    assert np.all(np.diff(fresh) >= 0)


@pytest.mark.parametrize("model", [RVM(), JointARD(), JointARD(features="poly:4")], ids=repr)
def test_a_curve_of_one_input(model, mcycle):
    x, y = mcycle
    ax = model.fit(x, y).plot_fit(level=0.9)
    assert ax.get_xlabel() == "x0" and ax.get_ylabel() == "y"
    assert "90% interval" in [text.get_text() for text in ax.get_legend().get_texts()]
    grid, curve = ax.lines[0].get_data()
    assert grid[0] == x.min() and grid[-1] == x.max() and np.isfinite(curve).all()
    unpickled = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="table"):
        unpickled.plot_fit()
    assert (unpickled.plot_fit(X=x).lines[0].get_data()[0] == grid).all()
    with pytest.raises(ValueError, match="give y"):
        model.plot_calibration(x)


def test_notebooks_show_a_summary(line):
    pandas = pytest.importorskip("pandas")
    X, y = line
    table = pandas.DataFrame(X, columns=["<b>bold</b>", "b", "c", "d", "e"])
    model = JointARD(features="linear").fit(table, y)
    page = model._repr_html_()
    assert "JointARD" in page and "3 outliers flagged" in page and "row 90" in page
    assert "<b>bold" not in page
    assert model._repr_mimebundle_()["text/html"] == page
    assert "JointARD" in JointARD()._repr_html_()
