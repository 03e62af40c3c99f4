"""A fitted model in a few lines of HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ._base import Regression

_MOST = 8
_STYLE = (
    "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:46em;border:1px solid #8884;"
    "border-radius:6px;padding:10px 14px"
)
_TABLE = "border-collapse:collapse;font-size:inherit;margin:0"
_CELL = "padding:1px 14px 1px 0;text-align:right;background:none;border:none"


def html(model: Regression) -> str:
    """The summary."""
    fitted = model._fitted
    parts = [f"<div style='{_STYLE}'>"]
    parts.append(
        f"<b>{escape(type(model).__name__)}</b> predicting <b>{escape(fitted.target)}</b>: "
        f"{escape(model.features_)} features, {escape(model.noise_)}<br>"
    )
    state = "converged" if model.converged_ else f"<b>{escape(model.status_)}</b>"
    parts.append(f"{len(model._rows)} rows, {model.n_iter_} iterations, {state}<br>")
    loo = model.loo_
    parts.append(
        f"Each row from the others: RMSE {loo.rmse:.4g}, R² {loo.r2:.3f}, {100 * loo.coverage_95:.0f}% of rows in their 95% "
        f"interval{' (too good: few rows for so many precisions)' if loo.optimistic else ''}"
    )
    parts.append(_features(model))
    parts.append(_rows(model))
    parts.append("</div>")
    return "".join(parts)


def _features(model: Regression) -> str:
    known = sorted(model._effects["columns"], key=lambda effect: -effect["importance"])
    clear = [effect for effect in known if effect["standing"] == "clear"]
    shown = (clear or [effect for effect in known if effect["standing"] != "dropped"])[:_MOST]
    lines = []
    for effect in shown:
        bar = max(2, round(80 * effect["importance"] / known[0]["importance"]))
        lines.append(
            f"<tr><td style='{_CELL};text-align:left'>{escape(effect['name'])}</td>"
            f"<td style='{_CELL}'>{100 * effect['importance']:.1f}%</td>"
            f"<td style='{_CELL}'>R² lost without: {effect['loss']:.3f} (by chance {effect['loss_by_chance']:.3f})</td>"
            f"<td style='{_CELL};text-align:left'><div style='height:9px;width:{bar}px;background:#3a6ea5'></div></td></tr>"
        )
    more = f"and {len(clear) - _MOST} more" if len(clear) > _MOST else ""
    title = f"{len(clear)} of {len(known)} columns clearly matter"
    return f"<div style='margin-top:6px'>{title}</div><table style='{_TABLE}'>{''.join(lines)}</table>{more}"


def _rows(model: Regression) -> str:
    diagnosis = model._fitted.diagnose()
    flagged = np.flatnonzero(diagnosis["flagged"])
    if not len(flagged):
        return "<div style='margin-top:6px'>No outliers flagged</div>"
    flagged = flagged[np.argsort(-np.abs(diagnosis["z"][flagged]), kind="stable")]
    lines = [
        f"<tr><td style='{_CELL}'>row {model._rows[row]}</td><td style='{_CELL}'>{diagnosis['actual'][row]:.4g}</td>"
        f"<td style='{_CELL}'>expected {diagnosis['actual'][row] - diagnosis['loo_residual'][row]:.4g}</td>"
        f"<td style='{_CELL};color:#c8432b'>{diagnosis['z'][row]:+.1f} s.d.</td></tr>"
        for row in flagged[:_MOST]
    ]
    more = f"and {len(flagged) - _MOST} more: find_label_issues()" if len(flagged) > _MOST else ""
    noun = "1 outlier" if len(flagged) == 1 else f"{len(flagged)} outliers"
    table = f"<table style='{_TABLE}'>{''.join(lines)}</table>"
    return f"<div style='margin-top:6px'>{noun} flagged</div>{table}{more}"
