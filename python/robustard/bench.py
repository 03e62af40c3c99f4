"""Speed beside scikit-learn, fastrvm and statsmodels, and memory:
python -m robustard.bench [ard] [rvm] [influence] [overhead] [memory] [--quick]

Everything is measured in one run on this machine, with one thread and with two; medians of a few repetitions. What is not
installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.linear_model import ARDRegression as SklearnARD
from threadpoolctl import threadpool_limits

from . import RVM, ARDRegression, JointARD, __version__
from ._data import Floats

Table = tuple[Floats, Floats]


def main() -> None:
    """Runs the benchmarks that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m robustard.bench", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[[], *WHAT], help="all by default")
    parser.add_argument("--quick", action="store_true", help="small tables only")
    arguments = parser.parse_args()
    what = arguments.what or WHAT
    print(f"robustard {__version__}, Python {platform.python_version()}, {platform.machine()}, {_cores()} cores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in what:
            WHAT[name](arguments.quick)


def ard(quick: bool) -> None:
    """One noise variance: scikit-learn's ARDRegression, and forming XᵀX."""
    print(
        "\nARD with shared noise, beside scikit-learn's ARDRegression (its defaults: at most 300 iterations) and X.T @ X."
    )
    print("CPU milliseconds, one thread")
    head = f"{'':<12} {'rows':>6} {'columns':>8} {'X.T @ X':>9} {'scikit-learn':>13} {'robustard':>10} {'times':>6}"
    print(f"{head} {'of X.T @ X':>11} {'log evidence: theirs':>21} {'ours':>10}")
    shapes = [(500, 50)] if quick else [(2000, 100), (2000, 500), (20000, 256)]
    for name, draw in [("fourier", _waves), ("independent", _sparse_line), ("correlated", _correlated)]:
        for rows, columns in shapes:
            X, y = draw(rows, columns)
            with _threads(1):
                _, product = _timed(partial(np.matmul, X.T, X), 9, time.process_time)
                theirs, slow = _fitted(SklearnARD(), (X, y), 1 if columns > 200 else 3, time.process_time)
                ours, fast = _fitted(ARDRegression(n_jobs=1), (X, y), 9, time.process_time)
            evidence = [
                _log_evidence(X, y, theirs.lambda_, 1 / theirs.alpha_),
                _log_evidence(X, y, ours.weight_precision_, ours.noise_variance_[0]),
            ]
            print(
                f"{name:<12} {rows:>6} {columns:>8} {1e3 * product:>9.1f} {1e3 * slow:>13.1f} {1e3 * fast:>10.1f} "
                f"{slow / fast:>5.1f}x {fast / product:>10.1f}x {evidence[0]:>21.2f} {evidence[1]:>10.2f}",
                flush=True,
            )


def rvm(quick: bool) -> None:
    """Kernel functions: fastrvm."""
    if importlib.util.find_spec("fastrvm") is None:
        print("\nRVM: left out, fastrvm is not installed (pip install fastrvm)")
        return
    from fastrvm import RVR

    print("\nRVM beside fastrvm (its defaults; gamma='scale'). 'same kernel': shared noise and that lengthscale;")
    print(
        "'learnt': shared noise and learnt lengthscales; 'default': the noise is chosen, too. Vectors and test RMSE of 2000 rows"
    )
    print(f"{'':<10} {'rows':>5} {'threads':>8} {'':<13} {'seconds':>9} {'times':>7} {'vectors':>8} {'RMSE':>8}")
    for name, draw in [("sinc", _sinc), ("friedman", _friedman)]:
        for rows in (500,) if quick else (500, 1000, 2000, 5000):
            X, y = draw(rows, 0)
            new = draw(2000, 1)
            length = float(np.sqrt(0.5 * X.shape[1] * X.var()))
            for threads in (1, 2):
                with _threads(threads):
                    few = 3 if rows < 2000 or name == "sinc" else 1
                    theirs, slow = _fitted(RVR(), (X, y), few)
                    print(f"{name:<10} {rows:>5} {threads:>8} {'fastrvm':<13} {slow:>8.3f}s {'':>7}", end="")
                    print(f" {len(theirs.relevance_):>8} {_rmse(theirs, new):>8.4f}", flush=True)
                    variants: dict[str, dict[str, Any]] = {
                        "same kernel": {"noise": "shared", "standardize": False, "lengthscale": length},
                        "learnt": {"noise": "shared"},
                        "default": {},
                    }
                    for variant, options in variants.items():
                        ours, fast = _fitted(RVM(n_jobs=threads, **options), (X, y), few)
                        print(f"{'':<25} {variant:<13} {fast:>8.3f}s {slow / fast:>6.1f}x", end="")
                        print(f" {len(ours.dual_coef_):>8} {_rmse(ours, new):>8.4f}", flush=True)


def influence(quick: bool) -> None:
    """Diagnostics of rows: statsmodels."""
    if importlib.util.find_spec("statsmodels") is None or importlib.util.find_spec("pandas") is None:
        print("\nInfluence: left out, statsmodels is not installed (pip install statsmodels)")
        return
    import statsmodels.api as statsmodels

    rows = 500 if quick else 8000
    X, y = _sparse_line(rows, 20)
    fitted = statsmodels.OLS(y, statsmodels.add_constant(X)).fit()
    model = JointARD(features="linear", noise="shared").fit(X, y)
    _, slow = _timed(lambda: fitted.get_influence().summary_frame(), 1)
    _, fast = _timed(model.influence, 20)
    print(f"\nInfluence of {rows} rows, 20 columns: statsmodels' OLSInfluence.summary_frame() {slow:.3f} s, ", end="")
    print(f"influence() {1e3 * fast:.2f} ms: {slow / fast:.0f}x")


def overhead(quick: bool) -> None:
    """What a call from Python costs beyond the fit."""
    rows, columns = (404, 64) if quick else (404, 256)
    X, y = _sparse_line(rows, columns)
    print(f"\nOverhead of a call from Python, {rows} rows, {columns} columns: time of fit() beyond that of the engine")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("linear, shared noise", {"features": "linear", "noise": "shared"}),
        ("linear, noise per row", {"features": "linear", "noise": "student-t"}),
        ("default", {}),
    ]
    for name, options in cases:
        shares = []
        for model in [JointARD(**options) for _ in range(9)]:
            start = time.perf_counter()
            model.fit(X, y)
            total = time.perf_counter() - start
            shares.append((total - model._fitted.seconds, model._fitted.seconds))
        more, engine = np.median(np.array(shares), axis=0)
        print(f"  {name:<22} {1e3 * engine:8.1f} ms + {1e3 * more:.2f} ms = {100 * more / engine:.1f}%")
    print("One row predicted, without and with its standard deviation")
    X, y = _friedman(rows, 0)
    for features in ("linear", "smooth"):
        model = JointARD(features=features, noise="shared").fit(X, y)
        means = _timed(partial(model.predict, X[:1]), 2000)[1]
        both = _timed(partial(model.predict, X[:1], return_std=True), 2000)[1]
        print(f"  {features:<8} {rows} rows, {X.shape[1]} inputs {1e6 * means:8.1f} µs {1e6 * both:8.1f} µs")


