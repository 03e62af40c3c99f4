"""Fits to Spark DataFrames: classic Spark, Spark Connect and Sail.

>>> from robustard.spark import JointARD  # doctest: +SKIP
>>> model = JointARD(target="load").fit(spark.read.parquet("readings"))  # doctest: +SKIP
>>> model.transform(new)  # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml import Estimator, Model
from pyspark.ml.param import Param, Params
from pyspark.ml.util import (
    DefaultParamsReadable,
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import BooleanType, DoubleType, StructField, StructType

import robustard

from ._distributed import PARTITION_ROWS, answers, answers_of_kept, files_of, in_order, is_table, located, pieces_of
from ._files import model_of
from ._robustard import Fitted
from ._settings import PARAMETERS

__all__ = ["JointARD", "JointARDModel"]

_ANSWER = "number long, answer binary"
_PACKED = "number long, rows binary"
#: The measures of a diagnosis.
_NUMBERS = ("predicted", "loo_residual", "noise_variance", "leverage", "z")
_FLAGS = ("flagged", "set_aside")
#: What users of Spark find in the names of columns.
_OUTPUTS = {"predictionCol": "prediction", "stdCol": "std", "lowerCol": "lower", "upperCol": "upper"}

Batches = Iterator[pa.RecordBatch]


class _Shared(Params):
    """Parameters of estimator and model."""

    predictionCol: Param[str] = Param(Params._dummy(), "predictionCol", "the column of expected values")
    stdCol: Param[str] = Param(Params._dummy(), "stdCol", "the column of standard deviations of new observations")
    lowerCol: Param[str] = Param(Params._dummy(), "lowerCol", "the column of lower ends of intervals")
    upperCol: Param[str] = Param(Params._dummy(), "upperCol", "the column of upper ends of intervals")
    level: Param[float] = Param(Params._dummy(), "level", "the share of new observations that intervals hold")

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(**_OUTPUTS, level=0.95)


def _settings() -> dict[str, Param[Any]]:
    """The parameters of `robustard.JointARD`, as Spark's."""
    texts = {name: " ".join(text.split()) for name, (_, _, text) in PARAMETERS.items()}
    texts["features"] = "features : str. 'auto', 'linear', 'smooth[:CENTRES]', 'poly:DEGREE' or 'rff[:COUNT]'"
    return {name: Param(Params._dummy(), name, text.partition(" : ")[2]) for name, text in texts.items()}


class JointARD(Estimator, _Shared, DefaultParamsReadable, MLWritable):
    """`robustard.JointARD` as an estimator of Spark ML.

    The rows stay where they are; from each partition a few numbers per pair of features come back in a pass. A DataFrame that is a
    Parquet table as it is on disk is read by the workers themselves; another one is packed once, a blob of Arrow data a partition,
    and persisted. Only `mapInArrow` is used. robustard must be installed on the workers.

    Parameters
    ----------
    target : str
        The column to predict. All others are inputs, but the weights.
    weightCol : str, optional
        The column that says how often each row counts.
    checkpoint : str, optional
        Write how far the fit has come to this file, on the driver, after each pass; a fit that was killed goes on from it.
    tasks : int, optional
        How many tasks a pass over files is divided into: by default as many as Spark can run at once, where it says so, else one for
        each partition. A task costs Spark a tenth of a second or two, whatever it does.
    predictionCol, stdCol, lowerCol, upperCol : str
        What `transform` adds; 'prediction', 'std', 'lower' and 'upper' by default.
    level : float, default=0.95
        The share of new observations that intervals hold.
    **settings
        The parameters of `robustard.JointARD`.

    Examples
    --------
    >>> from robustard.spark import JointARD
    >>> model = JointARD(target="load").fit(spark.read.parquet("readings"))  # doctest: +SKIP
    >>> model.transform(new).select("prediction", "lower", "upper")  # doctest: +SKIP
    """

    target: Param[str] = Param(Params._dummy(), "target", "the column to predict")
    weightCol: Param[str] = Param(Params._dummy(), "weightCol", "the column that says how often each row counts")
    checkpoint: Param[str] = Param(Params._dummy(), "checkpoint", "the file that says how far a fit has come")

    tasks: Param[int] = Param(Params._dummy(), "tasks", "how many tasks a pass is divided into")

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.setParams(**given)

    def setParams(self, **given: Any) -> JointARD:
        """Set parameters by name."""
        known = [param.name for param in self.params]
        for name in given:
            if name not in known:
                raise TypeError(f"JointARD has no parameter {name!r}; it has {', '.join(known)}")
        self._set(**{name: value for name, value in given.items() if value is not None})
        return self

    def write(self) -> MLWriter:
        """What saves it: `write().overwrite().save(path)`."""
        return _Writer(self)

    def _fit(self, dataset: DataFrame) -> JointARDModel:
        if not self.isDefined("target"):
            raise ValueError("say which column to predict, for example JointARD(target='price')")
        settings = {name: self.getOrDefault(name) for name in _SETTINGS if self.isSet(name)}
        given = {
            "target": self.getOrDefault("target"),
            "sample_weight": self.getOrDefault("weightCol") if self.isDefined("weightCol") else None,
            "checkpoint": self.getOrDefault("checkpoint") if self.isDefined("checkpoint") else None,
        }
        estimator = robustard.JointARD(**settings)
        with _Rows(dataset, self.getOrDefault("tasks") if self.isDefined("tasks") else None) as rows:
            estimator.fit_partitions(rows.run, **given)
        model = JointARDModel(estimator)
        return self._copyValues(model)  # type: ignore[no-any-return]


