"""Effects of columns that are known, beside Explainable Boosting Machines and permutation importance.

    cargo xtask python        # builds the wheel into target/release/python-package/wheels
    pip install target/release/python-package/wheels/*.whl interpret pandas
    python scripts/effects_beside_ebm.py [--draws 3] [--peer-draws 1] [--seed 0]

Made-up functions of columns with known effects, clean and with 10% of the targets wrong (each moved up or down by 3·N(1, 0.25²) standard
deviations, as in the demo). The noise has 0.3 standard deviations of the function. Prints a line for each claim and whether it holds;
the exit code is 1 if one does not. Every fit has one thread. The peers see the first draws only (`--peer-draws`): a boosting machine takes
ten to forty seconds for each.
"""

# The number of threads has to be said before the libraries are loaded.
# ruff: noqa: E402
import os

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from interpret.glassbox import ExplainableBoostingRegressor
from robustard import JointARD
from scipy.stats import spearmanr
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance

ROWS = (200, 1000, 5000)
WRONG = (0.0, 0.1)
NOISE = 0.3
#: Rows that the true shares of the variance are taken from.
MANY = 20_000
#: Draws of the claim about interactions.
NAMED_DRAWS = 10
#: Rank correlation of importances with the true shares of the variance, in each cell.
LEAST_RANK = 0.95


@dataclass
class Function:
    """A sum of functions of single columns and products of two."""

    name: str
    mains: dict[str, Callable]
    pairs: dict[tuple[str, str], Callable] = field(default_factory=dict)
    irrelevant: tuple[str, ...] = ("z0", "z1", "z2")
    correlation: float = 0.0
    levels: dict[str, list[str]] = field(default_factory=dict)

    @property
    def columns(self):
        paired = [name for pair in self.pairs for name in pair]
        return list(dict.fromkeys([*self.mains, *paired, *self.irrelevant]))

    @property
    def relevant(self):
        return [name for name in self.columns if name not in self.irrelevant]

    def draw(self, n, rng):
        """Inputs between -1.5 and 1.5; neighbours are correlated if any are."""
        numbers = [name for name in self.columns if name not in self.levels]
        places = np.arange(len(numbers))
        covariance = self.correlation ** np.abs(places[:, None] - places)
        if self.correlation > 0:
            # Neighbours in an order that puts irrelevant columns beside relevant ones.
            numbers = [str(name) for name in rng.permutation(numbers)]
        normal = rng.multivariate_normal(np.zeros(len(numbers)), covariance, size=n)
        ranks = normal.argsort(axis=0).argsort(axis=0)
        frame = pd.DataFrame(3 * (ranks + 0.5) / n - 1.5, columns=numbers)
        for name, levels in self.levels.items():
            frame[name] = rng.choice(levels, size=n)
        return frame[self.columns]

    def main(self, name, frame):
        """The main effect, not centred."""
        return self.mains[name](frame[name]) if name in self.mains else np.zeros(len(frame))

    def value(self, frame):
        mains = sum(main(frame[name]) for name, main in self.mains.items())
        return np.asarray(mains + sum(pair(frame[a], frame[b]) for (a, b), pair in self.pairs.items()), dtype=float)

    def shares(self, rng):
        """True share of each column in the variance when its values are exchanged among rows."""
        frame = self.draw(MANY, rng)
        here = self.value(frame)
        changed = []
        for name in self.columns:
            exchanged = frame.assign(**{name: rng.permutation(frame[name])})
            changed.append(0.5 * np.mean((self.value(exchanged) - here) ** 2))
        return np.array(changed) / np.sum(changed)


def of_levels(effects):
    return lambda column: column.map(effects).astype(float)


