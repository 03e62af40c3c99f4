"""Model files."""

from __future__ import annotations

import json
from errno import ENOENT
from os import PathLike, fspath
from os.path import exists

import numpy as np

from . import _robustard
from ._ard import ARDRegression
from ._joint import JointARD
from ._rvm import RVM
from ._settings import PARAMETERS


def load(path: str | PathLike[str]) -> JointARD | RVM | ARDRegression:
    """Read a model file, written by `save` or by `robustard fit -o`.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    JointARD, RVM or ARDRegression
        The fitted estimator, as it was saved; for models of the command line RVM or JointARD.

    Examples
    --------
    >>> import tempfile, os, robustard
    >>> model = robustard.JointARD().fit([[0.0], [1.0], [2.0], [3.0]], [0.1, 0.9, 2.1, 2.9])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "line.model")
    ...     model.save(path)
    ...     again = robustard.load(path)
    >>> bool((again.predict([[5.0]]) == model.predict([[5.0]])).all())
    True
    """
    if not exists(path):
        raise FileNotFoundError(ENOENT, "there is no such model file", fspath(path))
    return model_of(_robustard.load(fspath(path)))


def model_of(fitted: _robustard.Fitted) -> JointARD | RVM | ARDRegression:
    """The estimator of a model that comes from a file or from other bytes."""
    model = _estimator(fitted)
    names = fitted.columns
    model.n_features_in_ = len(names)
    model._column_names = names
    if names != [f"x{place}" for place in range(len(names))]:
        model.feature_names_in_ = np.asarray(names, dtype=object)
        # The file knows the columns that are used, a table may have more.
        model._selects_columns = True
    model._adopt(fitted)
    return model


def _estimator(fitted: _robustard.Fitted) -> JointARD | RVM | ARDRegression:
    """The estimator that the model was made by, with its parameters; of the command line, the one that would make it."""
    if fitted.estimator is not None:
        made_by = json.loads(fitted.estimator)
        kinds: dict[str, type[JointARD | RVM | ARDRegression]] = {"ARDRegression": ARDRegression, "RVM": RVM}
        return kinds.get(made_by["class"], JointARD)(**made_by["parameters"])
    options = json.loads(fitted.options)
    features = options.pop("features", "auto")
    parameters = {name: options[engine] for name, (_, engine, _) in PARAMETERS.items() if engine in options}
    lengthscale = parameters.get("lengthscale")
    if lengthscale not in (None, "each", "one", "usual"):
        parameters["lengthscale"] = float(lengthscale)
    parameters["missing"] = fitted.missing
    return RVM(**parameters) if features == "rbf" else JointARD(features=features, **parameters)
