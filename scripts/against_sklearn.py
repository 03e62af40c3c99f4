"""What people would pick instead, on the very splits of `cargo xtask reproduce default`.

    RAYON_NUM_THREADS=1 cargo xtask reproduce default --data DATA --sets all --splits SPLITS --json \\
        --damage clean,shifted,one-sided,swapped,unit --methods default > scores.jsonl
    python scripts/against_sklearn.py SPLITS scores.jsonl [--without gp] [--jobs 2]

Needs numpy, pandas, scikit-learn and catboost. Inputs are standardized; the scores are root mean square errors on the test rows,
whose targets are right. Every fit has one thread. The Gaussian process learns its lengthscales, one per input, from at most 300 rows
in at most 40 steps (scikit-learn would take hours otherwise) and then predicts from all of them. Results are kept beside the splits,
so that a second run goes on.
"""

# The number of threads has to be said before the libraries are loaded.
# ruff: noqa: E402
import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import ARDRegression, HuberRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

GP_ROWS = 300
GP_STEPS = 40
#: What must hold of the ratios of errors, clean and dirty.
LIMITS = {"catboost": (0.88, 0.75), "best peer": (0.97, 0.92)}
WORST_CELL = 1.15
WORST_SWAPPED = 1.05


class TwoStageProcess:
    """An exact Gaussian process whose lengthscales come from some of the rows."""

    @staticmethod
    def _few_steps(objective, start, bounds):
        found = minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": GP_STEPS})
        return found.x, found.fun

    def fit(self, x, y):
        kernel = ConstantKernel() * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-8, 1e2))
        learnt = GaussianProcessRegressor(kernel, normalize_y=True, optimizer=self._few_steps)
        learnt.fit(x[:GP_ROWS], y[:GP_ROWS])
        self.process = GaussianProcessRegressor(learnt.kernel_, normalize_y=True, optimizer=None).fit(x, y)
        return self

    def predict(self, x):
        return self.process.predict(x)


def methods(inputs):
    fourier = RBFSampler(gamma=1.0 / inputs, n_components=256, random_state=0)
    boosted = {"verbose": 0, "random_seed": 0, "allow_writing_files": False, "thread_count": 1}
    return {
        "catboost": CatBoostRegressor(**boosted),
        "catboost, absolute": CatBoostRegressor(loss_function="MAE", **boosted),
        "trees": HistGradientBoostingRegressor(random_state=0),
        "trees, absolute": HistGradientBoostingRegressor(loss="absolute_error", random_state=0),
        "huber": HuberRegressor(max_iter=1000),
        "huber, fourier": make_pipeline(fourier, HuberRegressor(max_iter=1000)),
        "ard": ARDRegression(),
        "gp": TwoStageProcess(),
    }


def score(train, test, target, names):
    """Errors of these methods, and the processor's seconds."""
    x, y = train.drop(columns=target).to_numpy(float), train[target].to_numpy(float)
    scaler = StandardScaler().fit(x)
    x, new = scaler.transform(x), scaler.transform(test.drop(columns=target).to_numpy(float))
    centre, spread = y.mean(), y.std()
    results = {}
    for name in names:
        start = time.process_time()
        model = methods(x.shape[1])[name]
        predicted = centre + spread * model.fit(x, (y - centre) / spread).predict(new)
        error = float(np.sqrt(np.mean((predicted - test[target].to_numpy(float)) ** 2)))
        results[name] = {"error": error, "seconds": time.process_time() - start}
    return results


def results_of(train, wanted):
    """Results of a split; what has not been fitted yet is fitted."""
    warnings.simplefilter("ignore")
    kept = train.with_name(train.name.replace("-train.csv", "-peers.json"))
    results = json.loads(kept.read_text()) if kept.exists() else {}
    missing = [name for name in wanted if name not in results]
    if missing:
        # The target is the last column of the files.
        table, test = pd.read_csv(train), pd.read_csv(train.with_name(train.name.replace("-train", "-test")))
        results |= score(table, test, table.columns[-1], missing)
        kept.write_text(json.dumps(results))
        print(kept.stem, file=sys.stderr)
    return train.name.replace("-train.csv", ""), {name: results[name] for name in wanted}


