"""Fits on Ray."""

import time

import pytest
import ray
import robustard.ray
from helpers import SETTINGS, here, kill, model_bytes, processes


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def fit(X, **given):
    return robustard.ray.JointARD(**SETTINGS).fit(X, target="y", **given)


def test_the_same_bytes_from_any_number_of_actors(folder):
    expected = model_bytes(here(folder))
    for workers in (1, 2, 4):
        assert model_bytes(fit(folder, workers=workers)) == expected, workers
    assert model_bytes(fit(str(folder / "*.parquet"), workers=2)) == expected


def test_what_is_fitted_is_right(folder):
    model = fit(folder, workers=2)
    coefficients = dict(zip(model.coef_names_, model.coef_, strict=True))
    assert coefficients["a"] == pytest.approx(2, abs=0.05)
    assert coefficients["b"] == pytest.approx(-1, abs=0.05)
    assert coefficients["city=Nice"] - coefficients["city=Lyon"] == pytest.approx(3, abs=0.1)
    issues = model.find_label_issues()
    assert issues["is_label_issue"].sum() > 500


def test_datasets(folder):
    blocks = ray.data.read_parquet(str(folder))
    model = fit(blocks, workers=2)
    expected = here(folder)
    assert model.coef_ == pytest.approx(expected.coef_, abs=1e-2)


def test_an_actor_that_is_killed_starts_again(folder):
    killed = []

    class JointARD(robustard.ray.JointARD):
        def fit_partitions(self, run, **given):
            passes = 0

            def with_a_kill(broadcast):
                nonlocal passes
                passes += 1
                if passes == 4:
                    killed.append(kill("ray::_Worker"))
                return run(broadcast)

            return super().fit_partitions(with_a_kill, **given)

    model = JointARD(**SETTINGS).fit(folder, target="y", workers=2)
    assert killed and killed[0] not in processes("ray::_Worker")
    assert model_bytes(model) == model_bytes(here(folder))


def test_a_file_that_cannot_be_read_is_named(folder, tmp_path):
    (tmp_path / "good.parquet").write_bytes((folder / "part-0.parquet").read_bytes())
    whole = (folder / "part-3.parquet").read_bytes()
    # The footer is right, the rows are not.
    (tmp_path / "torn.parquet").write_bytes(whole[:4] + b"\xff" * 20_000 + whole[20_004:])
    started = time.monotonic()
    with pytest.raises(ValueError, match=r"torn\.parquet"):
        fit(tmp_path, workers=2)
    assert time.monotonic() - started < 60
    (tmp_path / "torn.parquet").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"torn\.parquet"):
        fit(tmp_path, workers=2)
    # No actor is left behind.
    until = time.monotonic() + 20
    while processes("ray::_Worker") and time.monotonic() < until:
        time.sleep(0.1)
    assert not processes("ray::_Worker")


def test_what_is_wrong_is_said(folder):
    with pytest.raises(ValueError, match="nope"):
        robustard.ray.JointARD(**SETTINGS).fit(folder, target="nope", workers=2)
    with pytest.raises(ValueError, match="which column to predict"):
        robustard.ray.JointARD().fit(folder)
    with pytest.raises(ValueError, match="no file matches"):
        fit(str(folder / "*.nothing"))
    with pytest.raises(ValueError, match="workers is 0"):
        fit(folder, workers=0)