_SETTINGS = _settings()
for _name, _param in _SETTINGS.items():
    setattr(JointARD, _name, _param)


class _Rows:
    """The rows of a DataFrame, in partitions with numbers."""

    def __init__(self, frame: DataFrame, tasks: int | None) -> None:
        if tasks is not None and tasks < 1:
            raise ValueError(f"tasks is {tasks}; it must be at least 1")
        self._frame = frame
        if tasks is None and hasattr(frame, "_jdf"):
            tasks = frame.sparkSession.sparkContext.defaultParallelism
        self._tasks = tasks
        self._fit = os.urandom(8).hex()
        self._numbers: list[int] | None = None
        self._packed: DataFrame | None = None
        pieces = None
        files = _plain_files(frame)
        if files is not None:
            try:
                pieces = pieces_of(files)
            except ValueError:
                # The driver cannot read them; the workers can.
                pieces = None
        self._pieces = pieces

    def __enter__(self) -> _Rows:
        if self._pieces is None:
            self._packed = self._frame.mapInArrow(_pack, _PACKED).persist()
        return self

    def __exit__(self, *_: object) -> None:
        if self._packed is not None:
            self._packed.unpersist()

    def run(self, broadcast: bytes) -> list[bytes]:
        """What a fit asks, of all partitions."""
        if self._pieces is not None:
            count = len(self._pieces)
            tasks = self._frame.sparkSession.range(0, count, 1, min(self._tasks or count, count))
            found = _collected(tasks, _on_files(self._fit, dict(enumerate(self._pieces)), broadcast))
            return in_order([(number, answer) for number, answer in found if answer is not None], count)
        assert self._packed is not None
        # As many tasks as there are partitions: their numbers are those of the tasks that packed them.
        missing = None
        done: list[tuple[int, bytes]] = []
        if self._numbers is not None:
            # Blobs travel from Spark to Python only where a worker does not have their rows yet.
            found = _collected(self._packed.select("number"), _on_kept(self._fit, broadcast))
            done = [(number, answer) for number, answer in found if answer is not None]
            missing = sorted(set(self._numbers) - {number for number, _ in done})
        if missing is None or missing:
            rest = self._packed if missing is None else self._packed.filter(functions.col("number").isin(missing))
            found = _collected(rest, _on_blobs(self._fit, broadcast))
            done += [(number, answer) for number, answer in found if answer is not None]
        numbers = sorted({number for number, _ in done})
        if self._numbers is None:
            self._numbers = numbers
        elif self._numbers != numbers:
            raise RuntimeError(
                "the partitions of the DataFrame hold other rows in each pass: write it to Parquet files first and fit "
                "spark.read.parquet(…)"
            )
        return in_order(done)


def _collected(tasks: DataFrame, work: Callable[[Batches], Batches]) -> list[tuple[int, bytes | None]]:
    rows = tasks.mapInArrow(work, _ANSWER).collect()
    return [(row["number"], None if row["answer"] is None else bytes(row["answer"])) for row in rows]


