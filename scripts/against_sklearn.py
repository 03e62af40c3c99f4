"""What a user of scikit-learn would pick instead, on the very splits of `cargo xtask reproduce default`.

    cargo xtask reproduce default --data DATA --splits SPLITS --json > scores.jsonl
    python scripts/against_sklearn.py SPLITS scores.jsonl

Needs numpy, pandas and scikit-learn. Inputs are standardized; the scores are root mean square errors on the test rows, whose
targets are right. The Gaussian process learns its lengthscales, one per input, from at most 500 rows (scikit-learn would take
hours otherwise) and then predicts from all of them. Results are kept beside the splits, so that a second run goes on.
"""

import json
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
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
        "trees": HistGradientBoostingRegressor(random_state=0),
        "trees, absolute": HistGradientBoostingRegressor(loss="absolute_error", random_state=0),
        "huber": HuberRegressor(max_iter=1000),
        "huber, fourier": make_pipeline(fourier, HuberRegressor(max_iter=1000)),
        "ard": ARDRegression(),
        "gp": TwoStageProcess(),
    }


def score(train, test, target):
    x, y = train.drop(columns=target).to_numpy(float), train[target].to_numpy(float)
    scaler = StandardScaler().fit(x)
    x, new = scaler.transform(x), scaler.transform(test.drop(columns=target).to_numpy(float))
    centre, spread = y.mean(), y.std()
    errors, seconds = {}, {}
    for name, model in methods(x.shape[1]).items():
        start = time.time()
        predicted = centre + spread * model.fit(x, (y - centre) / spread).predict(new)
        errors[name] = float(np.sqrt(np.mean((predicted - test[target].to_numpy(float)) ** 2)))
        seconds[name] = time.time() - start
    return {"errors": errors, "seconds": seconds}


def main(folder, ours):
    warnings.simplefilter("ignore")
    folder = Path(folder)
    for train in sorted(folder.glob("*-train.csv")):
        kept = train.with_name(train.name.replace("-train.csv", "-sklearn.json"))
        if not kept.exists():
            test = pd.read_csv(train.with_name(train.name.replace("-train", "-test")))
            table = pd.read_csv(train)
            # The target is the last column of the files.
            kept.write_text(json.dumps(score(table, test, table.columns[-1])))
            print(kept.stem, file=sys.stderr)
    cells = defaultdict(lambda: defaultdict(list))
    for line in Path(ours).read_text().splitlines():
        row = json.loads(line)
        name = f"{row['set']}-{row['contamination']:g}-{row['seed']}-sklearn.json"
        if row["method"] == "default" and (folder / name).exists():
            cell = cells[row["set"], row["contamination"]]
            cell["robustard"].append(row["rmse"])
            for method, error in json.loads((folder / name).read_text())["errors"].items():
                cell[method].append(error)
    if not cells:
        sys.exit(f"no score of the default in {ours} belongs to a split in {folder}")
    names = list(next(iter(cells.values())))
    print(f"{'':16}" + "".join(f"{name:>17}" for name in names))
    lowest = near = 0
    for (data, share), cell in sorted(cells.items()):
        means = {name: float(np.mean(cell[name])) for name in names}
        best = min(means.values())
        lowest += means["robustard"] == best
        near += means["robustard"] <= 1.1 * best
        marks = "".join(f"{means[name]:>16.4g}{'*' if means[name] == best else ' '}" for name in names)
        print(f"{data + ' ' + str(share):16}{marks}")
    print(f"robustard has the lowest error in {lowest} of {len(cells)} cells and is within 10% of the best in {near}")


if __name__ == "__main__":
    main(*sys.argv[1:])
