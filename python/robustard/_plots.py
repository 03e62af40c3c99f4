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
    """Coefficients with intervals of linear features; importance of columns otherwise."""
    if model._fitted.is_linear:
        size = np.abs(model.coef_) / np.where(model.coef_std_ > 0, model.coef_std_, np.inf)
        order = np.argsort(-size, kind="stable")
        order = order[model.coef_[order] != 0][:most][::-1]
        ax = _axes(ax, height=1.2 + 0.26 * max(len(order), 3))
        places = np.arange(len(order))
        errors = 1.96 * model.coef_std_[order]
        ax.axvline(0, color=_GREY, linewidth=0.8)
        ax.errorbar(model.coef_[order], places, xerr=errors, fmt="o", color=_BLUE, markersize=5, linewidth=1.4)
        ax.set_xlabel("coefficient with its 95% interval")
        ax.set_yticks(places, [model.coef_names_[place] for place in order])
        left_out = int((model.coef_ == 0).sum())
        title = f"{len(order)} of {len(model.coef_)} coefficients, clearest at the top; {left_out} are zero"
    else:
        known = _ranked(model)
        shown = known[:most][::-1]
        ax = _axes(ax, height=1.2 + 0.26 * max(len(shown), 3))
        places = np.arange(len(shown))
        ax.barh(places, [100 * effect["importance"] for effect in shown], color=_BLUE, height=0.65)
        ax.set_xlabel("share of the variance of predictions, %")
        ax.set_yticks(places, [effect["name"] for effect in shown])
        clear = sum(effect["standing"] == "clear" for effect in known)
        title = f"{clear} of {len(known)} columns clearly matter"
    ax.set_title(title, fontsize=10)
    return ax


def _ranked(model: Regression) -> list[dict[str, Any]]:
    return sorted(model._effects["columns"], key=lambda effect: -effect["importance"])


def effects(model: Regression, columns: list[str] | None, most: int, *, ax: Any) -> Any:
    """Main effects with intervals."""
    known = {effect["name"]: effect for effect in _ranked(model)}
    if columns is None:
        used = [name for name, effect in known.items() if effect["standing"] != "dropped"]
        columns = (used or list(known))[: 1 if ax is not None else most]
    for name in columns:
        if name not in known:
            raise ValueError(f"the model has no column {name!r}; it has {', '.join(known)}")
    if ax is not None:
        if len(columns) != 1:
            raise ValueError("one ax takes one column; give none for several")
        all_axes = [_axes(ax)]
    else:
        across = min(3, max(len(columns), 1))
        down = -(-len(columns) // across)
        figure = plt.figure(figsize=(3.4 * across, 2.7 * down), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for unused in grid[len(columns) :]:
            unused.set_visible(False)
        all_axes = [_axes(axes) for axes in grid[: len(columns)]]
    for name, axes in zip(columns, all_axes, strict=True):
        _effect(axes, known[name], model._fitted.target)
    return all_axes


def _effect(ax: Any, effect: dict[str, Any], target: str) -> None:
    points = effect["points"]
    values = np.array([point["effect"] for point in points])
    errors = 1.96 * np.array([point["error"] for point in points])
    ax.axhline(0, color=_GREY, linewidth=0.8)
    numbers = [place for place, point in enumerate(points) if isinstance(point["value"], float)]
    others = [place for place in range(len(points)) if place not in numbers]
    if numbers:
        x = [points[place]["value"] for place in numbers]
        y, off = values[numbers], errors[numbers]
        ax.fill_between(x, y - off, y + off, color=_BLUE, alpha=0.18, linewidth=0)
        ax.plot(x, y, color=_BLUE, linewidth=1.6)
        ax.plot(effect["rug"], np.zeros(len(effect["rug"])), "|", color=_GREY, transform=ax.get_xaxis_transform())
    else:
        others.sort(key=lambda place: values[place])
        ax.errorbar(range(len(others)), values[others], yerr=errors[others], fmt="o", color=_BLUE, markersize=5)
        ax.set_xticks(range(len(others)), [points[place]["value"] for place in others], rotation=45, ha="right")
    ax.set_xlabel(effect["name"])
    ax.set_ylabel(f"effect on {target}")
    ax.set_title(f"{100 * effect['importance']:.1f}% of the variance", fontsize=9)


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
    ax.set_title(f"{count} of {len(z)} rows flagged as outliers" if count else "no outliers flagged", fontsize=10)
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
        ax.scatter(predicted[flagged], actual[flagged], s=22, color=_RED, linewidths=0, label="outlier")
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
        ax.scatter(used[flagged], actual[flagged], s=24, color=_RED, linewidths=0, label="outlier")
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
