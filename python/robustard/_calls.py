"""How the engine is called: options and descriptions as JSON, and progress."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import numpy as np


def description(estimator: object) -> str:
    """The class and the parameters that a file can hold, so that a saved model comes back as itself."""
    values = {name: getattr(estimator, name) for name in _defaults(type(estimator))}
    given = {name: value for name, value in values.items() if value is not _defaults(type(estimator))[name]}
    plain = {name: _plain(value) for name, value in given.items()}
    known = {name: value for name, value in plain.items() if value is not _UNKNOWN}
    return json.dumps({"class": type(estimator).__name__, "parameters": known})


#: The parameters of classes that were asked for, with their defaults: scikit-learn reads signatures each time.
_DEFAULTS: dict[Any, dict[str, Any]] = {}


def _defaults(kind: Any) -> dict[str, Any]:
    if kind not in _DEFAULTS:
        signature = inspect.signature(kind).parameters
        _DEFAULTS[kind] = {name: signature[name].default for name in kind._get_param_names()}
    return _DEFAULTS[kind]


#: What a file cannot hold.
_UNKNOWN = object()


def _plain(value: Any) -> Any:
    """A parameter as JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(inner) for inner in value]
    return _UNKNOWN


class Progress:
    """One line on standard error, written over itself."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, stage: str, record: tuple[int, float, int] | None) -> None:
        line = stage
        if record is not None:
            iteration, objective, columns = record
            line += f", iteration {iteration}, objective {objective:.6g}, {columns} columns"
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def end(self) -> None:
        if self._width:
            print(file=sys.stderr)


def to_json(options: dict[str, Any]) -> str:
    """Options as the engine reads them; what is no number, text or list is named."""

    def plain(name: str, value: Any) -> Any:
        if type(value) in (str, bool, int):
            return value
        if isinstance(value, dict):
            return {key: plain(key, inner) for key, inner in value.items()}
        if isinstance(value, (list, tuple, np.ndarray)):
            return [plain(name, inner) for inner in value]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not np.isfinite(value):
            raise ValueError(f"{name} is {value}; it must be finite")
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"{name} is {value!r}; it must be a number, a text or a list of numbers")
        return value

    return json.dumps(plain("options", options))
