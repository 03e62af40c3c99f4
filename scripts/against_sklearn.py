"""What people would pick instead, on the very splits of `cargo xtask reproduce default`.

    cargo xtask reproduce default --data DATA --sets all --damage clean,shifted,one-sided,swapped,unit \\
        --splits SPLITS --json > scores.jsonl
    python scripts/against_sklearn.py SPLITS scores.jsonl [--without gp]

Needs numpy, pandas, scikit-learn and catboost. Inputs are standardized; the scores are root mean square errors on the test rows,
whose targets are right. The Gaussian process learns its lengthscales, one per input, from at most 500 rows (scikit-learn would
take hours otherwise) and then predicts from all of them. Results are kept beside the splits, so that a second run goes on.
"""

import argparse
import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import ARDRegression, HuberRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

GP_ROWS = 500


class TwoStageProcess:
    """An exact Gaussian process whose lengthscales come from some of the rows."""

    def fit(self, x, y):
        kernel = ConstantKernel() * RBF(np.ones(x.shape[1]), (1e-2, 1e3)) + WhiteKernel(0.1, (1e-8, 1e2))
        learnt = GaussianProcessRegressor(kernel, normalize_y=True).fit(x[:GP_ROWS], y[:GP_ROWS])
        self.process = GaussianProcessRegressor(learnt.kernel_, normalize_y=True, optimizer=None).fit(x, y)
        return self

    def predict(self, x):
        return self.process.predict(x)


def methods(inputs):
    fourier = RBFSampler(gamma=1.0 / inputs, n_components=256, random_state=0)
    return {
        "catboost": CatBoostRegressor(verbose=0, random_seed=0, allow_writing_files=False),
        "catboost, absolute": CatBoostRegressor(
            loss_function="MAE", verbose=0, random_seed=0, allow_writing_files=False
        ),
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


def run(folder, wanted):
    """Fits what has not been fitted yet; all results by the name of the split."""
    known = {}
    for train in sorted(folder.glob("*-train.csv")):
        kept = train.with_name(train.name.replace("-train.csv", "-peers.json"))
        results = json.loads(kept.read_text()) if kept.exists() else {}
        missing = [name for name in wanted if name not in results]
        if missing:
            # The target is the last column of the files.
            table, test = pd.read_csv(train), pd.read_csv(train.with_name(train.name.replace("-train", "-test")))
            results |= score(table, test, table.columns[-1], missing)
            kept.write_text(json.dumps(results))
            print(kept.stem, file=sys.stderr)
        known[train.name.replace("-train.csv", "")] = {name: results[name] for name in wanted}
    return known


def geometric(values):
    return float(np.exp(np.mean(np.log(values))))


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("splits", type=Path)
    parser.add_argument("scores", type=Path, help="what the default did, one JSON object per line")
    parser.add_argument("--without", action="append", default=[], help="a method to leave out")
    arguments = parser.parse_args()
    wanted = [name for name in methods(1) if name not in arguments.without]
    known = run(arguments.splits, wanted)
    cells = defaultdict(lambda: defaultdict(list))
    widths, covered = defaultdict(list), defaultdict(list)
    for line in arguments.scores.read_text().splitlines():
        row = json.loads(line) if line.startswith("{") else {}
        split = known.get(f"{row.get('set')}-{row.get('damage')}-{row.get('seed')}".replace(":", "-"))
        if split and row["method"] == "default":
            cell = cells[row["set"], row["damage"]]
            cell["robustard"].append(row["rmse"])
            covered[row["set"], row["damage"]].append(row["coverage"][2])
            widths[row["set"], row["damage"]].append(row["width"])
            for method, result in split.items():
                cell[method].append(result["error"])
    if not cells:
        sys.exit(f"no score of the default in {arguments.scores} belongs to a split in {arguments.splits}")
    print(f"{'':26}{'robustard':>11}{'catboost':>11}{'ratio':>7}{'best peer':>11}{'ratio':>7}  {'':20} 95% hold")
    ratios = {True: defaultdict(list), False: defaultdict(list)}
    for (data, damage), cell in sorted(cells.items()):
        means = {name: float(np.mean(values)) for name, values in cell.items()}
        ours = means.pop("robustard")
        boosted = min(error for name, error in means.items() if name.startswith("catboost"))
        best = min(means, key=lambda name: means[name])
        to_boosted, to_best = ours / boosted, ours / means[best]
        ratios[damage == "clean"]["catboost"].append(to_boosted)
        ratios[damage == "clean"]["best peer"].append(to_best)
        mark = " <<" if to_best > 1.15 else ""
        held = float(np.mean(covered[data, damage]))
        print(
            f"{data + ' ' + damage:26}{ours:>11.4g}{boosted:>11.4g}{to_boosted:>7.2f}{means[best]:>11.4g}{to_best:>7.2f}"
            f"  {best:20} {100 * held:.1f}%{mark}"
        )
    for is_clean, kind in ((True, "clean"), (False, "dirty")):
        for peer, values in ratios[is_clean].items():
            print(
                f"{kind}: geometric mean of the error over that of {peer}: {geometric(values):.3f} ({len(values)} cells)"
            )


if __name__ == "__main__":
    main()
