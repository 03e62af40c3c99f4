"""Answers to which `robustard-baselines` is held, from scikit-learn, scipy and numpy.

    python scripts/baseline_fixtures.py

writes `crates/robustard-baselines/tests/fixtures.json`: for each case the data and what other implementations make of them.
Needs numpy, scipy and scikit-learn.
"""

import json
from pathlib import Path

import numpy as np
from scipy.optimize import linprog, minimize, root
from scipy.stats import multivariate_normal
from scipy.stats import t as student_t
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge, RidgeCV
from sklearn.linear_model._huber import _huber_loss_and_gradient

OUTPUT = Path(__file__).parents[1] / "crates/robustard-baselines/tests/fixtures.json"


def linear_data(seed, n, p, noise):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, p)), 4)
    y = np.round(1.5 + x @ rng.normal(size=p) + noise(rng, n), 4)
    return x, y, np.round(rng.normal(size=(5, p)), 4)


def normal_noise(rng, n):
    return 0.5 * rng.normal(size=n)


def gross_noise(rng, n):
    return 0.3 * rng.normal(size=n) + np.where(rng.random(n) < 0.15, 12.0, 0.0)


def rare_noise(rng, n):
    return np.where(rng.random(n) < 0.2, rng.normal(size=n), 0.0)


def huge_noise(rng, n):
    return rng.normal(size=n) + np.where(rng.random(n) < 0.2, 1000.0, 0.0)


def heavy_noise(rng, n):
    return 0.4 * rng.standard_t(2.5, size=n)


def case(x, y, new, **answers):
    plain = {"inputs": x, "target": y, "new": new} | answers
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in plain.items()}


def linear_answers(model, new):
    return {"coefficients": model.coef_, "intercept": float(model.intercept_), "mean": model.predict(new)}


def least_squares_variance(x, y, new):
    """Textbook variance of a new observation, for more rows than columns."""
    design = np.column_stack([np.ones(len(x)), x])
    new = np.column_stack([np.ones(len(new)), new])
    weights, rss, *_ = np.linalg.lstsq(design, y, rcond=None)
    inverse = np.linalg.inv(design.T @ design)
    return rss[0] / (len(x) - design.shape[1]) * (1 + np.einsum("ij,jk,ik->i", new, inverse, new))


def ridge_variance(x, y, new, alpha):
    n, p = x.shape
    around, new = x - x.mean(0), new - x.mean(0)
    inverse = np.linalg.inv(around.T @ around + alpha * np.eye(p))
    residual = y - y.mean() - around @ (inverse @ around.T @ (y - y.mean()))
    freedom = 1 + np.trace(around @ inverse @ around.T)
    noise = residual @ residual / (n - freedom)
    return noise * (1 + 1 / n + np.einsum("ij,jk,ik->i", new, inverse, new))


def ols(seed, n, p):
    x, y, new = linear_data(seed, n, p, normal_noise)
    answers = linear_answers(LinearRegression().fit(x, y), new)
    if n > p + 1:
        answers["variance"] = least_squares_variance(x, y, new)
    return case(x, y, new, **answers)


def ridge(seed, n, p):
    x, y, new = linear_data(seed, n, p, normal_noise)
    answers = linear_answers(Ridge(alpha=1.0).fit(x, y), new)
    penalties = np.logspace(-3, 3, 13)
    scan = RidgeCV(alphas=penalties, store_cv_results=True).fit(x, y)
    errors = scan.cv_results_.mean(axis=0)
    return case(
        x,
        y,
        new,
        **answers,
        variance=ridge_variance(x, y, new, 1.0),
        penalties=penalties,
        errors=errors,
        best=float(scan.alpha_),
    )


def polished(gradient, near):
    """The root of the gradient close to a minimum already found."""
    found = root(gradient, near, tol=1e-13).x
    assert np.abs(gradient(found)).max() < 1e-9 and np.abs(found - near).max() < 1e-3
    return found


def huber(seed, n, p):
    x, y, new = linear_data(seed, n, p, gross_noise)
    model = HuberRegressor(tol=1e-10, max_iter=10000).fit(x, y)
    start = np.concatenate([model.coef_, [model.intercept_, model.scale_]])
    given = (x, y, 1.35, 1e-4, np.ones(n))
    objective, _ = _huber_loss_and_gradient(start, *given)
    # scikit-learn stops at a relative change of 2e-9; its weights are then right to some 1e-5.
    found = polished(lambda parameters: _huber_loss_and_gradient(parameters, *given)[1], start)
    assert _huber_loss_and_gradient(found, *given)[0] <= objective
    return case(
        x,
        y,
        new,
        coefficients=found[:p],
        intercept=found[p],
        mean=new @ found[:p] + found[p],
        scale=found[-1],
        objective=float(objective),
    )


def exact_huber(seed, n, p, noise):
    """Most rows can be fitted exactly: the scale goes to 0 and the rest is least absolute deviations, a linear programme."""
    x, y, new = linear_data(seed, n, p, noise)
    design = np.column_stack([x, np.ones(n)])
    identity = np.eye(n)
    cost = np.concatenate([np.zeros(p + 1), np.ones(2 * n)])
    free = [(None, None)] * (p + 1) + [(0, None)] * (2 * n)
    found = linprog(cost, A_eq=np.hstack([design, identity, -identity]), b_eq=y, bounds=free).x[: p + 1]
    return case(x, y, new, coefficients=found[:p], intercept=found[p], mean=new @ found[:p] + found[p])


