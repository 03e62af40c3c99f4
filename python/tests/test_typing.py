"""A user's file passes mypy --strict."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np
import numpy.typing as npt

import robustard
from robustard import RVM, ARDRegression, JointARD

X: npt.NDArray[np.float64] = np.zeros((10, 2))
y = np.arange(10.0)
model: JointARD = JointARD(features="linear", noise="shared", tol=1e-5, n_jobs=2).fit(X, y)
mean: npt.NDArray[np.float64] = model.predict(X)
both: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] = model.predict(X, return_std=True)
matrix: npt.NDArray[np.float64] = model.predict(X, return_cov=True)[1]
interval: npt.NDArray[np.float64] = model.predict_interval(X, level=0.9)
coefficients: npt.NDArray[np.float64] = model.coef_
names: list[str] = model.coef_names_
share: float = model.effective_support_.rows
error: float = model.loo_.rmse
vectors: npt.NDArray[np.float64] = RVM(lengthscale="one").fit(X, y).relevance_vectors_
noise: float = ARDRegression(max_iter=50).fit(X, y).alpha_
loaded: JointARD | RVM | ARDRegression = robustard.load("a.model")
version: str = robustard.__version__
"""

WRONG = [
    "JointARD(noise=1)",
    'JointARD(solver="newton")',
    "JointARD(no_such_setting=1)",
    'RVM(features="linear")',
    "JointARD().predict_interval([[1.0]], level='high')",
    "robustard.load(3)",
]


def check(text, tmp_path):
    path = tmp_path / "user.py"
    path.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(path)], capture_output=True, text=True, cwd=tmp_path
    )


def test_a_users_file_is_fine(tmp_path):
    pytest.importorskip("mypy")
    done = check(PROGRAM, tmp_path)
    assert done.returncode == 0, done.stdout


def test_mistakes_are_found(tmp_path):
    pytest.importorskip("mypy")
    head = "import robustard\nfrom robustard import RVM, JointARD\n"
    done = check(head + "\n".join(WRONG) + "\n", tmp_path)
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(3, 3 + len(WRONG))), done.stdout
