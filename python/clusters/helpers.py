"""What the tests of the engines share."""

import os
import signal
import subprocess

import numpy as np
import pyarrow as pa
import robustard

SETTINGS = {"features": "linear", "noise": "contaminated"}


def readings(rows, seed):
    """y = 10 + 2a − b + 3 in Nice + noise; every twentieth row is off by 15."""
    rng = np.random.default_rng(seed)
    a, b, junk = rng.normal(size=(3, rows))
    city = rng.choice(["Lyon", "Nice", "Paris"], size=rows)
    y = 10 + 2 * a - b + 3 * (city == "Nice") + 0.5 * rng.normal(size=rows)
    y[::20] += 15
    return pa.table({"id": np.arange(rows) + 1_000_000 * seed, "a": a, "b": b, "junk": junk, "city": city, "y": y})


def model_bytes(model):
    """The fitted model, as a file has it."""
    return bytes(model._fitted.to_bytes())


def here(folder, **settings):
    """The same fit by threads of this process."""
    from robustard._distributed import fit_here

    return fit_here(robustard.JointARD(**{**SETTINGS, **settings}), folder, target="y")


def processes(*words):
    """The numbers of the processes whose commands have these words in them."""
    lines = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = [line.split(None, 1) for line in lines[1:]]
    return [int(number) for number, command in found if all(word in command for word in words)]


def kill(*words):
    """Kills one process with these words in its command."""
    number = processes(*words)[0]
    os.kill(number, signal.SIGKILL)
    return number
