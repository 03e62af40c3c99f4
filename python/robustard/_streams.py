"""Tables in files and streams of batches, which need not fit in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from ._robustard import fit_batches, fit_files

if TYPE_CHECKING:
    from ._robustard import Call, Fitted, Streaming

_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "b": 1.0}


@dataclass
class Stream:
    """Where the rows of a table come from: files, or batches that are asked for."""

    paths: list[str] | None
    open: Callable[[], Any] | None
    #: The columns that are categories because they came as such.
    categories: list[str]

    def fit(self, columns: str, streaming: Streaming, call: Call) -> Fitted:
        """Fits them."""
        if self.paths is not None:
            return fit_files(self.paths, columns, streaming, call)
        assert self.open is not None
        return fit_batches(self.open, columns, streaming, call)


def is_stream(X: Any) -> bool:
    """Whether this is a table that the engine reads piece by piece, target included."""
    return _paths(X) is not None or _kind(X) is not None


def _paths(X: Any) -> list[str] | None:
    if isinstance(X, (str, PathLike)):
        return [str(fspath(X))]
    if isinstance(X, (list, tuple)) and X and all(isinstance(path, (str, PathLike)) for path in X):
        return [str(fspath(path)) for path in X]
    return None


def _kind(X: Any) -> str | None:
    modules = {base.__module__.partition(".")[0] for base in type(X).__mro__}
    if "pyarrow" in modules and hasattr(X, "scanner"):
        return "dataset"
    if "pyarrow" in modules and hasattr(X, "read_next_batch"):
        return "reader"
    if "polars" in modules and hasattr(X, "collect_schema") and not hasattr(X, "get_columns"):
        return "lazy"
    return None


@contextmanager
def opened(X: Any) -> Iterator[Stream]:
    """The table as the engine reads it. What a lazy frame gives is kept in a temporary file meanwhile."""
    paths, kind = _paths(X), _kind(X)
    if paths is not None:
        yield Stream(paths, None, [])
    elif kind == "lazy":
        categories = [
            name for name, dtype in X.collect_schema().items() if str(dtype).startswith(("Categorical", "Enum"))
        ]
        with tempfile.TemporaryDirectory(prefix="robustard-") as folder:
            path = os.path.join(folder, "table.arrow")
            X.sink_ipc(path, compression="uncompressed")
            yield Stream([path], None, categories)
    else:
        yield Stream(None, _batches(X, kind), _dictionaries(X.schema))


def _batches(X: Any, kind: str | None) -> Callable[[], Any]:
    if kind == "dataset":
        return lambda: X.scanner().to_reader()
    waiting = [X]
    return lambda: waiting.pop() if waiting else None


def _dictionaries(schema: Any) -> list[str]:
    import pyarrow

    return [field.name for field in schema if pyarrow.types.is_dictionary(field.type)]


def size(memory: Any) -> int | None:
    """Bytes: a number, or a text such as '2GB'."""
    number = memory
    if isinstance(memory, str):
        text = memory.strip().lower()
        name = next((name for name in _UNITS if text.endswith(name)), "")
        try:
            number = float(text.removesuffix(name)) * _UNITS.get(name, 1.0)
        except ValueError:
            number = None
    elif memory is None:
        return None
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not 0 < number < 2**63:
        raise ValueError(f"memory is {memory!r}; it must be a number of bytes or a text such as '2GB'")
    return int(number)


def path_or_none(name: str, value: Any) -> str | None:
    """A path that may be absent."""
    if value is None:
        return None
    if not isinstance(value, (str, PathLike)):
        raise ValueError(f"{name} is {value!r}; it must be a path")
    return str(fspath(value))


def names_only(categorical: Any) -> list[str]:
    """Columns that are categories, of a table whose columns are not yet known."""
    if categorical is None:
        return []
    given: Sequence[Any] = [categorical] if isinstance(categorical, str) else categorical
    for name in given:
        if not isinstance(name, str):
            raise ValueError(f"categorical has {name!r}; columns of files are given by their names")
    return list(given)
