"""Model files."""

from __future__ import annotations

import json
from errno import ENOENT
from os import PathLike, fspath
from os.path import exists

import numpy as np

from . import _robustard
from ._joint import SETTINGS, JointARD
from ._rvm import RVM


def load(path: str | PathLike[str]) -> JointARD | RVM:
    """Read a model file, written by `save` or by `robustard fit -o`.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    JointARD or RVM
        The fitted estimator: RVM for kernel functions.

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
    fitted = _robustard.load(fspath(path))
    options, facts = json.loads(fitted.options()), json.loads(fitted.facts())
    features, settings = options["features"], options["settings"]
    lengthscale = features["lengthscale"]
    if lengthscale not in ("each", "one", "usual"):
        lengthscale = float(lengthscale)
    chosen, usual = options["auto"], json.loads(_robustard.default_settings())

    def is_chosen(name: str) -> bool:
        # The noise of predictions goes with the noise.
        return name == "base_noise" and bool(chosen["noise"])

    known = {
        "noise": "auto" if chosen["noise"] else settings["noise"],
        "noise_prior": None if chosen["noise"] else settings["noise_prior"],
        "solver": settings["solver"],
        "fit_intercept": options["intercept"],
        "standardize": features["standardize"],
        "missing": options["encode"]["missing"],
        "categorical": options["encode"]["categorical"] or None,
        "seed": features["seed"],
        **{name: settings[name] for name in SETTINGS if settings[name] != usual[name] and not is_chosen(name)},
    }
    if features["kind"].startswith(("rbf", "rff")):
        known["lengthscale"] = lengthscale
    model: JointARD | RVM
    if features["kind"] == "rbf":
        model = RVM(**known)
    else:
        model = JointARD(features="auto" if chosen["features"] else features["kind"], **known)
    names = facts["columns"]
    model.n_features_in_ = len(names)
    model._column_names = names
    if names != [f"x{place}" for place in range(len(names))]:
        model.feature_names_in_ = np.asarray(names, dtype=object)
        # The file knows the columns that are used, a table may have more.
        model._selects_columns = True
    model._adopt(fitted, int(fitted.rows().max()) + 1)
    return model