FUNCTIONS = [
    Function(
        "additive",
        {
            "a": lambda x: 2.0 * x,
            "b": lambda x: 1.6 * np.sin(2 * x),
            "c": lambda x: 1.1 * x**2,
            "d": lambda x: 0.6 * np.tanh(3 * x),
            "e": lambda x: 0.16 * np.exp(x),
        },
    ),
    Function(
        "interactions",
        {"a": lambda x: 2.0 * x, "b": lambda x: 1.2 * np.sin(2 * x), "c": lambda x: 0.7 * x**2},
        {("d", "e"): lambda x, z: 1.5 * x * z, ("a", "f"): lambda x, z: 1.0 * np.sin(2 * x) * z},
    ),
    Function(
        "correlated",
        {
            "a": lambda x: 2.0 * x,
            "b": lambda x: 1.5 * np.sin(2 * x),
            "c": lambda x: 0.8 * x**2,
            "d": lambda x: -0.5 * x,
        },
        correlation=0.7,
    ),
    Function(
        "categories",
        {
            "kind": of_levels({"p": -1.5, "q": 0.0, "r": 0.5, "s": 2.0}),
            "a": lambda x: 1.0 * np.sin(2 * x),
            "city": of_levels({"k": 0.8, "l": -0.4, "m": 0.0, "n": 0.4, "o": -0.8, "t": 0.2}),
            "b": lambda x: 0.35 * x,
        },
        irrelevant=("z0", "z1", "w"),
        levels={
            "kind": ["p", "q", "r", "s"],
            "city": ["k", "l", "m", "n", "o", "t"],
            "w": ["x", "y", "z"],
        },
    ),
]


def make_wrong(target, share, rng):
    wrong = rng.choice(len(target), size=round(share * len(target)), replace=False)
    shift = 3 * rng.normal(1, 0.25, size=len(wrong)) * rng.choice([-1, 1], size=len(wrong))
    target = target.copy()
    target[wrong] += shift * target.std()
    return target


def data(function, n, wrong, seed):
    rng = np.random.default_rng([seed, n, round(100 * wrong), len(function.name)])
    frame = function.draw(n, rng)
    value = function.value(frame)
    return frame, make_wrong(value + NOISE * value.std() * rng.normal(size=n), wrong, rng)


def at(points, column):
    """Effects at the values of a column."""
    if not pd.api.types.is_numeric_dtype(column):
        return column.map(points.set_index("value")["effect"]).to_numpy(float)
    return np.interp(column, points["value"].to_numpy(float), points["effect"])


def curve_error(found, function, frame):
    """Root mean square error of the main effects of all columns at the rows."""
    squares = []
    for name in function.columns:
        truth = np.asarray(function.main(name, frame), dtype=float)
        off = found[name] - found[name].mean() - (truth - truth.mean())
        squares.append(np.mean(off**2))
    return np.sqrt(np.mean(squares))


@dataclass
class Measured:
    """What one fit gave."""

    importance: np.ndarray
    seconds: float
    error: float = np.nan
    inside: np.ndarray | None = None
    interactions: list = field(default_factory=list)
    adds_up: float = np.nan


def ours(function, frame, target):
    start = time.perf_counter()
    model = JointARD(n_jobs=1).fit(frame, target)
    effects = model.effects()
    seconds = time.perf_counter() - start
    inside, found = [], {}
    for name in function.columns:
        points = effects[effects["column"] == name]
        points = points[points["share_of_rows"] > 0]
        assert len(points), (name, effects["column"].unique())
        if name not in function.levels:
            points = points.assign(value=points["value"].astype(float))
        found[name] = at(points, frame[name])
        if name in function.relevant:
            truth = function.main(name, pd.DataFrame({name: points["value"]}))
            mean = np.mean(np.asarray(function.main(name, frame), dtype=float))
            off = np.abs(points["effect"].to_numpy() - (np.asarray(truth, dtype=float) - mean))
            inside.extend(off <= 1.96 * points["standard_error"].to_numpy())
    why = model.explain(frame[:50])
    parts = why[["average", *function.columns]].sum(axis=1).to_numpy()
    pairs = model.interactions()
    named = list(zip(pairs["column"], pairs["other_column"], strict=True))
    return Measured(
        importance=model.feature_importances_,
        seconds=seconds,
        error=curve_error(found, function, frame),
        inside=np.array(inside),
        interactions=list(dict.fromkeys(tuple(sorted(pair)) for pair in named)),
        adds_up=float(np.abs(parts - model.predict(frame[:50])).max()),
    )


