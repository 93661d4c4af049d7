"""What SRBench asks of a method, on one of its problems (strogatz_lv1): formula and complexity."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

spec = importlib.util.spec_from_file_location(
    "regressor", Path(__file__).parent.parent / "srbench" / "regressor.py"
)
method = importlib.util.module_from_spec(spec)
spec.loader.exec_module(method)

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(0, 3, (400, 2)), columns=["x", "y"])
target = 3 * X.x - 2 * X.x * X.y - X.x**2
est = clone(method.est).set_params(**method.eval_kwargs["test_params"]).fit(X, target)
print("true:      3*x - 2*x*y - x**2")
print("found:    ", method.model(est, X))
print("complexity", method.complexity(est))
