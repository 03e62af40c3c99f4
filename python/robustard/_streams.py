"""Tables in files and streams of batches, which need not fit in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from ._robustard import Partition as _Partition
from ._robustard import fit_batches, fit_files, fit_partitions

if TYPE_CHECKING:
    from ._robustard import Call, Fitted, Streaming

_UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "b": 1.0}


@dataclass
class Stream:
    """Where the rows of a table come from: files, batches that are asked for, or partitions elsewhere."""

    paths: list[str] | None
    open: Callable[[], Any] | None
    #: The columns that are categories because they came as such.
    categories: list[str]
    #: Brings work to rows that lie elsewhere.
    run: Callable[[bytes], Iterable[bytes]] | None = None

    @classmethod
    def elsewhere(cls, run: Callable[[bytes], Iterable[bytes]]) -> Stream:
        """Rows in other processes or on other machines."""
        if not callable(run):
            raise TypeError("run must be a function that calls partial_sums on each partition")
        return cls(None, None, [], run)

    def fit(self, columns: str, streaming: Streaming, call: Call) -> Fitted:
        """Fits them."""
        if self.run is not None:
            return fit_partitions(self.run, columns, streaming, call)
        if self.paths is not None:
            return fit_files(self.paths, columns, streaming, call)
        assert self.open is not None
        return fit_batches(self.open, columns, streaming, call)


def partial_sums(batches: Any, broadcast: bytes) -> bytes:
    """What the rows of a partition add up to.

    The building block of fits to rows that lie in other processes or on other machines: `JointARD.fit_partitions` asks for these sums,
    pass by pass, and needs nothing else of the rows. The bytes are of a size that does not depend on the number of rows.

    Parameters
    ----------
    batches : Arrow data
        The rows of the partition, target included: a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a polars or pandas data
        frame, a list of record batches, or anything else with the Arrow stream interface.
    broadcast : bytes
        What the fit asks: the argument of the function that is given to `fit_partitions`.

    Returns
    -------
    bytes
        The answer, for `fit_partitions`.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from robustard import JointARD, partial_sums
    >>> x = np.linspace(0, 1, 40)
    >>> table = pa.table({"x": x, "y": 2 * x + 0.1 * np.cos(7 * x)})
    >>> partitions = [table.slice(0, 10), table.slice(10)]
    >>> model = JointARD(features="linear").fit_partitions(
    ...     lambda broadcast: [partial_sums(rows, broadcast) for rows in partitions], target="y")
    >>> model.kept_rows_.size
    40
    """
    return Partition(batches).sums(broadcast)


class Partition:
    """The rows of a partition, kept where they are between the passes of a fit.

    Does what `partial_sums` does, but reads and encodes the rows only once.

    Parameters
    ----------
    batches : Arrow data
        The rows, target included, as for `partial_sums`.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from robustard import JointARD, Partition
    >>> x = np.linspace(0, 1, 40)
    >>> table = pa.table({"x": x, "y": 2 * x + 0.1 * np.cos(7 * x)})
    >>> partitions = [Partition(table.slice(0, 10)), Partition(table.slice(10))]
    >>> model = JointARD(features="linear").fit_partitions(
    ...     lambda broadcast: [partition.sums(broadcast) for partition in partitions], target="y")
    >>> model.kept_rows_.size
    40
    """

    def __init__(self, batches: Any) -> None:
        self._rows = _Partition(arrow_stream(batches))

    def sums(self, broadcast: bytes) -> bytes:
        """What the rows come to, for what the fit asks.

        Parameters
        ----------
        broadcast : bytes
            The argument of the function that is given to `JointARD.fit_partitions`.

        Returns
        -------
        bytes
            The answer, for `fit_partitions`.

        Examples
        --------
        >>> from robustard import Partition
        >>> Partition({}).sums(b"")
        Traceback (most recent call last):
        TypeError: batches is a dict; give Arrow data: record batches, a table or a data frame
        """
        return self._rows.sums(broadcast)


def arrow_stream(batches: Any) -> Any:
    """An object with the Arrow stream interface."""
    if hasattr(batches, "__arrow_c_stream__"):
        return batches
    import pyarrow

    if hasattr(batches, "scanner"):
        return batches.scanner().to_reader()
    if isinstance(batches, pyarrow.RecordBatch) or hasattr(batches, "__arrow_c_array__"):
        return pyarrow.Table.from_batches([pyarrow.record_batch(batches)])
    if isinstance(batches, (list, tuple)) and batches:
        return pyarrow.Table.from_batches(batches)
    if isinstance(batches, (list, tuple)):
        return pyarrow.table({})
    raise TypeError(f"batches is a {type(batches).__name__}; give Arrow data: record batches, a table or a data frame")


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
