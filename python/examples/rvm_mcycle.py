"""A relevance vector machine on the motorcycle data: head acceleration in the milliseconds after an impact.

Give a file name to keep the picture: python rvm_mcycle.py mcycle.png
"""

import sys
from pathlib import Path

import numpy as np
from robustard import RVM

path = Path(__file__).resolve().parents[2] / "crates" / "robustard-table" / "data" / "mcycle.csv"
table = np.genfromtxt(path, delimiter=",", names=True)
time, acceleration = table["times"].reshape(-1, 1), table["accel"]

model = RVM().fit(time, acceleration)
print(f"{len(model.relevance_vectors_)} of {len(time)} rows carry the curve, at")
for place, weight in sorted(zip(model.relevance_vectors_[:, 0], model.dual_coef_, strict=True)):
    print(f"  {place:5.1f} ms   {weight:8.1f} g")
print(
    f"Each row from the others: RMSE {model.loo_.rmse:.1f} g, {model.loo_.coverage_95:.0%} of rows in their 95% interval"
)

for moment in (10.0, 20.0, 32.0):
    mean, std = model.predict([[moment]], return_std=True)
    low, high = model.predict_interval([[moment]], level=0.9)[0]
    print(f"At {moment:g} ms: {mean[0]:.0f} ± {std[0]:.0f} g, 90% interval from {low:.0f} to {high:.0f} g")

if len(sys.argv) > 1:
    ax = model.plot_fit(level=0.9)
    ax.plot(model.relevance_vectors_[:, 0], model.predict(model.relevance_vectors_), "o", mfc="none", color="black")
    ax.set(xlabel="time (ms)", ylabel="acceleration (g)")
    ax.figure.savefig(sys.argv[1], dpi=150)
    print(f"Wrote {sys.argv[1]}")
