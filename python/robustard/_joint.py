"""Joint automatic relevance determination."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ._base import Regression

SolverName = Literal["em", "mackay", "irls-l2", "irls-l1", "gradient", "growing"]

#: Parameters that are settings of the engine by the same name.
SETTINGS = (
    "studentized_power",
    "damping_weights",
    "damping_noise",
    "units",
    "weight_precision_bounds",
    "noise_variance_bounds",
    "initial_weight_precision",
    "initial_noise_variance",
    "noise_start",
    "noise_every",
    "max_iterations",
    "tolerance",
    "patience",
    "acceleration",
    "acceleration_memory",
    "pruning",
    "route",
    "learning_rate",
    "inner_tolerance",
    "inner_max_iterations",
    "base_noise",
)


def check_type(name: str, value: Any, types: tuple[type, ...], expected: str) -> None:
    """Refuses values that no message of the engine would name."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ValueError(f"{name} is {value!r}; it must be {expected}")


class Tunable(Regression):
    """An estimator with all settings of the engine."""

    def _named_options(self) -> dict[str, Any]:
        settings = {name: getattr(self, name) for name in SETTINGS}
        for name in ("noise", "noise_prior", "solver"):
            check_type(name, getattr(self, name), (str, type(None)), "a text or None")
        for name in ("missing", "preset"):
            check_type(name, getattr(self, name), (str,), "a text")
        for name in ("fit_intercept", "standardize"):
            check_type(name, getattr(self, name), (bool, np.bool_), "True or False")
        if self.noise == "shared" and self.noise_prior is not None:
            raise ValueError("noise_prior speaks of noise per row, but noise is 'shared'; leave one of them out")
        lengthscale = self.lengthscale
        if lengthscale is not None and not isinstance(lengthscale, str):
            check_type("lengthscale", lengthscale, (int, float, np.number), "a number, 'each', 'one' or 'usual'")
            lengthscale = repr(float(lengthscale))
        return {
            "noise": self.noise,
            "noise_prior": self.noise_prior,
            "solver": self.solver,
            "lengthscale": lengthscale,
            "no_intercept": not self.fit_intercept,
            "no_standardize": not self.standardize,
            "missing": self.missing,
            "preset": self.preset,
            "seed": self.seed,
            "threads": self._threads(),
            "settings": {name: value for name, value in settings.items() if value is not None},
        }


class JointARD(Tunable):
    """Sparse and robust linear or curved regression with error bars.

    Learns one precision per feature and, if the table needs it, one noise variance per row by maximizing the evidence: features
    that do not matter get no weight, rows that are wrong get no say.

    Parameters
    ----------
    features : str, default='auto'
        What is made of the inputs: 'auto' (lines or a smooth curve, whichever predicts left-out rows better), 'linear',
        'smooth[:CENTRES]' (lines and a curve), 'poly:DEGREE', 'rff[:COUNT]' (random Fourier features) or 'rbf' (kernel
        functions on rows; see `RVM`).
    noise : {'auto', 'shared', 'per-row'}, optional
        One noise variance for all rows, or one per row. By default whichever explains the table better ('auto'), unless
        `noise_prior` or the preset 'paper' asks for noise per row.
    noise_prior : str, optional
        What is known of noise per row: 'flat', 'inverse-gamma:A,B', 'student-t[:NU]', 'student-t:learned', 'contaminated'
        or 'contaminated-t[:NU]'.
    solver : {'em', 'mackay', 'irls-l2', 'irls-l1', 'gradient', 'growing'}, optional
        How the evidence is maximized. By default 'em'; 'growing' is many times faster where most of many columns do not matter.
    lengthscale : float or {'each', 'one', 'usual'}, optional
        Of 'rff' and 'rbf' features, in standardized inputs: 'each' (one per input,
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
    RVM : Few kernel functions.
    ARDRegression : The interface of scikit-learn's class of that name.

    Examples
    --------
    Two of ten features matter, and two rows are wrong.

    >>> import numpy as np
    >>> from robustard import JointARD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> y = 3 * X[:, 0] - 2 * X[:, 4] + 0.1 * rng.normal(size=200)
    >>> y[[17, 90]] += 20
    >>> model = JointARD().fit(X, y)
    >>> np.flatnonzero(np.abs(model.coef_) > 0.05)
    array([0, 4])
    >>> np.flatnonzero(model.outlier_mask_)
    array([17, 90])
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> bool((std < 0.2).all())
    True
    """

    def __init__(
        self,
        *,
        features: str = "auto",
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
        self.features = features
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
        check_type("features", self.features, (str,), "a text: auto, linear, smooth, poly:DEGREE, rff or rbf")
        return {"features": self.features, **super()._named_options()}
