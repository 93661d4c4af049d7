"""pysindy's quick start, with the optimizer it takes by itself and with polysharp's."""

import warnings

import numpy as np
import pysindy as ps

from polysharp.pysindy import ExactOptimizer

warnings.simplefilter("ignore")
t = np.linspace(0, 1, 100)
x = 3 * np.exp(-2 * t)
y = 0.5 * np.exp(t)
X = np.stack((x, y), axis=-1)

optimizer = ExactOptimizer(max_terms=1)
for model in (ps.SINDy(), ps.SINDy(optimizer=optimizer)):
    model.fit(X, t=t, feature_names=["x", "y"])
    print(f"{type(model.optimizer).__name__}:")
    model.print()
for name, solution in zip("xy", optimizer.solutions_, strict=True):
    print(f"{name}': {solution.status}, gap {100 * solution.gap:.2g} %")