def memory(quick: bool) -> None:
    """The most that is resident during a fit, in a process of its own."""
    rows = 100_000 if quick else 1_000_000
    print(f"\nMemory of a fit of {rows} rows, 20 columns, linear features: largest resident, in units of X as doubles,")
    print("beyond what there was before it (the caller's table among it)")
    for noise in ("shared", "student-t"):
        asked = subprocess.run(
            [sys.executable, "-c", _FIT, str(rows), noise], capture_output=True, text=True, check=True
        )
        print(f"  {noise:<10} {float(asked.stdout):.2f}")


_FIT = """
import resource, sys
import numpy as np
from robustard import JointARD
rows, noise = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
X = rng.normal(size=(rows, 20))
y = X[:, 0] + rng.normal(size=rows)
JointARD(features="linear", noise=noise).fit(X[:100], y[:100])
resident = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = resident()
JointARD(features="linear", noise=noise).fit(X, y)
print((resident() - before) / X.nbytes)
"""

#: What can be measured.
WHAT: dict[str, Callable[[bool], None]] = {
    "ard": ard,
    "rvm": rvm,
    "influence": influence,
    "overhead": overhead,
    "memory": memory,
}


def _cores() -> int:
    import os

    return os.cpu_count() or 1


@contextmanager
def _threads(count: int) -> Iterator[None]:
    with threadpool_limits(count):
        yield


