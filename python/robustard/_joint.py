"""Joint automatic relevance determination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ._base import Regression
from ._settings import PARAMETERS, Settings, keep, takes_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


def check_type(name: str, value: Any, types: tuple[type, ...], expected: str) -> None:
    """Refuses values that no message of the engine would name."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ValueError(f"{name} is {value!r}; it must be {expected}")


class Tunable(Regression):
    """An estimator with all settings of the engine."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The parameters, which are set by name."""

    def _options(self) -> dict[str, Any]:
        for name in ("noise", "target_transform", "interval_rows", "solver"):
            check_type(name, getattr(self, name), (str, type(None)), "a text or None")
        check_type("preset", self.preset, (str,), "a text")
        if self.missing not in ("error", "drop", "impute"):
            raise ValueError(f"missing is {self.missing!r}; it must be error, drop or impute")
        for name in ("fit_intercept", "standardize"):
            check_type(name, getattr(self, name), (bool, np.bool_), "True or False")
        options = {
            engine_name: getattr(self, name)
            for name, (_, engine_name, _) in PARAMETERS.items()
            if engine_name is not None
        }
        lengthscale = self.lengthscale
        if lengthscale is not None and not isinstance(lengthscale, str):
            check_type("lengthscale", lengthscale, (int, float, np.number), "a number, 'each', 'one' or 'usual'")
            options["lengthscale"] = repr(float(lengthscale))
        options["seed"] = self._seed()
        return {name: value for name, value in options.items() if value is not None}

    def _seed(self) -> int:
        given = self.random_state
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            if not 0 <= given < 2**64:
                raise ValueError(f"random_state is {given}; it must be a whole number from 0 on")
            return int(given)
        return int(check_random_state(given).randint(2**31))


@takes_settings
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
    %(settings)s

    Attributes
    ----------
    weights_ : array of shape (n_coefs,)
        Weights of the features: of linear features in units of the target per unit of the input, of others in units of the target per
        feature. 0 where a feature does not matter. A smooth curve has none: see `effects`.
    coef_ : array of shape (n_coefs,)
        The same, of linear features only.
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
    feature_importances_ : array of shape (n_features_in_,)
        The share of the variance of predictions that each input column carries; they sum to 1. See `importances`.
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
        A bound on the log evidence after each iteration; with shared noise the log evidence itself.
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
    target_transform_ : {'none', 'log', 'asinh'}
        What was fitted instead of the target; coefficients and intercept are of that.
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

    def __init__(self, *, features: str = "auto", **settings: Unpack[Settings]) -> None:
        self.features = features
        keep(self, settings)

    def _options(self) -> dict[str, Any]:
        check_type("features", self.features, (str,), "a text: auto, linear, smooth, poly:DEGREE, rff or rbf")
        return {"features": self.features, **super()._options()}
