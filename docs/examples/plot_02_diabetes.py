"""
Real data: the progression of diabetes
======================================

This example fits a real table whose law nobody knows: ten measurements of 442 patients (age, sex,
body mass index, blood pressure and six blood values) and the progression of the disease a year
later. After it you can let cross-validation choose the size of a formula, compare it with another
method, and judge how much of it to believe.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from polysharp import SparsePolynomialRegressorCV, stability
from polysharp.datasets import diabetes
from polysharp.plots import ImportanceDisplay, PathDisplay, ResponseDisplay

data = diabetes()
X = pd.DataFrame(data.X, columns=data.input_names)
y = pd.Series(data.y, name="progression")
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

# %%
# The search over budgets compares degrees, numbers of terms, ridges, and raw with centred inputs by
# cross-validation. The rule "one-se" takes the shortest formula whose error is within one standard
# error of the smallest.

search = SparsePolynomialRegressorCV(
    degree=(1, 2), max_terms=15, rule="one-se", time_limit=20, random_state=0
).fit(X_train, y_train)
print(search.polynomial_)
print(search.solution_)

# %%
# On held-out rows the short formula is nearly as good as ridge regression on all 65 monomials.

ridge = make_pipeline(
    PolynomialFeatures(2, include_bias=False), StandardScaler(), RidgeCV(np.logspace(-3, 4, 30))
).fit(X_train, y_train)
for name, model, terms in (("short", search, len(search.polynomial_)), ("ridge", ridge, 65)):
    error = root_mean_squared_error(y_test, model.predict(X_test))
    print(f"{name}: {terms:2} terms, error {error:.1f} on {len(y_test)} new patients")
print(f"spread of the response: {y_test.std():.1f}")

# %%
# The curve on the left shows why a short formula suffices: after the first few terms,
# cross-validation cannot tell longer formulas from shorter ones. Right: the importance of each
# input.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
PathDisplay.from_estimator(search, ax=left)
ImportanceDisplay.from_estimator(search, X_train, ax=right)
plt.show()

# %%
# Would other patients have given the same terms? Thirty bootstrap resamples answer: each draws
# patients anew from the table, and the terms are chosen again. The certificate says that no formula
# of this size fits *these* rows better. A share well below 100 % says that on other rows another
# term may take the place of this one, so do not read the term as a cause.

print(stability(search, X_train, y_train, n_resamples=30, random_state=0))

# %%
# The effect of each input, with all others at their medians:

ResponseDisplay.from_estimator(search, X_train)
plt.show()
