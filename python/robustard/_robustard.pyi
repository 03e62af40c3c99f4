from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, TypedDict, final

import numpy as np
import numpy.typing as npt

__version__: str

Progress = Callable[[str, tuple[int, float, int] | None], None]
Floats = npt.NDArray[np.float64]

class Call(TypedDict):
    options: str
    threads: int
    progress: Progress | None
    estimator: str

class Names(TypedDict):
    inputs: list[str] | None
    target: str
    weights: str | None
    missing: str

class Streaming(TypedDict):
    memory: int | None
    cache: str | None
    checkpoint: str | None
    rows: str | None

@final
class Frame:
    @staticmethod
    def from_matrix(names: list[str], matrix: Floats) -> Frame: ...
    categories: list[str]
    @staticmethod
    def from_columns(names: list[str], values: Sequence[Floats | list[str | None]], categories: list[str]) -> Frame: ...
    @staticmethod
    def from_arrow(names: list[str], source: Any, categories: list[str]) -> Frame: ...
    def with_columns(self, names: list[str], values: Sequence[Floats | list[str | None]]) -> Frame: ...

@final
class Fitted:
    notes: list[str]
    interrupted: bool
    estimator: str | None
    status: str
    status_words: str
    iterations: int
    seconds: float
    evidence: float
    effective_weights: float
    effective_rows: float
    inlier_variance: float
    intercept: float
    features: str
    noise: str
    noise_words: str
    target_transform: str
    is_linear: bool
    is_curve: bool
    quality: tuple[float, float, float, float, bool]
    reasons: list[str] | None
    compared: list[dict[str, Any]] | None
    options: str
    settings: str
    target: str
    columns: list[str]
    categories: list[str]
    is_numeric: bool
    left_out: list[tuple[str, str]]
    missing: str
    weights: str | None
    rows: npt.NDArray[np.uint64]
    table_rows: int
    table_names: list[str] | None
    streamed_rows: int | None
    set_aside: list[int]
    noise_variance: Floats
    flagged: npt.NDArray[np.bool_]
    def diagnose_rows(self, batches: Any) -> dict[str, npt.NDArray[Any]]: ...
    def diagnose(self) -> dict[str, Any]: ...
    def suspicious(self) -> dict[str, Any] | None: ...
    def coefficients(self) -> dict[str, Any]: ...
    def effects(self, threads: int) -> str: ...
    def explain(self, frame: Frame, threads: int) -> dict[str, Any]: ...
    def coefficient_covariance(self) -> Floats: ...
    def scores(self) -> Floats: ...
    def group_names(self) -> list[str]: ...
    def feature_paths(self) -> tuple[list[int], list[tuple[int, list[float]]]]: ...
    def coverage(self, level: float) -> float: ...
    def centre_rows(self) -> list[int] | None: ...
    def relevance_vectors(self) -> tuple[list[int], Floats, Floats] | None: ...
    def predict_table(self, frame: Frame, level: float, threads: int) -> dict[str, Any]: ...
    def predict_numbers(self, inputs: Floats, level: float, threads: int) -> dict[str, Any]: ...
    def predict_table_mean(self, frame: Frame, threads: int) -> dict[str, Any]: ...
    def predict_numbers_mean(self, inputs: Floats, threads: int) -> tuple[Floats, str | None]: ...
    def covariance(self, frame: Frame, threads: int) -> Floats: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def from_bytes(bytes: bytes) -> Fitted: ...
    def report(self, frame: Frame | None, source: str, threads: int) -> str: ...

def option_names() -> list[str]: ...
def fit_table(frame: Frame, columns: str, call: Call) -> Fitted: ...
def fit_numbers(inputs: Floats, target: Floats, weights: Floats | None, names: Names, call: Call) -> Fitted: ...
def fit_files(paths: list[str], columns: str, streaming: Streaming, call: Call) -> Fitted: ...
def fit_batches(open: Callable[[], Any], columns: str, streaming: Streaming, call: Call) -> Fitted: ...
def fit_partitions(
    run_all: Callable[[bytes], Iterable[bytes]], columns: str, streaming: Streaming, call: Call
) -> Fitted: ...

class Partition:
    def __init__(self, batches: Any) -> None: ...
    def sums(self, broadcast: bytes) -> bytes: ...

def load(path: str | PathLike[str]) -> Fitted: ...
