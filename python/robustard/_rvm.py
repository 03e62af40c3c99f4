"""The relevance vector machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ._data import Floats
from ._joint import Tunable
from ._settings import Settings, keep, takes_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_settings
class RVM(Tunable):
    """Relevance vector machine: a curve made of few kernel functions, which stand on training rows.

    The basis grows from nothing, one function after the other, each where it raises the evidence most, and loses those that
    later ones make superfluous. With per-row noise, which is chosen if the table needs it, wrong rows have no say.

    Parameters
    ----------
    %(settings)s

    Attributes
    ----------
    relevance_vectors_ : array of shape (n_vectors, n_inputs)
        The rows that the functions stand on.
    relevance_indices_ : array of shape (n_vectors,)
        Which rows of the training table they are.
    dual_coef_ : array of shape (n_vectors,)
        The weights of the functions, in units of the target.
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

    def __init__(self, **settings: Unpack[Settings]) -> None:
        keep(self, settings)

    def _options(self) -> dict[str, Any]:
        return {"features": "rbf", **super()._options()}

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
