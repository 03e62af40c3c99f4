"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def line() -> tuple[np.ndarray, np.ndarray]:
    """Five inputs, of which two matter, and three wrong rows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 5))
    y = 2.0 * X[:, 1] - 1.0 * X[:, 3] + 4.0 + 0.1 * rng.normal(size=150)
    y[[10, 50, 90]] += [8.0, -9.0, 15.0]
    return X, y


@pytest.fixture
def mcycle() -> tuple[np.ndarray, np.ndarray]:
    """Head acceleration after a motorcycle accident."""
    path = REPOSITORY / "crates" / "robustard-table" / "data" / "mcycle.csv"
    table = np.genfromtxt(path, delimiter=",", names=True)
    return table["times"].reshape(-1, 1), table["accel"]


@pytest.fixture
def robustard_command() -> str:
    """The command, which `cargo xtask test` builds."""
    command = os.environ.get("ROBUSTARD_COMMAND")
    if not command:
        pytest.skip("ROBUSTARD_COMMAND is not set to the robustard command")
    return command