def boosting_machine(function, frame, target):
    start = time.perf_counter()
    kinds = ["nominal" if name in function.levels else "continuous" for name in function.columns]
    model = ExplainableBoostingRegressor(feature_types=kinds, random_state=0, n_jobs=1).fit(frame, target)
    seconds = time.perf_counter() - start
    terms = model.eval_terms(frame)
    found = {}
    total = np.zeros(len(function.columns))
    for place, features in enumerate(model.term_features_):
        if len(features) == 1:
            found[function.columns[features[0]]] = terms[:, place]
        for feature in features:
            total[feature] += terms[:, place].var()
    return Measured(importance=total, seconds=seconds, error=curve_error(found, function, frame))


def permuted(function, frame, target):
    start = time.perf_counter()
    coded = frame.assign(**{name: frame[name].astype("category") for name in function.levels})
    half = len(frame) * 4 // 5
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
    model.fit(coded[:half], target[:half])
    importance = permutation_importance(model, coded[half:], target[half:], n_repeats=10, random_state=0, n_jobs=1)
    return Measured(importance=importance.importances_mean, seconds=time.perf_counter() - start)


METHODS = {"robustard": ours, "EBM": boosting_machine, "permutation": permuted}


class Claims:
    """What has been claimed, and what came out."""

    def __init__(self):
        self.all_hold = True

    def check(self, holds, what):
        self.all_hold &= bool(holds)
        print(f"{'met    ' if holds else 'NOT MET'}  {what}", flush=True)


def measure(first, draws, peer_draws):
    """Measured[method][function, n, wrong]: a list with one entry for each draw."""
    found = {name: defaultdict(list) for name in (METHODS if peer_draws > 0 else ["robustard"])}
    for function in FUNCTIONS:
        for n in ROWS:
            for wrong in WRONG:
                for draw in range(draws):
                    frame, target = data(function, n, wrong, first + draw)
                    for name in found:
                        if name != "robustard" and draw >= peer_draws:
                            continue
                        found[name][function.name, n, wrong].append(METHODS[name](function, frame, target))
                summary = (line(found, name, function, n, wrong) for name in found)
                print(f"{function.name:12} {n:5} {wrong:4.0%} wrong  {'  '.join(summary)}", flush=True)
    return found


def line(found, name, function, n, wrong):
    cell = found[name][function.name, n, wrong]
    words = f"{name}: rank {np.mean([correlation(function, fit) for fit in cell]):.3f}"
    if not np.isnan(cell[0].error):
        words += f" error {np.mean([fit.error for fit in cell]):.3f}"
    if cell[0].inside is not None:
        words += f" inside {np.mean(np.concatenate([fit.inside for fit in cell])):.1%}"
    return words + f" {np.mean([fit.seconds for fit in cell]):.2f} s"


#: To the digits that so many rows show: columns that do the same in a product have equal shares, which are ties.
SHARES = {function.name: function.shares(np.random.default_rng(1)).round(2) for function in FUNCTIONS}


def correlation(function, fit):
    """Rank correlation with the true shares, of the relevant columns."""
    places = [function.columns.index(name) for name in function.relevant]
    return spearmanr(fit.importance[places], SHARES[function.name][places]).statistic


def below(function, fit):
    """Whether every irrelevant column is below every relevant one."""
    is_relevant = np.isin(function.columns, function.relevant)
    return fit.importance[~is_relevant].max() < fit.importance[is_relevant].min()


