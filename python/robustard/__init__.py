"""Regression that decides for itself which features and which rows deserve trust.

>>> import numpy as np
>>> from robustard import JointARD
>>> X = np.arange(20.0).reshape(-1, 1)
>>> y = 2 * X[:, 0] + 1
>>> y[7] = 100
>>> model = JointARD().fit(X, y)
>>> np.flatnonzero(model.outlier_mask_)
array([7])
"""

from __future__ import annotations

from ._ard import ARDRegression
from ._core import EffectiveSupport, LeaveOneOut
from ._files import load
from ._joint import JointARD
from ._robustard import __version__
from ._rvm import RVM
from ._streams import Partition, partial_sums

__all__ = [
    "RVM",
    "ARDRegression",
    "EffectiveSupport",
    "JointARD",
    "LeaveOneOut",
    "Partition",
    "__version__",
    "load",
    "partial_sums",
]
