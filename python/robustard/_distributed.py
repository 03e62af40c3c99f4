"""What fits on clusters have in common: a plan of the partitions, the work that is done where they are, and results in order.

An engine only has to run `answers` on each partition and to bring back what it gives. Partitions have numbers, answers carry them: in
which order, on which worker and how often a partition is worked on makes no difference to what is fitted.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

from ._streams import Partition

#: Rows of a partition of files: larger files are divided at their row groups.
PARTITION_ROWS = 1_000_000
#: Bytes of rows that a process of an engine keeps between two passes.
KEPT_BYTES = 4_000_000_000


@dataclass(frozen=True)
class Piece:
    """Some row groups of a Parquet file."""

    path: str
    groups: tuple[int, ...]

    def read(self) -> Any:
        """The rows."""
        import pyarrow.parquet

        try:
            filesystem, path = located(self.path)
            with pyarrow.parquet.ParquetFile(path, filesystem=filesystem) as file:
                return file.read_row_groups(list(self.groups))
        except Exception as error:
            raise RuntimeError(f"{self.path}: {error}") from error

    def __str__(self) -> str:
        return self.path


def located(path: str) -> tuple[Any, str]:
    """A file system that pyarrow knows, and the path in it. Spark's s3a and the like are those without the last letter."""
    from pyarrow import fs

    scheme, separator, rest = path.partition("://")
    if separator or path.startswith("file:"):
        scheme = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "abfs"}.get(scheme, scheme)
        uri = f"{scheme}://{rest}" if separator else f"file://{path.removeprefix('file:')}"
        filesystem, place = fs.FileSystem.from_uri(uri)
        return filesystem, str(place)
    return fs.LocalFileSystem(), os.path.abspath(path)


def files_of(paths: Any) -> list[str]:
    """The Parquet files of paths, folders and patterns, in the order of their names."""
    from glob import glob

    from pyarrow import fs

    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else list(paths):
        path = os.fspath(path)
        if any(letter in path for letter in "*?[") and "://" not in path:
            matches = sorted(glob(path))
            if not matches:
                raise ValueError(f"no file matches {path!r}")
            found += files_of(matches)
            continue
        filesystem, place = located(path)
        info = filesystem.get_file_info(place)
        if info.type == fs.FileType.NotFound:
            raise ValueError(f"{path} does not exist")
        if info.type != fs.FileType.Directory:
            found.append(path)
            continue
        inside = filesystem.get_file_info(fs.FileSelector(place, recursive=True))
        names = sorted(file.path for file in inside if file.is_file and is_table(file.path))
        if not names:
            raise ValueError(f"the folder {path} holds no Parquet files")
        prefix = path[: path.index("://") + 3] if "://" in path else ""
        found += [prefix + name for name in names]
    return found


def is_table(path: str) -> bool:
    """Whether this is a Parquet file by its name; names that begin with a dot or an underscore are not tables."""
    name = path.rpartition("/")[2]
    return not name.startswith((".", "_")) and name.endswith((".parquet", ".pq"))


def pieces_of(paths: Iterable[str]) -> list[Piece]:
    """The partitions of Parquet files: each file, or some row groups of a large one. They depend on the files alone."""
    import pyarrow.parquet

    pieces = []
    for path in paths:
        try:
            filesystem, place = located(path)
            with pyarrow.parquet.ParquetFile(place, filesystem=filesystem) as file:
                rows = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
        except Exception as error:
            raise ValueError(f"{path}: {error}") from error
        group: list[int] = []
        for k, count in enumerate(rows):
            if group and sum(rows[g] for g in group) + count > PARTITION_ROWS:
                pieces.append(Piece(path, tuple(group)))
                group = []
            group.append(k)
        pieces.append(Piece(path, tuple(group)))
    return pieces


class Keeper:
    """Partitions of a fit that a process has read, up to some bytes: what was not used for longest goes first.

    Those of another fit go when the next begins.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._fit = ""
        self._kept: OrderedDict[int, tuple[Partition, int]] = OrderedDict()
        self._lock = Lock()

    def kept(self, fit: str, number: int) -> Partition | None:
        """The partition with that number, if it is here."""
        with self._lock:
            if fit != self._fit:
                self._fit = fit
                self._kept.clear()
            if number not in self._kept:
                return None
            self._kept.move_to_end(number)
            return self._kept[number][0]

    def partition(self, fit: str, number: int, read: Callable[[], Any]) -> Partition:
        """The partition with that number; `read` gives its rows if they are not here."""
        kept = self.kept(fit, number)
        if kept is not None:
            return kept
        rows = read()
        partition = Partition(rows)
        with self._lock:
            if fit == self._fit:
                self._kept[number] = (partition, rows.nbytes)
                total = sum(size for _, size in self._kept.values())
                while total > self._most_bytes and len(self._kept) > 1:
                    total -= self._kept.popitem(last=False)[1][1]
        return partition


#: Of this process: workers of engines live longer than a task.
_KEEPER = Keeper()


def answers(
    fit: str, pieces: Iterable[tuple[int, Any]], broadcast: bytes, keeper: Keeper = _KEEPER
) -> Iterator[tuple[int, bytes]]:
    """Does what a fit asks with some of its partitions, given by number and by something that can `read` the rows."""
    for number, piece in pieces:
        yield number, _answer(keeper.partition(fit, number, piece.read), number, piece, broadcast)


def answers_of_kept(
    fit: str, numbers: Iterable[int], broadcast: bytes, keeper: Keeper = _KEEPER
) -> Iterator[tuple[int, bytes | None]]:
    """The same with those partitions that are here; None for the others."""
    for number in numbers:
        partition = keeper.kept(fit, number)
        yield number, None if partition is None else _answer(partition, number, "kept", broadcast)


def _answer(partition: Partition, number: int, name: Any, broadcast: bytes) -> bytes:
    try:
        return partition.sums(broadcast)
    except ValueError as error:
        raise ValueError(f"partition {number + 1} ({name}): {error}") from error


def in_order(found: Iterable[tuple[int, bytes]], count: int | None = None) -> list[bytes]:
    """Answers in the order of their partitions. One that came twice, from a task that ran twice, counts once."""
    by_number: dict[int, bytes] = {}
    for number, answer in found:
        if by_number.setdefault(number, answer) != answer:
            raise RuntimeError(
                f"two answers of partition {number + 1} differ: its rows are not the same each time they are read"
            )
    numbers = sorted(by_number)
    if count is not None and numbers != list(range(count)):
        missing = sorted(set(range(count)) - set(numbers))
        raise RuntimeError(f"no answer came from partition {missing[0] + 1} of {count}")
    return [by_number[number] for number in numbers]


def fit_here(estimator: Any, paths: Any, *, workers: int = 1, **given: Any) -> Any:
    """The same fit in this process, with threads instead of workers: what the engines are compared with."""
    from concurrent.futures import ThreadPoolExecutor

    pieces = list(enumerate(pieces_of(files_of(paths))))
    keeper = Keeper()
    with ThreadPoolExecutor(workers) as pool:

        def run(broadcast: bytes) -> list[bytes]:
            found = pool.map(lambda piece: next(answers("here", [piece], broadcast, keeper)), pieces)
            return in_order(found, len(pieces))

        return estimator.fit_partitions(run, **given)