def geometric(values):
    return float(np.exp(np.mean(np.log(values))))


def verdict(text, worst, limit):
    """One claim; what it is about, by name, must be at most the limit."""
    missed = {name: value for name, value in worst.items() if value > limit}
    more = "; not " + ", ".join(f"{name} ({value:.2f})" for name, value in missed.items()) if missed else ""
    print(f"{text} at most {limit}: {len(worst) - len(missed)} of {len(worst)}{more}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("splits", type=Path)
    parser.add_argument("scores", type=Path, help="what the default did, one JSON object per line")
    parser.add_argument("--without", action="append", default=[], help="a method to leave out")
    parser.add_argument("--only", action="append", default=[], help="a method to run; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="splits at a time")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only or methods(1) if name not in arguments.without]
    rows = [json.loads(line) for line in arguments.scores.read_text().splitlines() if line.startswith("{")]
    rows = [row for row in rows if row["method"] == "default"]
    files = [arguments.splits / f"{row['split']}-train.csv" for row in rows]
    files = [file for file in files if file.exists()]
    if not files:
        sys.exit(f"no score of the default in {arguments.scores} belongs to a split in {arguments.splits}")
    with ProcessPoolExecutor(arguments.jobs) as pool:
        known = dict(pool.map(results_of, files, [wanted] * len(files)))
    cells = defaultdict(lambda: defaultdict(list))
    covered, seconds = defaultdict(list), defaultdict(list)
    for row in rows:
        if row["split"] in known:
            name = f"{row['set']} {row['damage']}"
            cells[name]["robustard"].append(row["rmse"])
            covered[name].append(row["coverage"][2])
            peers = known[row["split"]]
            for method, result in peers.items():
                cells[name][method].append(result["error"])
            boosted = min(result["seconds"] for method, result in peers.items() if method.startswith("catboost"))
            seconds[row["set"]].append((row["cpu_seconds"], boosted))
    print(f"{'':26}{'robustard':>11}{'catboost':>11}{'ratio':>7}{'best peer':>11}{'ratio':>7}  {'':20} 95% hold")
    ratios = defaultdict(dict)
    for name, cell in sorted(cells.items()):
        means = {method: float(np.mean(values)) for method, values in cell.items()}
        ours = means.pop("robustard")
        boosted = min(error for method, error in means.items() if method.startswith("catboost"))
        best = min(means, key=lambda method: means[method])
        ratios["catboost"][name], ratios["best peer"][name] = ours / boosted, ours / means[best]
        mark = " <<" if ours / means[best] > WORST_CELL else ""
        held = 100 * float(np.mean(covered[name]))
        print(
            f"{name:26}{ours:>11.4g}{boosted:>11.4g}{ours / boosted:>7.2f}{means[best]:>11.4g}{ours / means[best]:>7.2f}"
            f"  {best:20} {held:5.1f}%{mark}"
        )
    for peer, limits in LIMITS.items():
        for kind, limit in zip(("clean", "dirty"), limits, strict=True):
            values = [ratio for name, ratio in ratios[peer].items() if name.endswith("clean") == (kind == "clean")]
            if values:
                print(
                    f"{kind}: geometric mean of the error over that of {peer}: {geometric(values):.3f} ({len(values)} cells, "
                    f"at most {limit})"
                )
    verdict("error over that of the best peer", ratios["best peer"], WORST_CELL)
    swapped = {name: ratio for name, ratio in ratios["best peer"].items() if "swapped" in name}
    verdict("swapped: error over that of the best peer", swapped, WORST_SWAPPED)
    outside = {
        name: f"{100 * np.mean(held):.1f}%" for name, held in covered.items() if not 0.92 <= np.mean(held) <= 0.98
    }
    print(f"95% intervals hold 92 to 98%: {len(covered) - len(outside)} of {len(covered)}; not {outside}")
    times = {name: sum(own for own, _ in pairs) / sum(other for _, other in pairs) for name, pairs in seconds.items()}
    print(f"processors' time over that of CatBoost (the faster loss): median {np.median(list(times.values())):.2f}")
    verdict("processors' time over that of CatBoost", times, 2)


if __name__ == "__main__":
    main()
