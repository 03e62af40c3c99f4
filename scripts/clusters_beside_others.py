"""Seconds per pass of fits on clusters: threads of one process, Ray, Sail and Spark, beside what people would use or write instead.

    cargo xtask clusters      # makes an environment with the engines and the wheel, in the user's cache folder
    ~/.cache/robustard/clusters-python/bin/python scripts/clusters_beside_others.py FOLDER [--rows 2000000] [--columns 32]

Writes a table of normal inputs (a quarter of which matter) into FOLDER as eight Parquet files, 5% of whose targets are off by 10 standard
deviations of the noise, and removes it at the end. Every engine has two workers with one thread each, unless it says otherwise. A pass is
the median of the passes of a fit after the first; the error is that of the coefficients, in standard deviations of the noise.
"NumPy in mapInArrow" is the weighted Gram matrix of the same pass as one would write it by hand.
"""

# The number of threads has to be said before the libraries are loaded.
# ruff: noqa: E402
import os

for library in ("OMP", "OPENBLAS", "MKL", "RAYON"):
    os.environ[f"{library}_NUM_THREADS"] = "1"
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

import argparse
import json
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import robustard
from robustard import _distributed

os.environ["PYSPARK_PYTHON"] = sys.executable
FILES = 8
SERVERS = []
SETTINGS = {"features": "linear", "noise": "contaminated"}


def weights(columns):
    own = np.zeros(columns)
    own[: columns // 4] = np.random.default_rng(0).normal(size=columns // 4)
    return own


def write(folder, rows, columns):
    folder.mkdir(parents=True)
    for k in range(FILES):
        rng = np.random.default_rng(1 + k)
        count = rows // FILES
        x = rng.standard_normal((columns, count))
        y = 3.0 + weights(columns) @ x + rng.standard_normal(count)
        wrong = rng.random(count) < 0.05
        y[wrong] += np.where(rng.random(wrong.sum()) < 0.5, 10.0, -10.0)
        table = pa.table({**{f"x{j}": x[j] for j in range(columns)}, "y": y})
        pq.write_table(table, folder / f"part-{k}.parquet", row_group_size=1 << 20)


class Timed:
    """Measures the calls of a fit to its rows."""

    def __init__(self):
        self.seconds = []

    def __enter__(self):
        self.fit = robustard.JointARD.fit_partitions

        def timed(estimator, run, **given):
            def one(broadcast):
                started = time.perf_counter()
                answers = list(run(broadcast))
                self.seconds.append(time.perf_counter() - started)
                return answers

            return self.fit(estimator, one, **given)

        robustard.JointARD.fit_partitions = timed
        self.started = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.whole = time.perf_counter() - self.started
        robustard.JointARD.fit_partitions = self.fit

    def result(self, model, columns):
        # Before the passes: what the columns hold, and the sample. After them: the summary of the rows.
        passes = self.seconds[3:-1] or self.seconds[2:-1]
        found = dict(zip(model.coef_names_, model.coef_, strict=True))
        coefficients = np.array([found.get(f"x{j}", 0.0) for j in range(columns)])
        return {
            "passes": len(self.seconds[2:-1]),
            "pass": float(np.median(passes)),
            "whole": self.whole,
            "error": float(np.linalg.norm(coefficients - weights(columns))),
        }


def threads(folder, columns, workers):
    with Timed() as timed:
        model = _distributed.fit_here(robustard.JointARD(**SETTINGS), folder, workers=workers, target="y")
    return timed.result(model, columns)


def on_ray(folder, columns, workers):
    import ray
    from robustard.ray import JointARD

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    with Timed() as timed:
        model = JointARD(**SETTINGS).fit(folder, target="y", workers=workers)
    return timed.result(model, columns)


def sail_session():
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    # It ends with its object.
    SERVERS.append(server)
    return SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()


def spark_session():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,4096]").config("spark.ui.enabled", "false")
    session = builder.config("spark.executor.memory", "4g").config("spark.log.level", "FATAL").getOrCreate()
    session.sparkContext.setLogLevel("FATAL")
    return session


def on_spark(session, folder, columns, is_packed):
    from pyspark.sql import functions
    from robustard.spark import JointARD

    frame = session.read.parquet(str(folder))
    if is_packed:
        frame = frame.withColumn("y", functions.col("y") + 0.0)
    with Timed() as timed:
        model = JointARD(target="y", **SETTINGS).fit(frame)
    return timed.result(model.estimator, columns)


