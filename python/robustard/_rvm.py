"""The relevance vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ._core import Floats
from ._joint import SolverName, Tunable


class RVM(Tunable):
    """Relevance vector machine: a curve made of few kernel functions, which stand on training rows.

    The basis grows from nothing, one function after the other, each where it raises the evidence most, and loses those that
    later ones make superfluous. With per-row noise, which is chosen if the table needs it, wrong rows have no say.

    Parameters
    ----------
    noise : {'auto', 'shared', 'per-row'}, optional
        One noise variance for all rows, or one per row. By default whichever explains the table better ('auto'), unless
        `noise_prior` or the preset 'paper' asks for noise per row.
    noise_prior : str, optional
        What is known of noise per row: 'flat', 'inverse-gamma:A,B', 'student-t[:NU]', 'student-t:learned', 'contaminated'
        or 'contaminated-t[:NU]'.
    solver : {'em', 'mackay', 'irls-l2', 'irls-l1', 'gradient', 'growing'}, optional
        How the evidence is maximized once the functions are chosen. By default 'em'.
    lengthscale : float or {'each', 'one', 'usual'}, optional
        Of the kernel exp(−Σ(xₖ − cₖ)²/(2ℓₖ²)), in standardized inputs: 'each' (one per input,
        learnt), 'one' (learnt), 'usual' (√(inputs/2)) or a number. By default 'each' ('usual' with the preset 'paper').
    fit_intercept : bool, default=True
        Whether there is an intercept, which is not shrunk.
    standardize : bool, default=True
        Whether inputs are standardized inside; coefficients are in the units of the inputs all the same.
    missing : {'error', 'drop', 'impute'}, default='error'
        What to do about missing values: refuse them, leave those rows out, or fill in the median and add a column that says so.
    categorical : list of column names or places, optional
        Columns that are categories though they hold numbers. Text and category columns of data frames are known as such.
    preset : {'default', 'paper'}, default='default'
        The settings to start from.
    seed : int, default=0
        Seed of everything random.
    n_jobs : int, optional
        Threads to use; all cores by default. The result does not depend on it.
    verbose : int, default=0
        Whether progress is shown on standard error.
    studentized_power : float, optional
        Power of 1 − leverage that second moments of rows are divided by; only with per-row noise. By default none.
    damping_weights : float, optional
        Share of each step of the weight precisions that is taken, in log space; 1 is undamped. By default 1.
    damping_noise : float, optional
        The same for noise variances. By default 1.
    units : {'relative', 'absolute'}, optional
        Whether bounds and initial values are relative to the data's own scale. By default relative.
    weight_precision_bounds : pair of floats, optional
        Range of weight precisions. By default (1e-10, 1e10).
    noise_variance_bounds : pair of floats, optional
        Range of noise variances. By default (1e-10, 1e10).
    initial_weight_precision : float, optional
        Weight precision at the start. By default 1.
    initial_noise_variance : float, optional
        Noise variance at the start. By default 0.1.
    noise_start : int, optional
        Iterations before the noise first moves. By default 0.
    noise_every : int, optional
        The noise moves in every so many iterations. By default 1.
    max_iterations : int, optional
        Most iterations. By default 1000.
    tolerance : float, optional
        Largest relative change in log space of a converged iteration. By default 1e-4.
    patience : int, optional
        Iterations in a row that must be converged. By default 3.
    acceleration : {'auto', 'none', 'anderson'}, optional
        Extrapolation of the iterations. By default auto.
    acceleration_memory : int, optional
        Iterations that the extrapolation looks back. By default 10.
    pruning : bool, optional
        Whether irrelevant columns leave the work. By default True.
    route : {'auto', 'weight-space', 'sample-space'}, optional
        Where the linear algebra is done. By default auto.
    learning_rate : float, optional
        Step of the gradient solver. By default 0.05.
    inner_tolerance : float, optional
        Relative tolerance of the inner problem of irls-l1. By default 1e-7.
    inner_max_iterations : int, optional
        Iterations of that problem. By default 500.
    base_noise : {'mean', 'inlier', 'trimmed', 'left-out'}, optional
        The noise that predictions of new rows carry. By default inlier.

    Attributes
    ----------
    relevance_vectors_ : array of shape (n_vectors, n_inputs)
        The rows that the functions stand on.
    relevance_indices_ : array of shape (n_vectors,)
        Which rows of the training table they are.
    dual_coef_ : array of shape (n_vectors,)
        The weights of the functions, in units of the target.
    coef_ : array of shape (n_coefs,)
        Weights of the features: of linear features in units of the target per unit of the input, of smooth features their
        linear part in the same units, of other features in units of the target per feature. 0 where a feature does not matter.
    coef_names_ : list of str
        What they belong to: the inputs, or for example `city=Paris` for a level of a category.
    coef_std_ : array of shape (n_coefs,)
        Their standard errors.
    sigma_ : array of shape (n_coefs, n_coefs)
        Their covariance.
    intercept_ : float
        The intercept.
    weight_precision_ : array of shape (n_coefs,)
        The learnt precisions of the coefficients.
    feature_importances_ : array of shape (n_coefs,)
        Relevances, which sum to 1.
    noise_variance_ : array of shape (n_samples,)
        The noise variance of each row; NaN for rows that were left out.
    row_relevance_ : array of shape (n_samples,)
        Its inverse: how far each row is to be relied upon.
    outlier_mask_ : array of shape (n_samples,)
        The rows that look wrong.
    effective_support_ : (features, rows)
        Shares of features and rows in use, by the entropy of their relevances.
    loo_ : (rmse, r2, median_error, coverage_95, optimistic)
        How well each row is predicted from the others, in closed form.
    scores_ : array of shape (n_iter_,)
        Minus the objective after each iteration: a bound on the log evidence of the standardized target.
    evidence_ : float
        Log evidence.
    n_iter_ : int
        Iterations used.
    status_ : {'converged', 'iteration-limit', 'interrupted', 'numerical-trouble'}
        How the fit ended. The model is usable in every case.
    converged_ : bool
        Whether it converged.
    features_, noise_ : str
        The features and the noise that were fitted.
    choice_ : dict or None
        What was compared, and why this was chosen, if anything was.
    n_features_in_ : int
        Number of input columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, if they have any.
    left_out_ : dict
        Columns of data frames that are not used, and why.

    See Also
    --------
    JointARD : Linear, smooth and other features.

    Examples
    --------
    >>> import numpy as np
    >>> from robustard import RVM
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-10, 10, size=(300, 1))
    >>> y = np.sinc(x[:, 0] / np.pi) + 0.05 * rng.normal(size=300)
    >>> model = RVM().fit(x, y)
    >>> len(model.relevance_vectors_) < 20
    True
    >>> bool(abs(model.predict([[0.0]])[0] - 1) < 0.1)
    True
    """

    def __init__(
        self,
        *,
        noise: Literal["auto", "shared", "per-row"] | None = None,
        noise_prior: str | None = None,
        solver: SolverName | None = None,
        lengthscale: float | str | None = None,
        fit_intercept: bool = True,
        standardize: bool = True,
        missing: Literal["error", "drop", "impute"] = "error",
        categorical: Sequence[str] | Sequence[int] | None = None,
        preset: Literal["default", "paper"] = "default",
        seed: int = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
        studentized_power: float | None = None,
        damping_weights: float | None = None,
        damping_noise: float | None = None,
        units: Literal["relative", "absolute"] | None = None,
        weight_precision_bounds: Sequence[float] | None = None,
        noise_variance_bounds: Sequence[float] | None = None,
        initial_weight_precision: float | None = None,
        initial_noise_variance: float | None = None,
        noise_start: int | None = None,
        noise_every: int | None = None,
        max_iterations: int | None = None,
        tolerance: float | None = None,
        patience: int | None = None,
        acceleration: Literal["auto", "none", "anderson"] | None = None,
        acceleration_memory: int | None = None,
        pruning: bool | None = None,
        route: Literal["auto", "weight-space", "sample-space"] | None = None,
        learning_rate: float | None = None,
        inner_tolerance: float | None = None,
        inner_max_iterations: int | None = None,
        base_noise: Literal["mean", "inlier", "trimmed", "left-out"] | None = None,
    ) -> None:
        self.noise = noise
        self.noise_prior = noise_prior
        self.solver = solver
        self.lengthscale = lengthscale
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.missing = missing
        self.categorical = categorical
        self.preset = preset
        self.seed = seed
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.studentized_power = studentized_power
        self.damping_weights = damping_weights
        self.damping_noise = damping_noise
        self.units = units
        self.weight_precision_bounds = weight_precision_bounds
        self.noise_variance_bounds = noise_variance_bounds
        self.initial_weight_precision = initial_weight_precision
        self.initial_noise_variance = initial_noise_variance
        self.noise_start = noise_start
        self.noise_every = noise_every
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.patience = patience
        self.acceleration = acceleration
        self.acceleration_memory = acceleration_memory
        self.pruning = pruning
        self.route = route
        self.learning_rate = learning_rate
        self.inner_tolerance = inner_tolerance
        self.inner_max_iterations = inner_max_iterations
        self.base_noise = base_noise

    def _named_options(self) -> dict[str, Any]:
        return {"features": "rbf", **super()._named_options()}

    def _vectors(self) -> tuple[list[int], Floats, Floats]:
        check_is_fitted(self)
        vectors = self._fitted.relevance_vectors()
        assert vectors is not None
        return vectors

    @property
    def relevance_vectors_(self) -> Floats:
        """The rows that the functions stand on."""
        return self._vectors()[1]

    @property
    def relevance_indices_(self) -> npt.NDArray[np.intp]:
        """Which rows of the training table they are."""
        rows: npt.NDArray[np.intp] = self._rows[self._vectors()[0]]
        return rows

    @property
    def dual_coef_(self) -> Floats:
        """The weights of the functions."""
        return self._vectors()[2]