def judge(claims, found):
    ours = found["robustard"]
    by_name = {function.name: function for function in FUNCTIONS}
    for wrong in WRONG:
        for n in ROWS:
            inside = [fit.inside for (_, m, w), cell in ours.items() if (m, w) == (n, wrong) for fit in cell]
            share = np.mean(np.concatenate(inside))
            claims.check(
                0.90 <= share <= 0.98,
                f"{n} rows, {wrong:.0%} wrong: {share:.1%} of the grid within the 95% bands, 90-98%",
            )
    for method, cells in found.items():
        ranks = {key: np.mean([correlation(by_name[key[0]], fit) for fit in cell]) for key, cell in cells.items()}
        rights = [below(by_name[key[0]], fit) for key, cell in cells.items() for fit in cell]
        low = {key: rank for key, rank in ranks.items() if rank < LEAST_RANK}
        words = (
            f"{method}: rank correlation with the true shares at least {LEAST_RANK} in {len(ranks) - len(low)} of {len(ranks)} cells, "
            f"{np.mean(list(ranks.values())):.3f} on average, {min(ranks.values()):.3f} at worst"
        )
        ranked = f"{method}: irrelevant columns below every relevant one in {sum(rights)} of {len(rights)} draws"
        if method == "robustard":
            claims.check(not low, words)
            claims.check(all(rights), ranked)
        else:
            print(f"beside   {words}\nbeside   {ranked}")
    worst = max(fit.adds_up for cell in ours.values() for fit in cell)
    claims.check(worst <= 1e-9, f"contributions add up to the prediction within {worst:.1e}, at most 1e-9")
    if "EBM" in found:
        for wrong, limit in [(0.0, 0.7), (0.1, 0.5)]:
            cells = [key for key in ours if key[2] == wrong]
            mean = {}
            for name in ("robustard", "EBM"):
                # The same draws of both.
                errors = [
                    [fit.error for fit, _ in zip(found[name][key], found["EBM"][key], strict=False)] for key in cells
                ]
                mean[name] = np.mean(errors, axis=1)
            ratio = mean["robustard"] / mean["EBM"]
            whole = np.exp(np.log(ratio).mean())
            claims.check(
                whole <= limit,
                f"{wrong:.0%} wrong: error of curves {whole:.2f} of EBM's (worst cell {ratio.max():.2f}), at most {limit}",
            )
    for method, cells in found.items():
        times = "  ".join(
            f"{n} rows {np.mean([f.seconds for key, cell in cells.items() if key[1] == n for f in cell]):.2f} s"
            for n in ROWS
        )
        print(f"seconds  {method}: {times}")


def judge_interactions(claims, first):
    function = next(function for function in FUNCTIONS if function.pairs)
    truth = {tuple(sorted(pair)) for pair in function.pairs}
    for wrong in WRONG:
        for n in ROWS:
            named = 0
            for seed in range(NAMED_DRAWS):
                fit = ours(function, *data(function, n, wrong, first + 100 + seed))
                named += set(fit.interactions[: len(truth)]) == truth
            claims.check(
                named >= 9,
                f"{n} rows, {wrong:.0%} wrong: both interactions named first in {named} of {NAMED_DRAWS} draws, at least 9",
            )


def judge_speed(claims):
    """A curve on 80 columns."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 80))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 3:10].sum(axis=1) + 0.3 * rng.normal(size=2000)
    model = JointARD(features="smooth", noise="shared", n_jobs=1).fit(x, y)
    start = time.perf_counter()
    model.importances()
    seconds = time.perf_counter() - start
    claims.check(seconds < 2, f"effects of a curve of 2000 rows and 80 columns take {seconds:.2f} s, less than 2")
    times = []
    for row in range(20):
        start = time.perf_counter()
        model.explain(x[row : row + 1])
        times.append(1e3 * (time.perf_counter() - start))
    claims.check(np.median(times) < 10, f"an explanation takes {np.median(times):.1f} ms, less than 10")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--peer-draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    claims = Claims()
    judge_speed(claims)
    judge_interactions(claims, arguments.seed)
    judge(claims, measure(arguments.seed, arguments.draws, arguments.peer_draws))
    sys.exit(0 if claims.all_hold else 1)


if __name__ == "__main__":
    main()