def _plain_files(frame: DataFrame) -> list[str] | None:
    """The files of a DataFrame that is a Parquet table just as it is on disk."""
    names = frame.columns
    try:
        if hasattr(frame, "_jdf"):
            plan = frame._jdf.queryExecution().analyzed()
            is_plain = plan.getClass().getSimpleName() == "LogicalRelation" and "parquet" in plan.toString().lower()
            files = sorted(frame.inputFiles()) if is_plain else None
        else:
            plan = frame._plan
            source = getattr(plan, "_format", None)
            paths = getattr(plan, "_paths", None)
            is_plain = (
                type(plan).__name__ == "DataSource" and source == "parquet" and not getattr(plan, "_options", None)
            )
            files = files_of(paths) if is_plain and paths else None
    except Exception:
        # Whatever the plan is, it is not one that is known here.
        return None
    if not files or not all(is_table(path) for path in files):
        return None
    try:
        filesystem, place = located(files[0])
        schema = pq.read_schema(place, filesystem=filesystem)
    except Exception:
        return None
    # Columns that come from the names of folders are not in the files.
    return files if schema.names == names else None


class _Blob:
    """Rows as Arrow IPC."""

    def __init__(self, blob: pa.Buffer) -> None:
        self._blob = blob

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self._blob).read_all()

    def __str__(self) -> str:
        return "of the DataFrame"


def _pack(batches: Batches) -> Batches:
    """One blob a partition, or some of a large one."""
    waiting: list[pa.RecordBatch] = []
    task, count = _task(), 0

    def packed() -> pa.RecordBatch:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, waiting[0].schema) as stream:
            for batch in waiting:
                stream.write_batch(batch)
        blob = sink.getvalue()
        if task is None:
            # Engines that do not number their tasks: by what it holds.
            number = int.from_bytes(hashlib.blake2b(blob, digest_size=8).digest(), "little") >> 1
        else:
            number = (task << 24) + count
        return pa.record_batch(
            {"number": pa.array([number], pa.int64()), "rows": pa.array([blob.to_pybytes()], pa.binary())}
        )

    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(batch.num_rows for batch in waiting) >= PARTITION_ROWS:
            yield packed()
            waiting, count = [], count + 1
    if waiting:
        yield packed()


def _task() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.partitionId()


def _answers(found: Iterable[tuple[int, bytes | None]]) -> Batches:
    for number, answer in found:
        yield pa.record_batch({"number": pa.array([number], pa.int64()), "answer": pa.array([answer], pa.binary())})


def _on_files(fit: str, pieces: dict[int, Any], broadcast: bytes) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return _answers(answers(fit, ((number, pieces[number]) for number in numbers), broadcast))

    return work


def _on_kept(fit: str, broadcast: bytes) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return _answers(answers_of_kept(fit, numbers, broadcast))

    return work


def _on_blobs(fit: str, broadcast: bytes) -> Callable[[Batches], Batches]:
    def pieces(batches: Batches) -> Iterator[tuple[int, _Blob]]:
        for batch in batches:
            for number, blob in zip(batch.column(0), batch.column(1), strict=True):
                yield number.as_py(), _Blob(blob.as_buffer())

    return lambda batches: _answers(answers(fit, pieces(batches), broadcast))


