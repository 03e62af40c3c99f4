"""A robust, sparse fit with error bars, beside Ridge, Huber and ARD.

Sixty inputs, of which five matter, and one row in eight from a broken sensor.
"""

import warnings

import numpy as np
from robustard import JointARD
from sklearn.linear_model import ARDRegression, HuberRegressor, Ridge

rng = np.random.default_rng(1)
weights = np.zeros(60)
weights[[3, 11, 25, 40, 52]] = [2.0, -1.5, 1.0, 0.7, -0.5]


def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the true line."""
    X = rng.normal(size=(rows, 60))
    return X, X @ weights + 1 + 0.3 * rng.normal(size=rows)


X, y = draw(240)
broken = rng.choice(240, 30, replace=False)
y[broken] = rng.uniform(-15, 15, size=30)
X_new, y_new = draw(2000)

print(f"{'':<12}{'error of weights':>18}{'test RMSE':>12}{'inputs used':>13}{'in 95% interval':>17}")
for name, model in {
    "Ridge": Ridge(),
    "Huber": HuberRegressor(max_iter=1000),
    "ARD": ARDRegression(),
    "robustard": JointARD(features="linear"),
}.items():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    off = np.linalg.norm(model.coef_ - weights)
    rmse = np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2))
    used = np.sum(np.abs(model.coef_) > 0.05)
    coverage = ""
    if isinstance(model, (ARDRegression, JointARD)):
        mean, std = model.predict(X_new, return_std=True)
        low, high = (
            model.predict_interval(X_new).T if isinstance(model, JointARD) else (mean - 1.96 * std, mean + 1.96 * std)
        )
        coverage = f"{np.mean((y_new >= low) & (y_new <= high)):.1%}"
    print(f"{name:<12}{off:>18.3f}{rmse:>12.3f}{used:>13d}{coverage:>17}")

print("\nInputs that matter, with standard errors:")
for place in np.argsort(-np.abs(model.coef_))[:6]:
    print(f"  x{place:<3} {model.coef_[place]:7.3f} ± {model.coef_std_[place]:.3f}   (truth {weights[place]:g})")
flagged = np.flatnonzero(model.outlier_mask_)
print(f"{len(flagged)} rows look wrong; {np.isin(flagged, broken).sum()} of them come from the broken sensor's 30.")
