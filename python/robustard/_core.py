"""What all estimators have in common: data in, a fitted model, predictions out."""

from __future__ import annotations

import json
import warnings
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted

from . import _frames
from ._calls import Progress, description, to_json
from ._data import Data, Floats, is_matrix
from ._robustard import Fitted, Frame, fit_numbers, fit_table
from ._streams import Stream, is_stream, names_only, opened, path_or_none, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from ._robustard import Call, Names, Streaming

Bools = npt.NDArray[np.bool_]

#: Fewer rows than these are predicted at once, without threads.
_FEW_ROWS = 64

#: What a fit that has not converged is told.
_ADVICE = {
    "iteration-limit": "the fit has not converged in {iterations} iterations; the model so far is kept. Give a larger "
    "max_iter or tol",
    "interrupted": "the fit was interrupted after {iterations} iterations; the model so far is kept",
    "numerical-trouble": "the fit ran into numerical trouble after {iterations} iterations; the last good model is kept. "
    "Rescale the columns or give narrower bounds",
}


class EffectiveSupport(NamedTuple):
    """Shares of features and rows in use, by the entropy of their relevances."""

    features: float
    rows: float


class LeaveOneOut(NamedTuple):
    """How well each row is predicted from the others, at the learnt precisions and without refits."""

    rmse: float
    r2: float
    median_error: float
    coverage_95: float
    #: Whether so many precisions were learnt from so few rows that new rows will be predicted worse.
    optimistic: bool


