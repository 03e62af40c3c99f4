"""Tables from Python's many forms to the engine's, and results back to the form that came in."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._robustard import Frame

Kind = Literal["pandas", "polars", "pyarrow", "arrow"]


def unmasked(values: Any) -> Any:
    """Masked values as missing ones: NumPy drops a mask, and what is under it would count as data."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    return np.ma.filled(values.astype(np.float64), np.nan)


def kind_of(X: Any) -> Kind | None:
    """What data frame this is, or None for arrays and the like."""
    if type(X) is np.ndarray:
        return None
    # Subclasses have modules of their own.
    modules = {base.__module__.partition(".")[0] for base in type(X).__mro__}
    if "pandas" in modules and hasattr(X, "iloc") and hasattr(X, "columns"):
        return "pandas"
    if "polars" in modules and hasattr(X, "get_columns"):
        return "polars"
    if "polars" in modules and hasattr(X, "collect"):
        raise ValueError("a LazyFrame has no rows yet; give X.collect()")
    if "pyarrow" in modules and hasattr(X, "column_names"):
        return "pyarrow"
    # A pandas Series or a polars one has the interface, too, but is no table.
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):
        return "arrow"
    return None


def as_table(X: Any, kind: Kind) -> Any:
    """An object whose columns have names: of an unknown kind of frame, what pyarrow makes of it."""
    if kind != "arrow":
        return X
    import pyarrow

    return pyarrow.table(X)


def column_names(X: Any, kind: Kind) -> list[Any]:
    """The names of the columns as the frame has them."""
    if kind == "pyarrow":
        return list(X.column_names)
    return list(X.columns)


def select(X: Any, kind: Kind, names: Sequence[str]) -> Any:
    """The columns with these names, if all are there."""
    if not set(names) <= set(column_names(X, kind)):
        return X
    return X.select(list(names)) if kind in ("polars", "pyarrow") else X[list(names)]


def to_frame(
    X: Any, kind: Kind | None, names: Sequence[str], categories: Sequence[str] = ()
) -> tuple[Frame, list[str]]:
    """The engine's table, and the columns that are categories because the frame says so.

    The text of these and of `categories` is taken as it is; other text that holds numbers becomes numbers, as in files.
    """
    if kind is None:
        return Frame.from_matrix(list(names), np.asarray(X, dtype=np.float64)), []
    if kind == "pandas":
        return _from_pandas(X, list(names), list(categories))
    frame = Frame.from_arrow(list(names), X, list(categories))
    return frame, frame.categories


def numbers(X: Any, kind: Kind | None) -> npt.NDArray[np.float64] | None:
    """The table as a matrix, if it holds numbers alone: the caller's own memory where that is possible."""
    if kind is None:
        return np.require(X, dtype=np.float64, requirements="A")
    if kind == "pandas" and all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes):
        return np.require(X.to_numpy(), dtype=np.float64, requirements="A")
    return None


def _from_pandas(X: Any, names: list[str], categories: list[str]) -> tuple[Frame, list[str]]:
    if all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in X.dtypes):
        return Frame.from_matrix(names, X.to_numpy(dtype=np.float64)), []
    values: list[npt.NDArray[np.float64] | list[str | None]] = []
    categorical = []
    for place, name in enumerate(names):
        column = X.iloc[:, place]
        is_category = type(column.dtype).__name__ == "CategoricalDtype"
        numbers = None if is_category else _numbers(column)
        if is_category:
            categorical.append(name)
        values.append(_texts(column) if numbers is None else numbers)
    return Frame.from_columns(names, values, [*categories, *categorical]), categorical


def _numbers(column: Any) -> npt.NDArray[np.float64] | None:
    """A column of numbers, NaN where missing; None if it holds something else."""
    dtype_kind = getattr(column.dtype, "kind", "O")
    if dtype_kind == "c":
        raise ValueError(f"Complex data not supported: column {column.name!r}")
    if dtype_kind in "biuf":
        numbers: npt.NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return numbers
    if dtype_kind != "O" or type(column.dtype).__name__ == "StringDtype":
        return None
    if any(isinstance(value, (str, bytes)) for value in column):
        return None
    try:
        return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _texts(column: Any) -> list[str | None]:
    missing = column.isna().to_numpy()
    return [None if absent else str(value) for value, absent in zip(column, missing, strict=True)]


def row_count(X: Any, kind: Kind | None) -> int:
    """How many rows there are."""
    if kind == "pyarrow":
        return int(X.num_rows)
    if kind == "polars":
        return int(X.height)
    return int(X.shape[0])


def make(kind: Kind | None, columns: Mapping[str, npt.NDArray[Any]], index: Any = None) -> Any:
    """A data frame of the given kind; pandas for arrays, or whatever is installed."""
    if kind == "polars":
        import polars

        return polars.DataFrame(dict(columns))
    if kind in ("pyarrow", "arrow"):
        import pyarrow

        return pyarrow.table(dict(columns))
    if kind == "pandas" or _is_there("pandas"):
        import pandas

        return pandas.DataFrame(dict(columns), index=index)
    if _is_there("polars"):
        return make("polars", columns)
    raise ImportError("a data frame needs pandas, polars or pyarrow: pip install 'robustard[frames]'")


def _is_there(module: str) -> bool:
    import importlib.util

    return module in sys.modules or importlib.util.find_spec(module) is not None
