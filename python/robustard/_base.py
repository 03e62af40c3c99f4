"""What all estimators offer of a fitted model: diagnostics, pictures and files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from . import _frames
from ._core import Core
from ._data import Floats
from ._robustard import Frame


class Regression(Core):
    """Base of the estimators; not to be used by itself."""

    # ---- diagnostics ------------------------------------------------------------------------------------------

    def _result_frame(self, columns: dict[str, npt.NDArray[Any]]) -> Any:
        if self._is_streamed:
            columns = {"row": self.kept_rows_, **columns}
        if not hasattr(self, "_training"):
            return _frames.make(None, columns)
        X, kind = self._training[:2]
        return _frames.make(kind, columns, X.index if kind == "pandas" else None)

    def influence(self) -> Any:
        """Diagnose every training row, in closed form and without refits.

        Returns
        -------
        data frame
            Of the kind that `fit` was given (pandas for arrays), one line per row, with statsmodels' names where it has
            them: `hat_diag`, `cooks_d`, `standard_resid`, `student_resid`, `dffits`, `dffits_internal`, and
            `noise_variance`, `relevance`, `loo_residual`, `z`. Rows that were left out of the fit are NaN. Of a table that was fitted
            by passes, one line for each row that the model keeps, with its number in the table, `row`.

        Examples
        --------
        >>> from robustard import JointARD
        >>> model = JointARD(features="linear").fit([[1.0], [2.0], [3.0], [9.0]], [2.0, 4.1, 5.9, 18.0])
        >>> int(model.influence()["hat_diag"].argmax())
        3
        """
        check_is_fitted(self)
        diagnosis = self._fitted.diagnose()
        leverage = diagnosis["leverage"]
        freedom = np.maximum(1.0 - leverage, 1e-12)
        columns = {
            "hat_diag": leverage,
            "cooks_d": diagnosis["cooks_distance"],
            "standard_resid": diagnosis["standard_residual"],
            "student_resid": diagnosis["student_residual"],
            "dffits": diagnosis["student_residual"] * np.sqrt(leverage / freedom),
            "dffits_internal": diagnosis["dffits"],
            "noise_variance": diagnosis["noise_variance"],
            "relevance": 1.0 / diagnosis["noise_variance"],
            "loo_residual": diagnosis["loo_residual"],
            "z": diagnosis["z"],
        }
        return self._result_frame({name: self._per_row(values) for name, values in columns.items()})

    def find_label_issues(self) -> Any:
        """Say which targets look wrong.

        Returns
        -------
        data frame
            Of the kind that `fit` was given (pandas for arrays), one line per row, with cleanlab's names:
            `is_label_issue`, `label_quality` (from 0, surely wrong, to 1; always below 0.5 where it is an issue), `given_label` and
            `predicted_label` (predicted from the other rows). Of a table that was fitted by passes, the rows that are issues (the worst
            thousand of them), worst first, with their numbers in the table, `row`.

        Examples
        --------
        >>> import numpy as np
        >>> from robustard import JointARD
        >>> X = np.arange(20.0).reshape(-1, 1)
        >>> y = 2 * X[:, 0] + 1
        >>> y[7] = 100
        >>> issues = JointARD().fit(X, y).find_label_issues()
        >>> issues[issues["is_label_issue"]].round(3)
           is_label_issue  label_quality  given_label  predicted_label
        7            True            0.0        100.0             15.0
        """
        check_is_fitted(self)
        diagnosis = self._fitted.diagnose()
        suspicious = self._fitted.suspicious()
        if suspicious is not None:
            labels = suspicious["label"]
            rows = (
                {"id": np.array(labels, dtype=object)}
                if suspicious["is_id"]
                else {"row": np.array(labels, dtype=np.intp) - 1}
            )
            issues = np.ones(len(labels), dtype=bool)
            known = _label_issues(suspicious, issues, diagnosis["threshold"], suspicious["predicted"])
            return _frames.make(None, {**rows, **known})
        columns = _label_issues(
            diagnosis, diagnosis["flagged"], diagnosis["threshold"], diagnosis["actual"] - diagnosis["loo_residual"]
        )
        absent = {"is_label_issue": False}
        columns = {name: self._per_row(values, absent.get(name, np.nan)) for name, values in columns.items()}
        return self._result_frame(columns)

    # ---- effects ----------------------------------------------------------------------------------------------

    def effects(self, column: str | None = None) -> Any:
        """Say how each column acts: its main effect, other columns averaged over the training rows.

        Parameters
        ----------
        column : str, optional
            Only this column.

        Returns
        -------
        data frame
            Of the kind that `fit` was given (pandas for arrays), one line per value of a column, most important columns first: `column`, `value`, `effect` (prediction at the value less the
            average, in the target's units), `standard_error`, `lower` and `upper` (a 95% interval) and `share_of_rows`.

        Examples
        --------
        >>> import numpy as np
        >>> from robustard import JointARD
        >>> x = np.linspace(-1, 1, 50)
        >>> effects = JointARD().fit(x.reshape(-1, 1), 3 * x).effects()
        >>> effects["effect"].iloc[[0, -1]].round(2).tolist()
        [-3.0, 3.0]
        """
        check_is_fitted(self)
        known = sorted(self._effects["columns"], key=lambda effect: -effect["importance"])
        if column is not None:
            known = [effect for effect in known if effect["name"] == column]
            if not known:
                raise ValueError(f"the model has no column {column!r}; it has {', '.join(self._fitted.columns)}")
        lines = [
            (
                effect["name"],
                point["value"],
                point["effect"],
                point["error"],
                point["effect"] - 1.96 * point["error"],
                point["effect"] + 1.96 * point["error"],
                point["weight"],
            )
            for effect in known
            for point in effect["points"]
        ]
        return self._table(("column", "value", "effect", "standard_error", "lower", "upper", "share_of_rows"), lines)

    def importances(self) -> Any:
        """Say how much each column matters.

        Returns
        -------
        data frame
            Of the kind that `fit` was given (pandas for arrays), one line per column, most important first: `column`, `importance` (share of the variance of predictions, as
            `feature_importances_`), `loss` and `loss_error` (what the leave-one-out R² loses where the column is not known, at most all of
            it, and the standard error), `loss_by_chance` (what the loss of a column that does nothing stays below), `interacting` (how much of its part is together with other columns), `direction` (correlation of value and
            effect of a number) and `standing` ('clear' if the loss is larger than by chance, 'unclear' or 'dropped').

        Examples
        --------
        >>> import numpy as np
        >>> from robustard import JointARD
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> JointARD().fit(X, X[:, 1]).importances()["column"].tolist()
        ['x1', 'x0']
        """
        check_is_fitted(self)
        names = ("importance", "loss", "loss_error", "loss_by_chance", "interacting", "direction", "standing")
        known = sorted(self._effects["columns"], key=lambda effect: -effect["importance"])
        lines = [(effect["name"], *(effect[name] for name in names)) for effect in known]
        return self._table(("column", *names), lines)

    def _table(self, names: Sequence[str], lines: list[tuple[Any, ...]]) -> Any:
        """A data frame of the kind that was given to fit. Values of a column are numbers, or texts if one of them is."""
        kind = self._training[1] if hasattr(self, "_training") else None

        def column(values: list[Any]) -> npt.NDArray[Any]:
            if any(isinstance(value, str) for value in values):
                return np.array([value if value is None else str(value) for value in values], dtype=object)
            return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

        return _frames.make(kind, {name: column([line[k] for line in lines]) for k, name in enumerate(names)})

    def interactions(self) -> Any:
        """Say which pairs of columns act together most.

        Returns
        -------
        data frame
            Of the kind that `fit` was given (pandas for arrays), one line per pair of values, strongest pairs of columns first:
            `column`, `value`, `other_column`, `other_value`, `effect` (what is added to the two main effects, in the target's units)
            and `share` (what the pair carries, as part of the importance of both columns).

        Examples
        --------
        >>> import numpy as np
        >>> from robustard import JointARD
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> pairs = JointARD().fit(X, X[:, 0] * X[:, 2]).interactions()
        >>> pairs[["column", "other_column"]].values.tolist()[0]
        ['x0', 'x2']
        """
        check_is_fitted(self)
        names = [effect["name"] for effect in self._effects["columns"]]
        lines = [
            (names[pair["columns"][0]], first, names[pair["columns"][1]], other, effect, pair["share"])
            for pair in self._effects["interactions"]
            for first, row in zip(pair["values"][0], pair["effect"], strict=True)
            for other, effect in zip(pair["values"][1], row, strict=True)
        ]
        return self._table(("column", "value", "other_column", "other_value", "effect", "share"), lines)

    def explain(self, X: Any) -> Any:
        """Say what each column contributes to each prediction.

        Half of the change by the column alone, the others averaged over the training rows, and half of the change by it when all others
        are known: Shapley values where columns act alone or in pairs.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (n_samples, n_features)
            The inputs.

        Returns
        -------
        data frame
            Of the kind that X is (pandas for arrays), one line per row: `average`, the average prediction, one column for each column
            of the model, and `prediction`, their sum. Rows with missing inputs are NaN if `missing="drop"`.

        Examples
        --------
        >>> import numpy as np
        >>> from robustard import JointARD
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> model = JointARD().fit(X, 3 * X[:, 1])
        >>> why = model.explain(X[:2])
        >>> bool(np.allclose(why["average"] + why["x0"] + why["x1"], model.predict(X[:2])))
        True
        """
        check_is_fitted(self)
        given, kind, _ = self._inputs(X, reset=False)
        frame, rows = self._new_frame(X)
        result = self._fitted.explain(frame, self._threads())
        for note in result["notes"]:
            warnings.warn(note, UserWarning, stacklevel=2)

        def whole(values: Floats) -> Floats:
            all_rows = np.full(rows, np.nan)
            all_rows[result["rows"]] = values
            return all_rows

        contributions = result["contributions"]
        columns = {"average": np.full(rows, result["average"])}
        columns |= {name: whole(contributions[:, place]) for place, name in enumerate(self._fitted.columns)}
        columns["prediction"] = whole(result["prediction"])
        return _frames.make(kind, columns, given.index if kind == "pandas" else None)

    # ---- pictures and files -----------------------------------------------------------------------------------

    def report(self, path: str | PathLike[str], X: Any = None, y: Any = None, sample_weight: Any = None) -> None:
        """Write a page about the fit: quality, features, suspicious rows, error bars, history.

        Parameters
        ----------
        path : path
            The HTML file, which is replaced if it exists.
        X, y, sample_weight : optional
            What was given to `fit`; needed only for models that were loaded or unpickled.

        Examples
        --------
        >>> import os, tempfile
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.report(os.path.join(folder, "page.html"))
        ...     os.listdir(folder)
        ['page.html']
        """
        check_is_fitted(self)
        kind = None
        read_here = X is None and self._fitted.table_names is not None
        if X is not None:
            X, kind, _ = self._inputs(X, reset=False)
            y, _ = self._target(y)
        elif hasattr(self, "_training"):
            X, kind, y, sample_weight = self._training
        elif not read_here:
            raise ValueError("a model that was loaded or unpickled does not have its table; give X and y as in fit")
        frame = None if read_here else self._training_frame(X, kind, y, sample_weight)
        page = self._fitted.report(frame, f"{self._row_count} rows", self._threads())
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def _training_frame(self, X: Any, kind: _frames.Kind | None, y: Floats, sample_weight: Any) -> Frame:
        frame, _ = _frames.to_frame(X, kind, self._column_names, self._fitted.categories)
        more = {self._fitted.target: y}
        if self._fitted.weights is not None:
            if sample_weight is None:
                raise ValueError("the model was fitted with sample_weight; give it, too")
            more[self._fitted.weights] = _check_sample_weight(sample_weight, np.empty((len(y), 1)), dtype=np.float64)
        return frame.with_columns(list(more), list(more.values()))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file that `robustard.load` and the command line read.

        Parameters
        ----------
        path : path
            The file, which is replaced if it exists.

        Examples
        --------
        >>> import os, tempfile
        >>> from robustard import JointARD, load
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(os.path.join(folder, "line.model"))
        ...     load(os.path.join(folder, "line.model")).coef_.round(1)
        array([2.])
        """
        check_is_fitted(self)
        self._fitted.save(fspath(path))

    def _plot(self, name: str, *arguments: Any, ax: Any = None) -> Any:
        check_is_fitted(self)
        try:
            from . import _plots
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install 'robustard[plot]'") from error
        return getattr(_plots, name)(self, *arguments, ax=ax)

    def plot_effects(self, columns: list[str] | None = None, most: int = 6, ax: Any = None) -> Any:
        """Plot how columns act: main effects with 95% intervals, and where the training rows are.

        Parameters
        ----------
        columns : list of str, optional
            Which columns; the most important ones if none are given.
        most : int, default=6
            How many, if none are given.
        ax : matplotlib Axes, optional
            Where to draw one column; a new figure with one picture per column if none is given.

        Returns
        -------
        list of matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib, numpy as np
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = JointARD().fit(X, X[:, 0] ** 2 + X[:, 1])
        >>> [ax.get_xlabel() for ax in model.plot_effects(["x0", "x1"])]
        ['x0', 'x1']
        """
        return self._plot("effects", columns, most, ax=ax)

    def plot_features(self, most: int = 30, ax: Any = None) -> Any:
        """Plot how much each feature counts: coefficients of linear features with their 95% intervals, else the importance of columns.

        How a column acts is what `plot_effects` shows.

        Parameters
        ----------
        most : int, default=30
            How many, those that count most.
        ax : matplotlib Axes, optional
            Where to draw; a new figure if none is given.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> model.plot_features().get_title()
        '1 of 1 coefficients, clearest at the top; 0 are zero'
        """
        return self._plot("features", most, ax=ax)

    def plot_rows(self, ax: Any = None) -> Any:
        """Plot how far each row is off, in standard deviations, with the rows that look wrong in red.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if none is given.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> ax = model.plot_rows()
        """
        return self._plot("rows", ax=ax)

    def plot_fit(self, level: float = 0.95, X: Any = None, ax: Any = None) -> Any:
        """Plot data, curve and intervals of a model with one input; of others, predictions against actual values.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.
        X : optional
            The inputs that were given to `fit`; needed only for models of one input that were loaded or unpickled.
        ax : matplotlib Axes, optional
            Where to draw; a new figure if none is given.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> ax = model.plot_fit()
        """
        return self._plot("fit", level, X, ax=ax)

    def plot_path(self, ax: Any = None) -> Any:
        """Plot the relevances of the features over the iterations.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure if none is given.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> ax = model.plot_path()
        """
        return self._plot("path", ax=ax)

    def plot_calibration(self, X: Any = None, y: Any = None, ax: Any = None) -> Any:
        """Plot how many rows the intervals hold against how many they should.

        Parameters
        ----------
        X, y : optional
            New rows; the training rows, each predicted from the others, if none are given.
        ax : matplotlib Axes, optional
            Where to draw; a new figure if none is given.

        Returns
        -------
        matplotlib Axes
            Where it was drawn.

        Examples
        --------
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> from robustard import JointARD
        >>> model = JointARD().fit([[1.0], [2.0], [3.0], [4.0]], [2.0, 4.1, 5.9, 8.0])
        >>> ax = model.plot_calibration()
        """
        return self._plot("calibration", X, y, ax=ax)

    def _repr_html_(self) -> str:
        if not hasattr(self, "_fitted"):
            return str(super()._repr_html_inner())
        from ._summary import html

        return html(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


def _label_issues(
    known: dict[str, Any], issues: npt.NDArray[np.bool_], threshold: float, predicted: Floats
) -> dict[str, npt.NDArray[Any]]:
    """Which targets look wrong, with cleanlab's names; the quality is below a half where there is an issue."""
    quality = 1.0 / (1.0 + (known["z"] / threshold) ** 2)
    probability = known["outlier_probability"]
    if probability is not None:
        quality *= np.maximum(1.0 - np.nan_to_num(probability), 1e-12)
    quality[issues] = np.minimum(quality[issues], np.nextafter(0.5, 0.0))
    return {
        "is_label_issue": issues,
        "label_quality": quality,
        "given_label": known["actual"],
        "predicted_label": predicted,
    }