def by_hand(session, folder, columns):
    """A pass as one would write it: residuals, weights by them, the weighted Gram matrix."""
    current = np.zeros(columns + 1)

    def work(batches):
        gram, right = np.zeros((columns + 1, columns + 1)), np.zeros(columns + 1)
        for batch in batches:
            x = np.column_stack([batch.column(j).to_numpy() for j in range(columns)] + [np.ones(batch.num_rows)])
            y = batch.column(columns).to_numpy()
            residual = y - x @ current
            weight = 5.0 / (4.0 + residual**2)
            weighted = x * weight[:, None]
            gram += weighted.T @ x
            right += weighted.T @ y
        yield pa.record_batch({"sums": pa.array([gram.tobytes() + right.tobytes()], pa.binary())})

    frame = session.read.parquet(str(folder)).persist()
    seconds = []
    for _ in range(8):
        started = time.perf_counter()
        found = [bytes(row["sums"]) for row in frame.mapInArrow(work, "sums binary").collect()]
        sums = sum(np.frombuffer(part) for part in found)
        gram, right = sums[: (columns + 1) ** 2].reshape(columns + 1, -1), sums[(columns + 1) ** 2 :]
        current = np.linalg.solve(gram, right)
        seconds.append(time.perf_counter() - started)
    error = float(np.linalg.norm(current[:columns] - weights(columns)))
    return {"passes": 8, "pass": float(np.median(seconds[2:])), "whole": sum(seconds), "error": error}


def kernels(folder, columns):
    """The two kernels on one partition in memory, on one thread."""
    table = pq.read_table(folder / "part-0.parquet")
    partition = robustard.Partition(table)
    calls = []

    def run(broadcast):
        started = time.perf_counter()
        answer = partition.sums(broadcast)
        calls.append(time.perf_counter() - started)
        return [answer]

    robustard.JointARD(**SETTINGS).fit_partitions(run, target="y")
    current = np.zeros(columns + 1)
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        for batch in table.to_batches(65536):
            x = np.column_stack([batch.column(j).to_numpy() for j in range(columns)] + [np.ones(batch.num_rows)])
            residual = batch.column(columns).to_numpy() - x @ current
            weighted = x * (5.0 / (4.0 + residual**2))[:, None]
            _ = weighted.T @ x, weighted.T @ batch.column(columns).to_numpy()
        seconds.append(time.perf_counter() - started)
    return {"rust": float(np.median(calls[3:-1])), "numpy": float(np.median(seconds))}


def of_spark(session, folder, columns, kind):
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import GeneralizedLinearRegression, LinearRegression

    frame = VectorAssembler(inputCols=[f"x{j}" for j in range(columns)], outputCol="features").transform(
        session.read.parquet(str(folder))
    )
    started = time.perf_counter()
    if kind == "glm":
        model = GeneralizedLinearRegression(labelCol="y").fit(frame)
    else:
        model = LinearRegression(labelCol="y", regParam=0.01, elasticNetParam=0.5).fit(frame)
    whole = time.perf_counter() - started
    error = float(np.linalg.norm(model.coefficients.toArray() - weights(columns)))
    return {"whole": whole, "error": error}


PROGRAMS = {
    "one process, 1 thread": lambda folder, columns: threads(folder, columns, 1),
    "one process, 2 threads": lambda folder, columns: threads(folder, columns, 2),
    "Ray, 1 actor": lambda folder, columns: on_ray(folder, columns, 1),
    "Ray, 2 actors": lambda folder, columns: on_ray(folder, columns, 2),
    "Sail, files": lambda folder, columns: on_spark(sail_session(), folder, columns, False),
    "Spark, files": lambda folder, columns: on_spark(spark_session(), folder, columns, False),
    "Spark, packed": lambda folder, columns: on_spark(spark_session(), folder, columns, True),
    "Spark, NumPy in mapInArrow": lambda folder, columns: by_hand(spark_session(), folder, columns),
    "Spark, LinearRegression (elastic net)": lambda folder, columns: of_spark(spark_session(), folder, columns, "net"),
    "Spark, GeneralizedLinearRegression": lambda folder, columns: of_spark(spark_session(), folder, columns, "glm"),
    "kernels": kernels,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=32)
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder / f"{arguments.rows}x{arguments.columns}"
    warnings.simplefilter("ignore")
    if arguments.only:
        print(json.dumps(PROGRAMS[arguments.only](folder, arguments.columns)), flush=True)
        # Servers in the background would go on.
        os._exit(0)
    try:
        write(folder, arguments.rows, arguments.columns)
        print(f"{arguments.rows} x {arguments.columns} in {FILES} files, {os.cpu_count()} processors")
        print(f"{'':40} {'passes':>6} {'s a pass':>9} {'s in all':>9} {'error':>8}")
        for name in PROGRAMS:
            command = [sys.executable, __file__, str(arguments.folder), "--rows", str(arguments.rows)]
            command += ["--columns", str(arguments.columns), "--only", name]
            done = subprocess.run(command, capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
            if not lines:
                print(f"{name:40} failed: {done.stderr.strip().splitlines()[-1:]}")
                continue
            found = json.loads(lines[-1])
            if name == "kernels":
                ratio = found["numpy"] / found["rust"]
                print(
                    f"a partition, one thread: Rust {found['rust']:.3f} s, NumPy {found['numpy']:.3f} s: {ratio:.1f} times"
                )
                continue
            passes, seconds = found.get("passes", ""), found.get("pass")
            shown = "" if seconds is None else f"{seconds:.3f}"
            print(f"{name:40} {passes:>6} {shown:>9} {found['whole']:>9.1f} {found['error']:>8.4f}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
