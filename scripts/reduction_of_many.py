"""What the driver of a cluster does: a fit whose partitions answer at once.

    ~/.cache/robustard/clusters-python/bin/python scripts/reduction_of_many.py [--partitions 1000] [--columns 200] [--rows 100000]

One partition is real; its answers stand for those of all others. So the time between two questions is what the driver takes to read and
add the sums of all partitions and to learn from them, and the bytes are those that travel.
"""

import argparse
import time

import numpy as np
import pyarrow as pa
import robustard


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((arguments.columns, arguments.rows))
    y = x[: arguments.columns // 4].sum(axis=0) + rng.standard_normal(arguments.rows)
    y[::20] += 10
    partition = robustard.Partition(pa.table({**{f"x{j}": x[j] for j in range(arguments.columns)}, "y": y}))
    work, driver, asked, answered, last = [], [], [], [], None

    def run(broadcast):
        nonlocal last
        started = time.perf_counter()
        if last is not None:
            driver.append(started - last)
        answer = partition.sums(broadcast)
        work.append(time.perf_counter() - started)
        asked.append(len(broadcast))
        answered.append(len(answer))
        last = time.perf_counter()
        return [answer] * arguments.partitions

    started = time.perf_counter()
    robustard.JointARD(features="linear", noise="contaminated").fit_partitions(run, target="y")
    whole = time.perf_counter() - started
    steps = ["columns", "sample", *(f"pass {k}" for k in range(1, len(work) - 2)), "rows"]
    print(f"{arguments.partitions} partitions of {arguments.rows} x {arguments.columns}, {whole:.1f} s in all")
    print(f"{'':10} {'a partition s':>13} {'driver s':>9} {'to it MB':>9} {'from all MB':>12}")
    for step, own, after, to, back in zip(steps, work, [*driver, float("nan")], asked, answered, strict=True):
        print(f"{step:10} {own:>13.3f} {after:>9.3f} {to / 1e6:>9.3f} {back * arguments.partitions / 1e6:>12.1f}")


if __name__ == "__main__":
    main()
