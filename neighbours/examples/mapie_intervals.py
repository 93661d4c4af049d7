"""MAPIE's quick start for regression: intervals that hold with a given probability."""

import numpy as np
from mapie.metrics.regression import regression_coverage_score
from mapie.regression import SplitConformalRegressor
from mapie.utils import train_conformalize_test_split

from polysharp import SparsePolynomialRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (5000, 3))
y = X[:, 0] ** 3 - 2 * X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(5000)
X_train, X_conformalize, X_test, y_train, y_conformalize, y_test = train_conformalize_test_split(
    X, y, train_size=0.6, conformalize_size=0.2, test_size=0.2, random_state=1
)
mapie = SplitConformalRegressor(
    estimator=SparsePolynomialRegressor(3, 2, gamma=1.0), confidence_level=0.9, prefit=False
)
mapie.fit(X_train, y_train).conformalize(X_conformalize, y_conformalize)
predicted, intervals = mapie.predict_interval(X_test)
coverage = regression_coverage_score(y_test, intervals)[0]
print(f"asked for 90 %; {100 * coverage:.1f} % of {len(y_test)} held-out rows are covered")
print(f"the intervals are {np.mean(intervals[:, 1] - intervals[:, 0]):.3f} wide")
