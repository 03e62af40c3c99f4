"""The examples run and say what they should; every docstring's example is true."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys

import pytest
import robustard
from conftest import REPOSITORY

EXAMPLES = REPOSITORY / "python" / "examples"


def run(name, *arguments):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=arguments[0].parent if arguments else None
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mislabelled_rows():
    pytest.importorskip("pandas")
    out = run("find_mislabelled_rows.py")
    large, found = map(int, re.search(r"Of (\d+) scores that are ten times too large, (\d+) are found", out).groups())
    assert found >= 0.8 * large
    plain, ours, clean = (float(line.split()[-1]) for line in out.splitlines()[-3:])
    assert ours < 0.9 * plain and ours < 1.1 * clean


def test_robust_sparse_fit():
    out = run("robust_sparse_fit.py")
    errors = {line.split()[0]: float(line.split()[1]) for line in out.splitlines()[1:5]}
    assert errors["robustard"] < 0.7 * min(errors["Ridge"], errors["Huber"], errors["ARD"])
    coverage = float(re.search(r"robustard .* ([\d.]+)%", out).group(1))
    assert 89 < coverage < 98


def test_rvm_on_mcycle(tmp_path):
    pytest.importorskip("matplotlib")
    out = run("rvm_mcycle.py", tmp_path / "mcycle.png")
    assert int(out.split()[0]) < 25
    assert (tmp_path / "mcycle.png").stat().st_size > 10_000


def test_benchmark():
    done = subprocess.run(
        [sys.executable, "-m", "robustard.bench", "--quick", "ard", "influence", "overhead"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "log evidence" in done.stdout and "Overhead" in done.stdout


def test_no_other_examples():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "find_mislabelled_rows.py",
        "robust_sparse_fit.py",
        "rvm_mcycle.py",
    }


def test_docstrings():
    tried = 0
    for module in pkgutil.iter_modules(robustard.__path__, "robustard."):
        # Engines of clusters are not here; python/clusters tries their modules.
        without = ("robustard._robustard", "robustard._plots", "robustard.bench", "robustard.ray", "robustard.spark")
        if module.name in without:
            continue
        result = doctest.testmod(importlib.import_module(module.name), optionflags=doctest.ELLIPSIS)
        assert result.failed == 0, module.name
        tried += result.attempted
    result = doctest.testmod(robustard)
    assert result.failed == 0
    assert tried + result.attempted > 40


def test_everything_public_has_a_docstring_with_parameters():
    for name in ("JointARD", "RVM", "ARDRegression"):
        cls = getattr(robustard, name)
        assert "Parameters\n" in cls.__doc__ and "Examples\n" in cls.__doc__ and "Attributes\n" in cls.__doc__
        for parameter in cls().get_params():
            assert re.search(rf"^    (.*, )?{parameter}(,.*)? : ", cls.__doc__, re.MULTILINE), f"{name}: {parameter}"
        for method in [method for method in dir(cls) if not method.startswith("_")]:
            value = getattr(cls, method)
            if callable(value) and value.__module__.startswith("robustard"):
                assert value.__doc__, f"{name}.{method}"