def student(seed, n, p, degrees):
    x, y, new = linear_data(seed, n, p, heavy_noise)
    design = np.column_stack([x, np.ones(n)])

    def cost(parameters):
        scale = np.exp(parameters[-1])
        return -student_t.logpdf((y - design @ parameters[:-1]) / scale, degrees).sum() + n * parameters[-1]

    def gradient(parameters):
        scale = np.exp(parameters[-1])
        z = (y - design @ parameters[:-1]) / scale
        pull = (degrees + 1) * z / (degrees + z * z)
        return np.concatenate([-design.T @ pull / scale, [n - pull @ z]])

    start = np.append(np.linalg.lstsq(design, y, rcond=None)[0], 0.0)
    near = minimize(cost, start, jac=gradient, method="BFGS").x
    # The weak prior for stability, of precision 1e-6 of the columns' mean square sum over s².
    ridge = 1e-6 * ((x - x.mean(0)) ** 2).sum() / p
    is_weight = np.arange(p + 2) < p
    found = polished(lambda at: gradient(at) + is_weight * ridge * at / np.exp(2 * at[-1]), near)
    scale_square = np.exp(2 * found[-1])
    residual = y - design @ found[:-1]
    precision = (degrees + 1) / (degrees + residual**2 / scale_square) / scale_square
    covariance = np.linalg.inv(design.T @ (precision[:, None] * design))
    new_design = np.column_stack([new, np.ones(len(new))])
    variance = np.mean(1 / precision) + np.einsum("ij,jk,ik->i", new_design, covariance, new_design)
    return case(
        x,
        y,
        new,
        degrees=degrees,
        coefficients=found[:p],
        intercept=found[p],
        row_weight=precision,
        mean=new_design @ found[:-1],
        variance=variance,
    )


def curve_data(seed, n, p):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, p)), 4)
    y = np.sin(2 * x[:, 0]) + 0.5 * x[:, -1] + 0.2 * rng.normal(size=n)
    # Centred, as the process has mean 0 in scikit-learn.
    return x, np.round(3 * (y - y.mean()), 6), np.round(rng.normal(size=(5, p)), 4)


def process(seed, n, p, per_input):
    x, y, new = curve_data(seed, n, p)
    y = y - y.mean()
    lengthscale = np.ones(p) if per_input else 1.0
    kernel = ConstantKernel(1.0, (1e-6, 1e5)) * RBF(lengthscale, (1e-2, 1e3)) + WhiteKernel(0.1, (1e-6, 1e5))
    model = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=10, random_state=0).fit(x, y)
    mean, deviation = model.predict(new, return_std=True)
    given = np.log([2.0, *([0.8] if not per_input else np.linspace(0.6, 1.4, p)), 0.3])
    value, gradient = model.log_marginal_likelihood(given, eval_gradient=True)

    def ours(theirs):
        """Lengthscales, signal, noise: scikit-learn has the signal first."""
        return np.concatenate([theirs[1:-1], theirs[:1], theirs[-1:]])

    return case(
        x,
        y,
        new,
        per_input=per_input,
        logs=ours(given),
        evidence=float(value),
        gradient=ours(gradient),
        best_evidence=float(model.log_marginal_likelihood_value_),
        best_logs=ours(model.kernel_.theta),
        mean=mean,
        variance=deviation**2,
    )


def sparse_process(seed, n, p, points):
    x, y, new = curve_data(seed, n, p)
    lengthscale, signal, noise = 0.9, 4.0, 0.25

    def kernel(a, b):
        return signal * np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / lengthscale**2)

    z = x[:points]
    point_kernel = kernel(z, z) + 1e-6 * signal * np.eye(points)
    approximate = kernel(x, z) @ np.linalg.solve(point_kernel, kernel(z, x))
    evidence = multivariate_normal(np.zeros(n), approximate + noise * np.eye(n)).logpdf(y)
    bound = evidence - np.trace(kernel(x, x) - approximate) / (2 * noise)
    return case(x, y, new, points=z, logs=np.log([lengthscale, signal, noise]), bound=float(bound))


def main():
    fixtures = {
        "ols_tall": ols(1, 40, 3),
        "ols_wide": ols(2, 8, 12),
        "ridge_tall": ridge(3, 30, 4),
        "ridge_wide": ridge(4, 9, 14),
        "huber": huber(5, 60, 4),
        "huber_wide": huber(6, 30, 12),
        "huber_exact": exact_huber(12, 14, 10, huge_noise),
        "huber_exact_tall": exact_huber(13, 60, 5, rare_noise),
        "student": student(7, 50, 3, 4.0),
        "student_heavy": student(8, 50, 3, 1.5),
        "gp_shared": process(9, 40, 2, False),
        "gp_per_input": process(10, 40, 3, True),
        "sparse_gp": sparse_process(11, 25, 2, 7),
    }
    OUTPUT.write_text(json.dumps(fixtures, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