Clock = Callable[[], float]


def _fitted(estimator: Any, table: Table, repetitions: int, clock: Clock = time.perf_counter) -> tuple[Any, float]:
    """The fitted estimator and the median time of its fit."""
    return _timed(lambda: estimator.fit(*table), repetitions, clock)


def _timed(work: Callable[[], Any], repetitions: int, clock: Clock = time.perf_counter) -> tuple[Any, float]:
    """The result and the median time."""
    seconds = []
    for _ in range(repetitions):
        start = clock()
        result = work()
        seconds.append(clock() - start)
    return result, float(np.median(seconds))


def _sparse_line(rows: int, columns: int) -> Table:
    """A tenth of the columns matter."""
    rng = np.random.default_rng(rows + columns)
    weights = np.where(rng.uniform(size=columns) < 0.1, rng.normal(size=columns), 0.0)
    X = rng.normal(size=(rows, columns))
    return X, X @ weights + rng.normal(size=rows)


def _correlated(rows: int, columns: int) -> Table:
    """The same of columns that follow each other with a correlation of 0.95."""
    rng = np.random.default_rng(rows + columns)
    weights = np.where(rng.uniform(size=columns) < 0.1, rng.normal(size=columns), 0.0)
    X = rng.normal(size=(rows, columns))
    for column in range(1, columns):
        X[:, column] = 0.95 * X[:, column - 1] + np.sqrt(1 - 0.95**2) * X[:, column]
    return X, X @ weights + rng.normal(size=rows)


def _waves(rows: int, columns: int) -> Table:
    """Random Fourier features of Friedman #1."""
    X, y = _friedman(rows, 0)
    rng = np.random.default_rng(columns)
    frequencies = rng.normal(size=(10, columns)) / (X.std() * np.sqrt(10))
    return np.sqrt(2 / columns) * np.cos(X @ frequencies + rng.uniform(0, 2 * np.pi, size=columns)), y


def _sinc(rows: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-10, 10, size=(rows, 1))
    return x, np.sinc(x[:, 0] / np.pi) + 0.1 * rng.normal(size=rows)


def _friedman(rows: int, seed: int) -> Table:
    """Friedman #1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(rows, 10))
    truth = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, truth + rng.normal(size=rows)


def _rmse(model: Any, table: Table) -> float:
    X, y = table
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


def _log_evidence(X: Floats, y: Floats, weight_precision: Floats, noise_variance: float) -> float:
    """log p(y | γ, λ) of centred data, in weight space."""
    X, y = X - X.mean(axis=0), y - y.mean()
    root = X / np.sqrt(weight_precision)
    inner = np.eye(X.shape[1]) + root.T @ root / noise_variance
    solved = np.linalg.solve(inner, root.T @ y)
    form = (y @ y - solved @ (root.T @ y) / noise_variance) / noise_variance
    log_determinant = len(y) * np.log(noise_variance) + np.linalg.slogdet(inner)[1]
    return float(-0.5 * (log_determinant + form + len(y) * np.log(2 * np.pi)))


if __name__ == "__main__":
    main()
