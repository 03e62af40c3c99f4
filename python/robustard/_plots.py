"""Pictures of fitted models, by matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from ._base import Regression

_BLUE, _RED, _GREY = "#3a6ea5", "#c8432b", "#8a8f98"
#: Levels of a calibration plot.
_LEVELS = np.linspace(0.02, 0.98, 25)


def _axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Any:
    if ax is None:
        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def features(model: Regression, most: int, *, ax: Any) -> Any:
    """Coefficients with intervals; relevances of curves, whose coefficients say little."""
    order = np.argsort(-model.feature_importances_, kind="stable")
    order = order[model.feature_importances_[order] > 0][:most][::-1]
    ax = _axes(ax, height=1.2 + 0.26 * max(len(order), 3))
    names = [model.coef_names_[place] for place in order]
    places = np.arange(len(order))
    if model.features_ == "linear":
        errors = 1.96 * model.coef_std_[order]
        ax.axvline(0, color=_GREY, linewidth=0.8)
        ax.errorbar(model.coef_[order], places, xerr=errors, fmt="o", color=_BLUE, markersize=5, linewidth=1.4)
        ax.set_xlabel("coefficient with its 95% interval")
    else:
        ax.barh(places, model.feature_importances_[order], color=_BLUE, height=0.65)
        ax.set_xlabel("share of the relevance")
    ax.set_yticks(places, names)
    left_out = len(model.coef_names_) - int((model.feature_importances_ > 0).sum())
    ax.set_title(
        f"{len(order)} most relevant features; {left_out} of {len(model.coef_names_)} do not matter", fontsize=10
    )
    return ax


def rows(model: Regression, *, ax: Any) -> Any:
    """Leave-one-out residuals in standard deviations."""
    ax = _axes(ax)
    diagnosis = model._fitted.diagnose()
    flagged, z = diagnosis["flagged"], diagnosis["z"]
    ax.axhspan(-diagnosis["threshold"], diagnosis["threshold"], color=_GREY, alpha=0.12, linewidth=0)
    ax.scatter(model._rows[~flagged], z[~flagged], s=9, color=_BLUE, linewidths=0, rasterized=len(z) > 5000)
    ax.scatter(model._rows[flagged], z[flagged], s=22, color=_RED, linewidths=0)
    worst = sorted(np.flatnonzero(flagged), key=lambda row: -abs(z[row]))[:10]
    for row in worst:
        ax.annotate(
            str(model._rows[row]), (model._rows[row], z[row]), xytext=(4, 2), textcoords="offset points", fontsize=8
        )
    if np.abs(z).max(initial=0.0) > 30:
        ax.set_yscale("symlog", linthresh=5)
    ax.set_xlabel("row")
    ax.set_ylabel("off, in standard deviations")
    count = int(flagged.sum())
    ax.set_title(f"{count} of {len(z)} rows look wrong" if count else "no row looks wrong", fontsize=10)
    return ax


def fit(model: Regression, level: float, X: Any, *, ax: Any) -> Any:
    """The curve of one input, or predictions against actual values."""
    ax = _axes(ax)
    diagnosis = model._fitted.diagnose()
    flagged, actual = diagnosis["flagged"], diagnosis["actual"]
    x = _single_input(model, X)
    if x is None:
        predicted = actual - diagnosis["loo_residual"]
        ends = [float(actual[~flagged].min(initial=np.inf)), float(actual[~flagged].max(initial=-np.inf))]
        ax.plot(ends, ends, color=_GREY, linewidth=0.8)
        ax.scatter(predicted[~flagged], actual[~flagged], s=9, color=_BLUE, linewidths=0)
        ax.scatter(predicted[flagged], actual[flagged], s=22, color=_RED, linewidths=0, label="looks wrong")
        ax.set_xlabel("predicted from the other rows")
        ax.set_ylabel(model._fitted.target)
    else:
        grid = np.linspace(np.nanmin(x), np.nanmax(x), 400).reshape(-1, 1)
        curve = model._predicted(grid, level)
        used = x[model._rows]
        ax.fill_between(
            grid[:, 0],
            curve["lower"],
            curve["upper"],
            color=_BLUE,
            alpha=0.15,
            linewidth=0,
            label=f"{100 * level:g}% interval",
        )
        ax.plot(grid[:, 0], curve["mean"], color=_BLUE, linewidth=1.6)
        ax.scatter(used[~flagged], actual[~flagged], s=12, color=_GREY, linewidths=0)
        ax.scatter(used[flagged], actual[flagged], s=24, color=_RED, linewidths=0, label="looks wrong")
        ax.set_xlabel(model._column_names[0])
        ax.set_ylabel(model._fitted.target)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize=9)
    return ax


def _single_input(model: Regression, X: Any) -> Any:
    """The values of the one input, if there is only one, of numbers."""
    if model.n_features_in_ != 1 or model._fitted.categories:
        return None
    if X is not None:
        X, kind, _ = model._inputs(X, reset=False)
    elif hasattr(model, "_training"):
        X, kind = model._training[:2]
    else:
        raise ValueError("a model that was loaded or unpickled does not have its table; give X as in fit")
    if kind == "polars":
        X = X.to_numpy()
    elif kind == "pyarrow":
        X = np.column_stack([X.column(0).to_numpy(zero_copy_only=False)])
    try:
        return np.asarray(X, dtype=np.float64)[:, 0]
    except (TypeError, ValueError):
        return None


def path(model: Regression, *, ax: Any) -> Any:
    """Relevances over the iterations."""
    ax = _axes(ax)
    iterations, lines = model._fitted.feature_paths()
    names = model._fitted.group_names()
    for group, values in lines:
        relevance = np.array([value if value else np.nan for value in values], dtype=np.float64)
        ax.plot(iterations, relevance, linewidth=1.1)
        if len(lines) <= 15 and np.isfinite(relevance[-1]):
            ax.annotate(
                names[group],
                (iterations[-1], relevance[-1]),
                xytext=(3, -2),
                textcoords="offset points",
                fontsize=7,
            )
    ax.set_yscale("log")
    ax.set_xlabel("iteration")
    ax.set_ylabel("relevance 1/γ")
    return ax


def calibration(model: Regression, X: Any, y: Any, *, ax: Any) -> Any:
    """Coverage of intervals."""
    ax = _axes(ax, width=4.6, height=4.4)
    if X is None:
        coverage = [model._fitted.coverage(float(level)) for level in _LEVELS]
    else:
        actual = np.asarray(y, dtype=np.float64).reshape(-1, 1)
        if y is None or len(actual) != len(model.predict(X)):
            raise ValueError("give y, too, one value for each row of X")
        coverage = []
        for level in _LEVELS:
            low, high = model.predict_interval(X, level=float(level)).T
            coverage.append(float(np.mean((actual[:, 0] >= low) & (actual[:, 0] <= high))))
    ax.plot([0, 1], [0, 1], color=_GREY, linewidth=0.8)
    ax.plot(_LEVELS, coverage, color=_BLUE, marker="o", markersize=3.5)
    ax.set_xlabel("level of the interval")
    ax.set_ylabel("rows inside" + (", each predicted from the others" if X is None else ""))
    ax.set_aspect("equal")
    return ax