class JointARDModel(Model, _Shared, MLReadable[Any], MLWritable):
    """A fitted `JointARD`.

    Attributes
    ----------
    estimator : robustard.JointARD
        The fit with all that is known of it: `coef_`, `effects()`, `find_label_issues()`, `report(path)`, `save(path)`.
    """

    def __init__(self, estimator: robustard.JointARD | None = None) -> None:
        super().__init__()
        self.estimator = estimator

    def _fitted(self) -> Fitted:
        if self.estimator is None:
            raise ValueError("this model was not fitted; JointARD(target='…').fit(df) gives one that is")
        return self.estimator._fitted

    def _transform(self, dataset: DataFrame) -> DataFrame:
        names = [self.getOrDefault(name) for name in _OUTPUTS]
        schema = _with_columns(dataset, [StructField(name, DoubleType()) for name in names])
        level = self.getOrDefault("level")
        if not 0 < level < 1:
            raise ValueError(f"level is {level}; it must be between 0 and 1")
        return dataset.mapInArrow(_predict(bytes(self._fitted().to_bytes()), level, names), schema)

    def diagnose(self, dataset: DataFrame) -> DataFrame:
        """The rows that were fitted, with what is known of each.

        Parameters
        ----------
        dataset : DataFrame
            The rows that the model was fitted to, in any order, or some of them.

        Returns
        -------
        DataFrame
            The same rows with the columns predicted (from the other rows), loo_residual, noise_variance, leverage, z, flagged and
            set_aside; null where a row was not fitted.
        """
        fields = [StructField(name, DoubleType()) for name in _NUMBERS]
        fields += [StructField(name, BooleanType()) for name in _FLAGS]
        schema = _with_columns(dataset, fields)
        return dataset.mapInArrow(_diagnose(bytes(self._fitted().to_bytes())), schema)

    def write(self) -> MLWriter:
        """What saves it: `write().overwrite().save(path)`."""
        return _Writer(self)

    @classmethod
    def read(cls) -> MLReader[JointARDModel]:
        """What loads it."""
        return _ModelReader()

    def copy(self, extra: Any = None) -> JointARDModel:
        """The same fit with other values of parameters."""
        copied = super().copy(extra)
        copied.estimator = self.estimator
        return copied  # type: ignore[no-any-return]


class _Writer(MLWriter):
    """Parameters as Spark saves them, and beside them the model file, as a table of one row: on any file system that Spark can reach,
    and without the classes of Java that Spark Connect does not have."""

    def __init__(self, instance: JointARD | JointARDModel) -> None:
        super().__init__()
        self.instance = instance

    def save(self, path: str) -> None:
        """Saves it to a folder."""
        spark = self.sparkSession
        mode = "overwrite" if self.shouldOverwrite else "error"
        described = DefaultParamsWriter._get_metadata_to_save(self.instance, spark)
        spark.createDataFrame([(described,)], "value string").coalesce(1).write.mode(mode).text(f"{path}/metadata")
        if isinstance(self.instance, JointARDModel):
            model = bytearray(self.instance._fitted().to_bytes())
            spark.createDataFrame([(model,)], "model binary").coalesce(1).write.mode(mode).parquet(f"{path}/data")


class _ModelReader(MLReader[JointARDModel]):
    def load(self, path: str) -> JointARDModel:
        spark = self.sparkSession
        metadata = DefaultParamsReader.loadMetadata(path, spark)
        row = spark.read.parquet(f"{path}/data").first()
        if row is None:
            raise ValueError(f"{path} holds no model")
        model = JointARDModel(model_of(Fitted.from_bytes(bytes(row["model"]))))
        model._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(model, metadata)
        return model


def _with_columns(frame: DataFrame, fields: list[StructField]) -> StructType:
    known = frame.columns
    for field in fields:
        if field.name in known:
            raise ValueError(f"the DataFrame has a column {field.name!r} already; rename it first")
    return StructType([*frame.schema.fields, *fields])


@lru_cache(maxsize=4)
def _model(model: bytes) -> Any:
    return model_of(Fitted.from_bytes(model))


def _extended(batch: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.RecordBatch:
    arrays = [*batch.columns, *columns.values()]
    return pa.RecordBatch.from_arrays(arrays, names=[*batch.schema.names, *columns])


def _predict(model: bytes, level: float, names: list[str]) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        estimator = _model(model)
        for batch in batches:
            if not batch.num_rows:
                continue
            found = estimator._predicted(pa.Table.from_batches([batch]), level)
            values = (found[what] for what in ("mean", "std", "lower", "upper"))
            columns = zip(names, (pa.array(value, pa.float64(), from_pandas=True) for value in values), strict=True)
            yield _extended(batch, dict(columns))

    return work


def _diagnose(model: bytes) -> Callable[[Batches], Batches]:
    def work(batches: Batches) -> Batches:
        fitted = _model(model)._fitted
        for batch in batches:
            found = fitted.diagnose_rows(pa.Table.from_batches([batch]))
            columns = {}
            for name, kind in [*((name, pa.float64()) for name in _NUMBERS), *((name, pa.bool_()) for name in _FLAGS)]:
                values: list[Any] = [None] * batch.num_rows
                for place, value in zip(found.get("place", ()), found.get(name, ()), strict=True):
                    values[place] = value.item()
                columns[name] = pa.array(values, kind)
            yield _extended(batch, columns)

    return work
