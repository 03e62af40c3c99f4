"""Data in: what users give, checked as scikit-learn does, in the forms that the engine takes."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from . import _frames

Floats = npt.NDArray[np.float64]

#: Dense bytes of a sparse matrix above which there is a warning.
LARGE_DENSE = 100_000_000


def is_matrix(X: Any) -> bool:
    """Whether this is a plain array of numbers as the engine takes them; whether they are finite is not looked at."""
    return type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size > 0 and X.flags.aligned


@lru_cache(maxsize=16)
def _usual_names(count: int) -> list[str]:
    """What columns without names are called."""
    return [f"x{place}" for place in range(count)]


class Data(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator that takes tables of all kinds."""

    # Set by fit.
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]

    #: What the engine calls the input columns.
    _column_names: list[str]
    #: Whether tables may have more columns than the model, as for models from files.
    _selects_columns: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = getattr(self, "missing", "error") in ("drop", "impute")
        return tags

    def _inputs(self, X: Any, reset: bool) -> tuple[Any, _frames.Kind | None, list[str]]:
        """The inputs, checked as scikit-learn does, with the names that the engine knows them by."""
        X = _frames.unmasked(X)
        kind = _frames.kind_of(X)
        if kind is not None:
            X = _frames.as_table(X, kind)
            kind = "pyarrow" if kind == "arrow" else kind
            if self._selects_columns and not reset:
                X = _frames.select(X, kind, self._column_names)
            validate_data(self, X, reset=reset, skip_check_array=True)
            if reset and kind == "pyarrow":
                # scikit-learn does not ask Arrow tables for their names.
                self.feature_names_in_ = np.asarray(X.column_names, dtype=object)
            if _frames.row_count(X, kind) == 0:
                raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of 1 is required.")
            if X.shape[1] == 0:
                raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
        elif reset and is_matrix(X) and getattr(self, "missing", "error") == "error":
            # The usual case, at no more than a look; the engine refuses what is not finite.
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            if hasattr(X, "toarray"):
                dense = 8 * int(np.prod(X.shape))
                if dense > LARGE_DENSE:
                    warnings.warn(
                        f"the sparse matrix becomes a dense one of {dense / 1e9:.1f} GB; "
                        "select columns first if that is too large",
                        UserWarning,
                        stacklevel=4,
                    )
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse=True,
                dtype=np.float64,
                ensure_all_finite="allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True,
            )
            if hasattr(X, "toarray"):
                X = X.toarray()
        if reset:
            self._selects_columns = False
            self._column_names = self._engine_names()
        return X, kind, self._column_names

    def _engine_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            counts = Counter(names)
            repeated = sorted({name for name in names if counts[name] > 1})
            if repeated:
                raise ValueError(f"more than one column is called {repeated[0]!r}; give each a name of its own")
            return [str(name) for name in names]
        return _usual_names(self.n_features_in_)

    def _target(self, y: Any) -> tuple[Floats, str]:
        if y is None:
            raise ValueError(f"requires y to be passed, but the target y is None: {type(self).__name__} is a regressor")
        is_plain = type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1 and y.flags.c_contiguous
        if is_plain and getattr(self, "missing", "error") == "error":
            # As for the inputs, the engine refuses what is not finite.
            return y, self._free_name("y")
        name = getattr(y, "name", None)
        y = column_or_1d(_frames.unmasked(y), warn=True)
        finite = "allow-nan" if getattr(self, "missing", "error") == "drop" else True
        y = check_array(
            y, ensure_2d=False, dtype=np.float64, input_name="y", ensure_min_samples=0, ensure_all_finite=finite
        )
        name = name if isinstance(name, str) and name else "y"
        return y, self._free_name(name)

    def _free_name(self, name: str, *taken: str) -> str:
        while name in self._column_names or name in taken:
            name += "_"
        return name

    def _categories(self) -> list[str]:
        """The columns that the user calls categories, by name."""
        given = getattr(self, "categorical", None)
        if given is None:
            return []
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, (list, tuple, set, np.ndarray)):
            raise ValueError(f"categorical is {given!r}; it must be a list of names or places of columns")
        names = []
        for column in given:
            if isinstance(column, str) and column in self._column_names:
                names.append(column)
            elif isinstance(column, str):
                raise ValueError(f"categorical names the column {column!r}, which does not exist")
            elif isinstance(column, (bool, np.bool_)) or not isinstance(column, (int, np.integer)):
                raise ValueError(f"categorical has {column!r}; it must hold names or places of columns")
            elif 0 <= column < len(self._column_names):
                names.append(self._column_names[column])
            else:
                raise ValueError(f"categorical names column {column}, but there are {len(self._column_names)} columns")
        return names
