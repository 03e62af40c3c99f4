"""The parameters that JointARD and RVM share: names, types, defaults and descriptions in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from numpy.random import RandomState

SolverName = Literal["em", "mackay", "irls-l2", "irls-l1", "gradient", "growing", "passes"]


class Settings(TypedDict, total=False):
    """The shared parameters with their types."""

    noise: str | None
    target_transform: Literal["auto", "none", "log", "asinh"] | None
    interval_rows: Literal["right", "all"] | None
    solver: SolverName | None
    lengthscale: float | str | None
    fit_intercept: bool
    standardize: bool
    missing: Literal["error", "drop", "impute"]
    categorical: Sequence[str] | Sequence[int] | None
    preset: Literal["default", "paper"]
    max_iter: int | None
    tol: float | None
    random_state: int | RandomState | None
    n_jobs: int | None
    verbose: int
    studentized_power: float | None
    damping_weights: float | None
    damping_noise: float | None
    units: Literal["relative", "absolute"] | None
    weight_precision_bounds: Sequence[float] | None
    noise_variance_bounds: Sequence[float] | None
    initial_weight_precision: float | None
    initial_noise_variance: float | None
    noise_start: int | None
    noise_every: int | None
    patience: int | None
    acceleration: Literal["auto", "none", "anderson"] | None
    acceleration_memory: int | None
    pruning: bool | None
    route: Literal["auto", "weight-space", "sample-space"] | None
    learning_rate: float | None
    inner_tolerance: float | None
    inner_max_iterations: int | None
    base_noise: Literal["mean", "inlier", "trimmed", "left-out"] | None


#: Each parameter's default, what the engine calls it (None if the engine does not have it), and its description.
PARAMETERS: dict[str, tuple[Any, str | None, str]] = {
    "noise": (
        None,
        "noise",
        """noise : str, optional
        'auto' (whichever explains the table better), 'shared' (one noise variance for all rows), or one variance per row:
        'student-t[:NU]', 'student-t:learned', 'contaminated', 'contaminated-t[:NU]', 'inverse-gamma:A,B' or 'flat'. By default
        'auto' ('flat' with the preset 'paper').""",
    ),
    "target_transform": (
        None,
        "target_transform",
        """target_transform : {'auto', 'none', 'log', 'asinh'}, optional
        What is fitted instead of the target; predictions and intervals are in the target's units all the same, coefficients are not.
        'asinh' is nearly 'log' where targets are large, and takes any sign. By default 'auto': 'asinh' if errors grow with the target
        and it predicts left-out rows better, where features and noise are chosen, too; else 'none'.""",
    ),
    "interval_rows": (
        None,
        "interval_rows",
        """interval_rows : {'right', 'all'}, optional
        Which new rows intervals and standard deviations are for, where the noise is chosen: rows that are right, or all, if as many
        of them are wrong as of the training rows. By default 'right'.""",
    ),
    "solver": (
        None,
        "solver",
        """solver : {'em', 'mackay', 'irls-l2', 'irls-l1', 'gradient', 'growing', 'passes'}, optional
        How the evidence is maximized. By default 'em'; 'growing' is many times faster where most of many columns do not matter,
        'passes' several times where rows are many and each has its own noise.""",
    ),
    "lengthscale": (
        None,
        "lengthscale",
        """lengthscale : float or {'each', 'one', 'usual'}, optional
        Of 'rff' and 'rbf' features, in standardized inputs: 'each' (one per input, learnt), 'one' (learnt), 'usual' (√(inputs/2))
        or a number. By default 'each' ('usual' with the preset 'paper').""",
    ),
    "fit_intercept": (
        True,
        "intercept",
        """fit_intercept : bool, default=True
        Whether there is an intercept, which is not shrunk.""",
    ),
    "standardize": (
        True,
        "standardize",
        """standardize : bool, default=True
        Whether inputs are standardized inside; coefficients are in the units of the inputs all the same.""",
    ),
    "missing": (
        "error",
        None,
        """missing : {'error', 'drop', 'impute'}, default='error'
        What to do about missing values: refuse them, leave those rows out, or fill in the median and add a column that says so.""",
    ),
    "categorical": (
        None,
        None,
        """categorical : list of column names or places, optional
        Columns that are categories though they hold numbers. Text and category columns of data frames are known as such.""",
    ),
    "preset": (
        "default",
        "preset",
        """preset : {'default', 'paper'}, default='default'
        The settings to start from.""",
    ),
    "max_iter": (
        None,
        "max_iterations",
        """max_iter : int, optional
        Most iterations. By default 1000.""",
    ),
    "tol": (
        None,
        "tolerance",
        """tol : float, optional
        Largest relative change in log space of a converged iteration. By default 1e-4.""",
    ),
    "random_state": (
        0,
        "seed",
        """random_state : int, RandomState instance or None, default=0
        Seed of everything random: of Fourier features and of the rows that curves are learnt from.""",
    ),
    "n_jobs": (
        None,
        None,
        """n_jobs : int, optional
        Threads to use; None means 1 unless in a joblib context, -1 all cores. The result does not depend on it.""",
    ),
    "verbose": (
        0,
        None,
        """verbose : int, default=0
        Whether progress is shown on standard error.""",
    ),
    "studentized_power": (
        None,
        "studentized_power",
        """studentized_power : float, optional
        Power of 1 − leverage that squared residuals are divided by in the noise update; only with noise per row. By default none.""",
    ),
    "damping_weights": (
        None,
        "damping_weights",
        """damping_weights : float, optional
        Share of each step of the weight precisions that is taken; 1 is undamped. By default 1.""",
    ),
    "damping_noise": (
        None,
        "damping_noise",
        """damping_noise : float, optional
        The same for noise variances. By default 1.""",
    ),
    "units": (
        None,
        "units",
        """units : {'relative', 'absolute'}, optional
        Whether bounds and initial values are relative to the data's own scale. By default relative.""",
    ),
    "weight_precision_bounds": (
        None,
        "weight_precision_bounds",
        """weight_precision_bounds : pair of floats, optional
        Range of weight precisions. By default (1e-10, 1e10).""",
    ),
    "noise_variance_bounds": (
        None,
        "noise_variance_bounds",
        """noise_variance_bounds : pair of floats, optional
        Range of noise variances. By default (1e-10, 1e10).""",
    ),
    "initial_weight_precision": (
        None,
        "initial_weight_precision",
        """initial_weight_precision : float, optional
        Weight precision at the start. By default 1.""",
    ),
    "initial_noise_variance": (
        None,
        "initial_noise_variance",
        """initial_noise_variance : float, optional
        Noise variance at the start. By default 0.1.""",
    ),
    "noise_start": (
        None,
        "noise_start",
        """noise_start : int, optional
        Iterations before the noise first moves. By default 0.""",
    ),
    "noise_every": (
        None,
        "noise_every",
        """noise_every : int, optional
        The noise moves in every so many iterations. By default 1.""",
    ),
    "patience": (
        None,
        "patience",
        """patience : int, optional
        Iterations in a row that must be converged. By default 3.""",
    ),
    "acceleration": (
        None,
        "acceleration",
        """acceleration : {'auto', 'none', 'anderson'}, optional
        Extrapolation of the iterations. By default auto.""",
    ),
    "acceleration_memory": (
        None,
        "acceleration_memory",
        """acceleration_memory : int, optional
        Iterations that the extrapolation looks back. By default 10.""",
    ),
    "pruning": (
        None,
        "pruning",
        """pruning : bool, optional
        Whether irrelevant columns leave the work. By default True.""",
    ),
    "route": (
        None,
        "route",
        """route : {'auto', 'weight-space', 'sample-space'}, optional
        Where the linear algebra is done. By default auto.""",
    ),
    "learning_rate": (
        None,
        "learning_rate",
        """learning_rate : float, optional
        Step of the gradient solver. By default 0.05.""",
    ),
    "inner_tolerance": (
        None,
        "inner_tolerance",
        """inner_tolerance : float, optional
        Relative tolerance of the inner problem of irls-l1. By default 1e-7.""",
    ),
    "inner_max_iterations": (
        None,
        "inner_max_iterations",
        """inner_max_iterations : int, optional
        Iterations of that problem. By default 500.""",
    ),
    "base_noise": (
        None,
        "base_noise",
        """base_noise : {'mean', 'inlier', 'trimmed', 'left-out'}, optional
        The noise that predictions of new rows carry. By default inlier.""",
    ),
}

#: What stands for the shared parameters in a docstring.
PLACE = "%(settings)s"

_T = TypeVar("_T", bound=type)


def takes_settings(estimator: _T) -> _T:
    """Gives a class the shared parameters: in the signature of its constructor, which scikit-learn reads, and in its docstring."""
    constructor: Callable[..., None] = estimator.__dict__["__init__"]
    own = [
        parameter
        for parameter in inspect.signature(constructor).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, (default, _, _) in PARAMETERS.items()
    ]
    constructor.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    descriptions = "\n    ".join(description for _, _, description in PARAMETERS.values())
    estimator.__doc__ = (estimator.__doc__ or "").replace(PLACE, descriptions)
    return estimator


def keep(estimator: Any, settings: Settings) -> None:
    """Sets the shared parameters as attributes, as scikit-learn wants them; unknown names are refused."""
    for name in settings:
        if name not in PARAMETERS:
            raise TypeError(f"{type(estimator).__name__}.__init__() got an unexpected keyword argument {name!r}")
    for name, (default, _, _) in PARAMETERS.items():
        setattr(estimator, name, settings.get(name, default))
