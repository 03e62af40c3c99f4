"""Tables larger than memory: `robustard fit` beside what people use instead, from the same files.

    cargo build --release && python scripts/stream_beside_others.py FOLDER [--rows 1000000,10000000,100000000] [--beside 10000000]

Writes tables of 20 normal inputs (8 of which matter) into FOLDER as Parquet files of a million rows each, 5% of whose targets are off by 10
standard deviations of the noise, and removes them at the end. Each program runs as a process of its own, whose peak memory and time the
system tells. The error is that of predictions of 100,000 new rows against the noise-free truth, in standard deviations of the noise.

Needs numpy, pyarrow, scikit-learn and lightgbm.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

INPUTS = 20
PIECE = 1_000_000
TEST_ROWS = 100_000
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release" / "robustard"


def weights():
    own = np.zeros(INPUTS)
    own[:8] = np.random.default_rng(0).normal(size=8)
    return own


def piece(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((INPUTS, rows))
    y = 3.0 + weights() @ x + rng.standard_normal(rows)
    wrong = rng.random(rows) < 0.05
    y[wrong] += np.where(rng.random(wrong.sum()) < 0.5, 10.0, -10.0)
    return x, y


def write(folder, rows):
    folder.mkdir(parents=True)
    for k in range(-(-rows // PIECE)):
        x, y = piece(min(PIECE, rows - k * PIECE), 1 + k)
        table = pa.table({**{f"x{j}": x[j] for j in range(INPUTS)}, "y": y})
        pq.write_table(table, folder / f"{k:04}.parquet", compression="none", use_dictionary=False)


def bandwidth(folder):
    """Bytes per second of reading the files one after the other, from the disk as far as they are not in memory."""
    files, total = sorted(folder.iterdir())[:8], 0
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    started = time.perf_counter()
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while chunk := file.read(1 << 22):
                total += len(chunk)
    return total / (time.perf_counter() - started)


def measured(command):
    """Runs a command; its output, seconds and peak memory in bytes."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} ended with {status}")
    seconds = time.perf_counter() - started
    return output.decode(), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def test_table(folder):
    rng = np.random.default_rng(10**6)
    x = rng.standard_normal((INPUTS, TEST_ROWS))
    path = folder / "test.parquet"
    pq.write_table(pa.table({f"x{j}": x[j] for j in range(INPUTS)}), path)
    return path, 3.0 + weights() @ x


def error(prediction, truth):
    return float(np.sqrt(np.mean((np.asarray(prediction) - truth) ** 2)))


def ours(files, folder, memory):
    model, out = folder / "m.model", folder / "predicted.parquet"
    fit = [COMMAND, "fit", files, "--target", "y", "--memory", memory, "--json", "--quiet", "--force", "-o", model]
    text, seconds, cpu, peak = measured(list(map(str, fit)))
    summary = json.loads(text)
    test, truth = test_table(folder)
    subprocess.run([COMMAND, "predict", model, test, "-o", out, "--only", "--quiet", "--force"], check=True)
    found = error(pq.read_table(out)["prediction"], truth)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
        "error": found,
        "passes": summary["whole"]["passes"],
        "fit_seconds": summary["seconds"],
        "noise": summary["fitted"]["noise"],
        "features": summary["fitted"]["features"],
    }


def sgd(files, folder):
    from sklearn.linear_model import SGDRegressor
    from sklearn.preprocessing import StandardScaler

    scaler, model = StandardScaler(), SGDRegressor(loss="huber", random_state=0)
    pieces = sorted(Path(files).iterdir())

    def columns(table):
        return np.column_stack([table[f"x{j}"] for j in range(INPUTS)])

    for path in pieces:
        scaler.partial_fit(columns(pq.read_table(path)))
    for _ in range(3):
        for path in pieces:
            table = pq.read_table(path)
            model.partial_fit(scaler.transform(columns(table)), table["y"].to_numpy())
    test, truth = test_table(Path(folder))
    print(json.dumps({"error": error(model.predict(scaler.transform(columns(pq.read_table(test)))), truth)}))


def lightgbm(files, folder):
    import lightgbm as lgb

    class Files(lgb.Sequence):
        batch_size = 65536

        def __init__(self, path):
            self.table = pq.read_table(path)

        def __len__(self):
            return self.table.num_rows

        def __getitem__(self, index):
            if isinstance(index, slice):
                part = self.table.slice(index.start, index.stop - index.start)
                return np.column_stack([part[f"x{j}"] for j in range(INPUTS)])
            return np.array([self.table[f"x{j}"][int(index)].as_py() for j in range(INPUTS)])

    pieces = sorted(Path(files).iterdir())
    y = np.concatenate([pq.read_table(path, columns=["y"])["y"].to_numpy() for path in pieces])
    data = lgb.Dataset([Files(path) for path in pieces], label=y)
    model = lgb.train({"objective": "regression_l1", "verbose": -1, "num_threads": 2}, data, num_boost_round=100)
    test, truth = test_table(Path(folder))
    x = np.column_stack([pq.read_table(test)[f"x{j}"] for j in range(INPUTS)])
    print(json.dumps({"error": error(model.predict(x), truth)}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", default="1000000,10000000,100000000")
    parser.add_argument("--beside", type=int, default=10_000_000)
    parser.add_argument("--memory", default="100MB")
    parser.add_argument("--only", choices=["sgd", "lightgbm"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        {"sgd": sgd, "lightgbm": lightgbm}[arguments.only](arguments.folder / "table", arguments.folder)
        return
    print(
        f"{'rows':>11} {'program':<34} {'passes':>6} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} {'error':>8}  rows/s and share of reading"
    )
    for rows in map(int, arguments.rows.split(",")):
        folder = arguments.folder / "table"
        write(folder, rows)
        try:
            speed = bandwidth(folder)
            own = ours(folder, arguments.folder, arguments.memory)
            # Passes, and the last one that diagnoses.
            rate = rows * (own["passes"] + 1) / own["fit_seconds"]
            share = rate * 8 * (INPUTS + 1) / speed
            name = f"robustard ({own['features']}, {own['noise']})"
            print(
                f"{rows:>11} {name:<34} {own['passes']:>6} {own['seconds']:>8.1f} {own['cpu']:>8.1f} {own['peak'] / 1e6:>8.0f} "
                f"{own['error']:>8.4f}  {rate / 1e6:.2f} million, {share:.2f} of {speed / 1e9:.2f} GB/s",
                flush=True,
            )
            if rows == arguments.beside:
                for other, name in [
                    ("sgd", "scikit-learn SGD, huber, 3 epochs"),
                    ("lightgbm", "LightGBM, absolute loss, 100 trees"),
                ]:
                    command = [sys.executable, __file__, str(arguments.folder), "--only", other]
                    text, seconds, cpu, peak = measured(command)
                    found = json.loads(text)["error"]
                    print(
                        f"{rows:>11} {name:<34} {'':>6} {seconds:>8.1f} {cpu:>8.1f} {peak / 1e6:>8.0f} {found:>8.4f}",
                        flush=True,
                    )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
