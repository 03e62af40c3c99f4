"""Find mislabelled rows in a table.

442 patients, ten measurements, and a score of how their disease went on (scikit-learn's diabetes data). Twenty
scores are mistyped here: digits lost or added. Which?
"""

import numpy as np
from robustard import JointARD
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

X, truth = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
rng = np.random.default_rng(7)
wrong = rng.choice(len(truth), 20, replace=False)
y = truth.astype(float)
y.iloc[wrong] = y.iloc[wrong] * rng.choice([0.01, 10.0], size=20)  # a digit too many, or two too few

model = JointARD(features="linear").fit(X, y)
issues = model.find_label_issues()
found = issues[issues["is_label_issue"]].sort_values("label_quality")
print(f"{len(found)} rows look wrong; the worst five:")
print(found.head().round(3).to_string())

hits = np.isin(found.index, wrong).sum()
large = [row for row in wrong if y[row] > truth[row]]
print(f"\n{hits} of the {len(found)} are wrong indeed.")
print(f"Of {len(large)} scores that are ten times too large, {np.isin(large, found.index).sum()} are found.")

# A score near 0 where 150 would be usual is not out of the ordinary in a table this noisy: the ranking still helps.
worst = issues["label_quality"].nsmallest(60).index
print(f"Among the 60 rows of the lowest quality are {np.isin(wrong, worst).sum()} of all 20.")


def error(prediction: np.ndarray) -> float:
    """Median error against the true scores."""
    return float(np.median(np.abs(prediction - truth)))


print("\nMedian error against the true scores:")
for name, predicted in {
    "least squares": LinearRegression().fit(X, y).predict(X),
    "robustard": model.predict(X),
    "least squares without mistakes": LinearRegression().fit(X, truth).predict(X),
}.items():
    print(f"  {name:<32}{error(predicted):5.1f}")
