"""
A designed experiment
=====================

This example fits twenty runs of a chemical reactor at chosen temperatures, times and
concentrations: a central composite design, as in textbooks on response surfaces. After it you can
use two habits of this field with polysharp. One is coded variables, the distances from the centre
of the design. The other is heredity: the formula may contain an interaction or a square only
together with its parents, the terms with one factor less.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polysharp import SparsePolynomialRegressor, path
from polysharp.plots import SurfaceDisplay

cube = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], dtype=float)
star = 1.68 * np.vstack([np.eye(3), -np.eye(3)])
coded = np.vstack([cube, star, np.zeros((6, 3))])
X = pd.DataFrame(
    coded * [15.0, 20.0, 0.5] + [150.0, 60.0, 2.0],
    columns=["temperature", "minutes", "molarity"],
)
a, b, c = coded.T
noise = np.random.default_rng(3).normal(scale=0.8, size=len(X))
y = pd.Series(78 + 4 * a + 2 * b - 5 * a**2 - 3 * a * b + noise, name="yield")
print(X.describe().loc[["min", "mean", "max"]].round(1))

# %%
# Temperatures from 125 to 175 and their squares are nearly the same column. ``center=True``
# therefore subtracts the means, and the formula shows them. Twenty rows are too few for folds of a
# fifth, so cross-validation leaves out one row at a time (``cv=len(X)``).

curve = path(
    X,
    y,
    degree=2,
    max_terms=8,
    gamma=10.0,
    center=True,
    heredity="strong",
    cv=len(X),
    random_state=0,
)
print(curve)

# %%
# We take four terms. Both parents of the interaction are in the formula, as heredity demands, and
# concentration has no effect. For every size, the formula is proved the best that obeys heredity.

model = SparsePolynomialRegressor(
    degree=2, max_terms=4, gamma=10.0, center=True, heredity="strong"
).fit(X, y)
print(model.polynomial_)
print(model.solution_)

# %%
# Where is the yield highest? The surface over the two inputs that matter, with the runs of the
# design:

display = SurfaceDisplay.from_estimator(model, X, [("temperature", "minutes")])
display.axes_[0].plot(X["temperature"], X["minutes"], "o", color="white", mec="black")
plt.show()

grid = pd.DataFrame(
    [(t, m, 2.0) for t in np.linspace(125, 175, 101) for m in np.linspace(26, 94, 101)],
    columns=X.columns,
)
best = grid.iloc[model.predict(grid).argmax()]
print(f"highest within the design: {best.temperature:.0f} degrees, {best.minutes:.0f} minutes")
