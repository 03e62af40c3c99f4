"""Progress, Ctrl-C, threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from robustard import RVM, JointARD
from sklearn.exceptions import ConvergenceWarning


def slow(**more) -> JointARD:
    """A fit of very many iterations."""
    return JointARD(features="linear", noise="student-t", solver="gradient", max_iter=10_000_000, tol=1e-300, **more)


def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 30))
    return X, X[:, 0] + rng.normal(size=400)


def test_progress_is_one_line_on_standard_error(capfd):
    X, y = table()
    # So many iterations take longer than nothing is shown for, on any machine.
    with pytest.warns(ConvergenceWarning):
        slow(verbose=1).set_params(max_iter=60_000).fit(X, y)
    out, error = capfd.readouterr()
    assert out == ""
    assert (
        error.startswith("\rfitting linear features, student-t:4 noise")
        and "iteration" in error
        and error.count("\n") == 1
    )
    JointARD(features="linear").fit(X, y)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interrupt_leaves_the_model_so_far():
    program = textwrap.dedent(
        """
        import warnings, sys
        sys.path.insert(0, sys.argv[1])
        from test_long_work import slow, table
        X, y = table()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            print("ready", flush=True)
            model = slow().fit(X, y)
        assert model.status_ == "interrupted" and not model.converged_, model.status_
        assert "interrupted" in str(caught[0].message), caught
        assert model.predict(X).shape == (400,) and model.n_iter_ > 1
        print("kept", flush=True)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, os.path.dirname(__file__)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    start = time.perf_counter()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    assert out == "kept\n"
    assert time.perf_counter() - start < 10


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [JointARD(), RVM()], ids=repr)
def test_interrupt_while_features_are_learnt(estimator, request):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(4000, 8))
    y = 10 * np.sin(3 * X[:, 0] * X[:, 1]) + 5 * X[:, 2] + rng.normal(size=4000)
    start = time.perf_counter()
    estimator.fit(X, y)
    whole = time.perf_counter() - start
    # Shells start what they put into the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    timer = threading.Timer(0.1 * whole, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    estimator.fit(X, y)
    assert estimator.status_ == "interrupted"
    assert time.perf_counter() - start < 0.7 * whole
    assert np.isfinite(estimator.predict(X)).all()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt_while_a_basis_grows(n_jobs, request):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2500, 8))
    y = 10 * np.sin(3 * X[:, 0] * X[:, 1]) + 5 * X[:, 2] + rng.normal(size=2500)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    # Growth alone takes more than ten seconds.
    model = JointARD(features="rbf", lengthscale=1.0, noise="shared", n_jobs=n_jobs).fit(X, y)
    assert model.status_ == "interrupted"
    assert time.perf_counter() - start < 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_threads_go_on_during_a_fit():
    X, y = table()
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    model = JointARD(features="linear", noise="student-t", solver="gradient", max_iter=2000, tol=1e-300)
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    done.set()
    other.join()
    assert counted > 100 * seconds


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_in_threads_are_the_same():
    X, y = table()
    expected = JointARD(features="linear").fit(X, y).coef_
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(JointARD(features="linear").fit(X, y).coef_)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all((result == expected).all() for result in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_fit():
    X, y = table()
    JointARD(features="smooth").fit(X[:60, :2], y[:60])
    child = os.fork()
    if child == 0:
        try:
            JointARD(features="smooth").fit(X[:60, :2], y[:60]).predict(X[:, :2])
            os._exit(0)
        except BaseException:
            os._exit(1)
    for _ in range(600):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the forked process hangs")


def test_an_exception_of_progress_ends_the_fit(monkeypatch):
    from robustard import _calls, _core

    class Broken(_calls.Progress):
        def __call__(self, *arguments) -> None:
            raise RuntimeError("enough")

    monkeypatch.setattr(_core, "Progress", Broken)
    X, y = table()
    with pytest.raises(RuntimeError, match="enough"):
        slow(verbose=1).fit(X, y)