class Core(Data):
    """Data in, a fitted model, predictions out."""

    # Set by fit.
    n_iter_: int
    status_: str
    converged_: bool
    features_: str
    noise_: str

    #: The fitted model, and where its rows are among those given to fit.
    _fitted: Fitted
    _row_count: int
    #: X, its kind, y and sample_weight as fit had them: no copies.
    _training: tuple[Any, _frames.Kind | None, Floats, Any]

    def _options(self) -> dict[str, Any]:
        """The engine's options by name, without those that speak of columns."""
        raise NotImplementedError

    def _threads(self) -> int:
        jobs = getattr(self, "n_jobs", None)
        if jobs is not None and (isinstance(jobs, bool) or int(jobs) != jobs or jobs == 0 or jobs < -1):
            raise ValueError(f"n_jobs is {jobs!r}; it must be None, -1 (all cores) or a number of threads above 0")
        return int(effective_n_jobs(jobs))

    # ---- fit --------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: str | None = None,
        memory: int | str | None = None,
        cache: str | PathLike[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        rows: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features); or a table with the target
            The inputs. Text and category columns of data frames become indicator columns that share one precision.

            A table with the target, which need not fit in memory: the path of a CSV, Parquet, Arrow or JSON lines file, of a folder of
            them or a pattern such as 'data/*.parquet', a list of paths, a pyarrow Dataset or RecordBatchReader, or a polars LazyFrame.
        y : array of shape (n_samples,)
            The target. Not given with a table that has it.
        sample_weight : array of shape (n_samples,), or the name of a column of the table, optional
            How often each row counts.
        target : str, optional
            The column to predict, of a table that has it. What follows is for such tables.
        memory : int or str, optional
            Bytes that a fit may take, or a text such as '2GB'; files that take more are read in pieces and fitted by passes over a cache
            on disk. By default half of what is free. Streams of batches are always fitted by passes.
        cache : path, optional
            Keep that cache in this folder, for the next fit of the same files.
        checkpoint : path, optional
            Write how far the fit has come to this file after each pass; a fit that was killed goes on from it.
        rows : path, optional
            Write the diagnosis of all rows to this file.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> model.status_
        'converged'
        """
        given = {"target": target, "memory": memory, "cache": cache, "checkpoint": checkpoint, "rows": rows}

        def fitted() -> Fitted:
            if is_stream(X):
                return self._fit_stream(X, y, sample_weight, given)
            _refuse(given)
            return self._fit(X, y, sample_weight)

        return self._fit_or_keep(fitted)

    def fit_partitions(
        self,
        run: Callable[[bytes], Iterable[bytes]],
        *,
        target: str,
        sample_weight: str | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Fit a table whose rows lie in other processes or on other machines.

        Parameters
        ----------
        run : callable
            Is given bytes, has to call `partial_sums(rows, bytes)` where the rows of each partition are, and gives back the results in
            the order of the partitions: the same ones in the same order each time. It is called about ten to thirty times.
        target : str
            The column to predict.
        sample_weight : str, optional
            The column that says how often each row counts.
        checkpoint : path, optional
            Write how far the fit has come to this file after each pass; a fit that was killed goes on from it.

        Returns
        -------
        self
            The fitted estimator.

        Examples
        --------
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from functools import partial
        >>> import numpy as np, pyarrow as pa
        >>> from robustard import JointARD, partial_sums
        >>> x = np.linspace(0, 1, 300)
        >>> table = pa.table({"x": x, "y": 2 * x + 0.1 * np.cos(70 * x)})
        >>> partitions = [table.slice(0, 100), table.slice(100)]
        >>> with ThreadPoolExecutor() as pool:
        ...     model = JointARD(features="linear", noise="shared").fit_partitions(
        ...         lambda broadcast: pool.map(partial(partial_sums, broadcast=broadcast), partitions), target="y")
        >>> model.coef_.round(1)
        array([2.])
        """
        given = {"target": target, "memory": None, "cache": None, "checkpoint": checkpoint, "rows": None}
        return self._fit_or_keep(lambda: self._fit_columns(Stream.elsewhere(run), sample_weight, given))

    def _fit_or_keep(self, fit: Callable[[], Fitted]) -> Self:
        """Takes what is fitted; a model that was fitted before stays as it was if that fails."""
        before = dict(self.__dict__)
        try:
            fitted = fit()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self._adopt(fitted)
        notes = [f"column {name!r} is left out: it {reason}" for name, reason in fitted.left_out]
        for note in [*notes, *(note for note in fitted.notes if "weight 0" not in note)]:
            warnings.warn(note, UserWarning, stacklevel=3)
        if not self.converged_:
            warnings.warn(_ADVICE[self.status_].format(iterations=self.n_iter_), ConvergenceWarning, stacklevel=3)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        X, kind, names = self._inputs(X, reset=True)
        y, target = self._target(y)
        rows = _frames.row_count(X, kind)
        if len(y) != rows:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: X has {rows} rows, y has {len(y)} values"
            )
        given = self._categories()
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(_frames.unmasked(sample_weight), np.empty((rows, 1)), dtype=np.float64)
            if not weights.any():
                raise ValueError("all sample weights are zero; at least one row has to count")
            weights = None if (weights == 1).all() else weights
        columns: dict[str, Any] = {
            "target": target,
            "include": [],
            "exclude": [],
            "categorical": given,
            "weights": None if weights is None else self._free_name("sample_weight", target),
            "id": None,
            "missing": getattr(self, "missing", "error"),
            "strict": False,
            "keep_constant": True,
        }
        call = self._call()
        # Arrays that must not have missing values were checked on the way in.
        is_checked = kind is None and columns["missing"] == "error"
        numbers = None if given or columns["missing"] == "impute" else _frames.numbers(X, kind)
        is_full = is_checked or not (numbers is None or np.isnan(np.sum(numbers)))
        try:
            if numbers is not None and is_full and _is_plain(y, weights, columns["missing"]):
                called: Names = {
                    "inputs": names if hasattr(self, "feature_names_in_") else None,
                    "target": target,
                    "weights": columns["weights"],
                    "missing": columns["missing"],
                }
                try:
                    fitted = fit_numbers(numbers, y, weights, called, call)
                except ValueError:
                    # What is not finite is refused in scikit-learn's words.
                    check_array(numbers, input_name="X", estimator=self)
                    check_array(y, ensure_2d=False, input_name="y", estimator=self)
                    raise
            else:
                frame, known = _frames.to_frame(X, kind, names, given)
                columns["categorical"] = [*given, *known]
                more = {target: y} if weights is None else {target: y, columns["weights"]: weights}
                frame = frame.with_columns(list(more), list(more.values()))
                fitted = fit_table(frame, json.dumps(columns), call)
        finally:
            _end(call)
        # For report and plots; not part of what is pickled.
        self._training = (X, kind, y, sample_weight)
        return fitted

    def _call(self) -> Call:
        """How the engine is called."""
        return {
            "options": to_json(self._options()),
            "threads": self._threads(),
            "progress": Progress() if getattr(self, "verbose", 0) else None,
            "estimator": description(self),
        }

    def _fit_stream(self, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]) -> Fitted:
        target = given["target"]
        if y is not None:
            raise ValueError(
                "a table of files or batches holds its target, so y must not be given: name its column as target, or collect the "
                "table into memory first"
            )
        if not isinstance(target, str):
            raise ValueError("the table has the target, too: say which column to predict, for example target='price'")
        with opened(X) as stream:
            return self._fit_columns(stream, sample_weight, given)

    def _fit_columns(self, stream: Stream, sample_weight: Any, given: dict[str, Any]) -> Fitted:
        target = given["target"]
        if not isinstance(target, str):
            raise ValueError(f"target is {target!r}; it must be the name of the column to predict")
        if not isinstance(sample_weight, (str, type(None))):
            raise ValueError("sample_weight must be the name of a column where the table is in files or batches")
        streaming: Streaming = {
            "memory": size(given["memory"]),
            "cache": path_or_none("cache", given["cache"]),
            "checkpoint": path_or_none("checkpoint", given["checkpoint"]),
            "rows": path_or_none("rows", given["rows"]),
        }
        call = self._call()
        categorical = [*names_only(getattr(self, "categorical", None)), *stream.categories]
        columns = {
            "target": target,
            "include": [],
            "exclude": [],
            "categorical": [name for name in categorical if name not in (target, sample_weight)],
            "weights": sample_weight,
            "id": None,
            "missing": getattr(self, "missing", "error"),
            "strict": False,
            "keep_constant": True,
        }
        try:
            fitted = stream.fit(json.dumps(columns), streaming, call)
        finally:
            _end(call)
        self.__dict__.pop("_training", None)
        self._column_names = [name for name in fitted.table_names or () if name not in (target, sample_weight)]
        self.n_features_in_ = len(self._column_names)
        self.feature_names_in_ = np.asarray(self._column_names, dtype=object)
        self._selects_columns = True
        return fitted

    def _adopt(self, fitted: Fitted) -> None:
        """Takes a fitted model; what is known of it is asked for when it is needed."""
        for name in _ASKED_FOR:
            self.__dict__.pop(name, None)
        self._fitted = fitted
        self._row_count = fitted.table_rows
        self.n_iter_ = max(1, fitted.iterations)
        self.status_ = fitted.status
        self.converged_ = self.status_ == "converged"
        self.features_ = fitted.features
        self.noise_ = fitted.noise_words

    # ---- what is known of the fit -----------------------------------------------------------------------------

    def _model(self) -> Fitted:
        check_is_fitted(self)
        return self._fitted

    @cached_property
    def _rows(self) -> npt.NDArray[np.intp]:
        return self._model().rows.astype(np.intp, copy=False)

    @cached_property
    def kept_rows_(self) -> npt.NDArray[np.intp]:
        """The rows, counted from 0, that what is known per row speaks of."""
        return np.arange(self._row_count) if not self._is_streamed else self._rows

    @property
    def _is_streamed(self) -> bool:
        """Whether the rows did not lie in memory, so that the model keeps only some of them."""
        return self._model().streamed_rows is not None

    @cached_property
    def target_transform_(self) -> str:
        """What was fitted instead of the target."""
        return self._model().target_transform

    @cached_property
    def _coefficients(self) -> dict[str, Any]:
        if self._model().is_curve:
            raise AttributeError("a curve has no coefficients; effects() says how each column acts")
        return self._model().coefficients()

    @cached_property
    def coef_names_(self) -> list[str]:
        """What the weights belong to."""
        centres = self._model().centre_rows()
        names: list[str] = self._coefficients["names"]
        # Rows are counted from 0 here, and those of the table.
        return names if centres is None else [f"row {row}" for row in self._rows[centres]]

    @cached_property
    def weights_(self) -> Floats:
        """Weights of the features."""
        weights: Floats = self._coefficients["coefficient"]
        return weights

    @cached_property
    def coef_(self) -> Floats:
        """Coefficients of the inputs, of linear features."""
        if not self._model().is_linear:
            raise AttributeError(
                f"{self._model().features} features have no coefficients of inputs; effects() says how each column acts, and "
                "weights_ has the weights of features"
            )
        return self.weights_

    @cached_property
    def coef_std_(self) -> Floats:
        """Standard errors of the weights."""
        errors: Floats = self._coefficients["standard_error"]
        return errors

    @cached_property
    def weight_precision_(self) -> Floats:
        """Learnt precisions of the weights."""
        precisions: Floats = self._coefficients["precision"]
        return precisions

    @cached_property
    def _effects(self) -> dict[str, Any]:
        effects: dict[str, Any] = json.loads(self._model().effects(self._threads()))
        return effects

    @cached_property
    def feature_importances_(self) -> Floats:
        """Shares of the variance of predictions that the columns carry."""
        known = {column["name"]: column["importance"] for column in self._effects["columns"]}
        return np.array([known.get(name, 0.0) for name in self._column_names])

    @cached_property
    def intercept_(self) -> float:
        """Intercept."""
        return self._model().intercept

    @cached_property
    def noise_variance_(self) -> Floats:
        """Noise variance of each row."""
        return self._per_row(self._model().noise_variance)

    @cached_property
    def row_relevance_(self) -> Floats:
        """How far each row is to be relied upon."""
        return 1.0 / self.noise_variance_

    @cached_property
    def outlier_mask_(self) -> Bools:
        """The rows that look wrong."""
        return self._per_row(self._model().flagged, fill=False)

    @cached_property
    def effective_support_(self) -> EffectiveSupport:
        """Shares of features and rows in use."""
        return EffectiveSupport(self._model().effective_weights, self._model().effective_rows)

    @cached_property
    def loo_(self) -> LeaveOneOut:
        """How well each row is predicted from the others."""
        return LeaveOneOut(*self._model().quality)

    @cached_property
    def scores_(self) -> Floats:
        """A bound on the log evidence after each iteration."""
        return self._model().scores()

    @cached_property
    def evidence_(self) -> float:
        """Log evidence."""
        return self._model().evidence

    @cached_property
    def choice_(self) -> dict[str, Any] | None:
        """What was compared, and why this was chosen."""
        reasons, compared = self._model().reasons, self._model().compared
        return None if reasons is None else {"reasons": reasons, "compared": compared}

    @cached_property
    def left_out_(self) -> dict[str, str]:
        """Columns of data frames that are not used, and why."""
        return dict(self._model().left_out)

    def _per_row(self, values: npt.NDArray[Any], fill: Any = np.nan) -> npt.NDArray[Any]:
        """Values of the fitted rows at the places of the rows given to fit."""
        if len(self._rows) == self._row_count or self._is_streamed:
            return values
        whole = np.full(self._row_count, fill, dtype=values.dtype)
        whole[self._rows] = values
        return whole

    @property
    def sigma_(self) -> Floats:
        """Covariance of the weights."""
        self._coefficients  # noqa: B018, a curve has none
        return self._fitted.coefficient_covariance()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_training"}

    # ---- prediction -------------------------------------------------------------------------------------------

    def _as_numbers(self, X: Any) -> Floats | None:
        """The inputs as a matrix, if the model takes all of them as they are; what scikit-learn would check is checked."""
        if not self._fitted.is_numeric or self._fitted.missing != "error":
            return None
        if is_matrix(X) and X.shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_"):
            # The usual case costs no more than a look; the engine refuses what is not finite.
            matrix: Floats = X
            return matrix
        X, kind, _ = self._inputs(X, reset=False)
        return _frames.numbers(X, kind)

    def _new_frame(self, X: Any) -> tuple[Frame, int]:
        check_is_fitted(self)
        X, kind, names = self._inputs(X, reset=False)
        frame, _ = _frames.to_frame(X, kind, names, self._fitted.categories)
        return frame, _frames.row_count(X, kind)

    def _predicted(self, X: Any, level: float | None) -> dict[str, Floats]:
        """Means, and unless the level is None standard deviations and ends of intervals."""
        numbers = self._as_numbers(X)
        if numbers is not None:
            threads = 1 if len(numbers) <= _FEW_ROWS else self._threads()
            if level is None:
                mean, note = self._fitted.predict_numbers_mean(numbers, threads)
                if note is not None:
                    warnings.warn(note, UserWarning, stacklevel=3)
                return {"mean": mean}
            result = self._fitted.predict_numbers(numbers, level, threads)
            for note in result.pop("notes"):
                warnings.warn(note, UserWarning, stacklevel=3)
            return result
        frame, rows = self._new_frame(X)
        if level is None:
            result = self._fitted.predict_table_mean(frame, self._threads())
        else:
            result = self._fitted.predict_table(frame, level, self._threads())
        for note in result.pop("notes"):
            warnings.warn(note, UserWarning, stacklevel=3)
        places = result.pop("rows")
        if len(places) == rows:
            return result
        whole = {name: np.full(rows, np.nan) for name in result}
        for name, values in result.items():
            whole[name][places] = values
        return whole

    @overload
    def predict(self, X: Any, return_std: Literal[False] = ..., return_cov: Literal[False] = ...) -> Floats: ...
    @overload
    def predict(self, X: Any, return_std: Literal[True], return_cov: Literal[False] = ...) -> tuple[Floats, Floats]: ...
    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = ..., *, return_cov: Literal[True]
    ) -> tuple[Floats, Floats]: ...
    @overload
    def predict(self, X: Any, return_std: bool = ..., return_cov: bool = ...) -> Floats | tuple[Floats, Floats]: ...
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Floats | tuple[Floats, Floats]:
        """Predict the target.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            The inputs, in the columns of the fit.
        return_std : bool, default=False
            Return the standard deviations of new observations, too.
        return_cov : bool, default=False
            Return their covariance matrix, too.

        Returns
        -------
        mean : array of shape (n_samples,)
            Expected values; NaN for rows with missing inputs if `missing="drop"`.
        std or cov : array of shape (n_samples,) or (n_samples, n_samples)
            Only if asked for.

        Examples
        --------
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> model.predict([[5.0]]).round(1)
        array([9.9])
        >>> mean, std = model.predict([[5.0]], return_std=True)
        """
        if return_std and return_cov:
            raise RuntimeError("at most one of return_std and return_cov can be asked for")
        check_is_fitted(self)
        result = self._predicted(X, 0.95 if return_std or return_cov else None)
        if return_std:
            return result["mean"], result["std"]
        if not return_cov:
            return result["mean"]
        frame, rows = self._new_frame(X)
        covariance = self._fitted.covariance(frame, self._threads())
        if len(covariance) != rows:
            raise ValueError("return_cov needs rows without missing values")
        # The noise of new observations, and of curves what lies far from all rows, is each row's own.
        np.fill_diagonal(covariance, result["std"] ** 2)
        return result["mean"], covariance

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the target's variance that predictions explain, R².

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            The inputs. Rows with missing values are passed over if `missing="drop"`.
        y : array of shape (n_samples,)
            The target.
        sample_weight : array of shape (n_samples,), optional
            How often each row counts.

        Returns
        -------
        float
            1 for perfect predictions, 0 for those of the mean.

        Examples
        --------
        >>> from robustard import JointARD
        >>> X, y = [[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0]
        >>> JointARD().fit(X, y).score(X, y) > 0.99
        True
        """
        predicted, actual = self.predict(X), np.asarray(_frames.unmasked(y), dtype=np.float64).reshape(-1)
        known = np.isfinite(predicted) & np.isfinite(actual)
        if getattr(self, "missing", "error") != "drop" or known.all():
            return float(r2_score(y, predicted, sample_weight=sample_weight))
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(actual[known], predicted[known], sample_weight=weight))

    def predict_median(self, X: Any) -> Floats:
        """Predict medians: half of new observations lie above.

        They differ from `predict` only where a transformation of the target is fitted (`target_transform_`).

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            The inputs.

        Returns
        -------
        array of shape (n_samples,)
            Medians.

        Examples
        --------
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> model.predict_median([[5.0]]).round(1)
        array([9.9])
        """
        check_is_fitted(self)
        return self._predicted(X, 0.95)["median"]

    def predict_interval(self, X: Any, level: float = 0.95) -> Floats:
        """Predict intervals that hold new observations with a given probability.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            The inputs.
        level : float, default=0.95
            The probability.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.

        Examples
        --------
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> low, high = model.predict_interval([[5.0]], level=0.9)[0]
        >>> bool(low < 10 < high)
        True
        """
        check_is_fitted(self)
        result = self._predicted(X, level)
        return np.column_stack([result["lower"], result["upper"]])


#: What is worked out when it is asked for, and forgotten by the next fit.
_ASKED_FOR = [name for name, value in vars(Core).items() if isinstance(value, cached_property)]


def _refuse(given: dict[str, Any]) -> None:
    """Refuses what only tables of files and batches have."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is for tables in files or batches; this X is in memory, and its target is y")


def _end(call: Call) -> None:
    if isinstance(call["progress"], Progress):
        call["progress"].end()


def _is_plain(target: Floats, weights: Floats | None, missing: str) -> bool:
    """Whether every row has a target, or has to have one, and counts."""
    has_all = missing == "error" or bool(np.isfinite(target).all())
    return has_all and (weights is None or bool((weights > 0).all()))
