"""
Choosing the budgets
====================

How many terms, in how many inputs, of what degree? A formula that is too short misses something,
one that is too long fits the noise. There are two ways to choose: look at the curve of accuracy
against size, or let validation decide.
"""

import matplotlib.pyplot as plt
import pandas as pd

from polysharp import SparsePolynomialRegressorCV, path
from polysharp.datasets import cycling
from polysharp.plots import PathDisplay

rides = cycling(n=400)
X = pd.DataFrame(rides.X, columns=rides.input_names)
y = pd.Series(rides.y, name="power")

# %%
# Look at the curve
# -----------------
# ``path`` finds the best polynomial of every size and proves each; with ``cv`` it also judges
# every size on rows that were left out.

curve = path(X, y, degree=3, max_terms=7, gamma=1.0, cv=5, random_state=0)
print(curve)

# %%
# Each of the first five terms removes much of the error; from there on the curve is flat. Five is
# the number of terms in the law behind the data. Error bars are standard errors over the folds.

display = PathDisplay.from_path(curve, chosen=curve.best("one-se").max_terms)
display.ax_.set_yscale("log")
plt.show()

# %%
# Inputs that cost money
# ----------------------
# If every input is a sensor to be bought, the question is what one more is worth. One curve for
# each limit:

curves = path(
    X,
    y,
    degree=3,
    max_terms=6,
    max_inputs=[4, 3, 2],
    gamma=1.0,
    cv=5,
    random_state=0,
    time_limit=20,
)
PathDisplay.from_path(curves).ax_.set_yscale("log")
plt.show()

# %%
# Let validation decide
# ---------------------
# The search compares degrees, gammas and raw against centred inputs as well. The moments of the
# folds are computed once, so that hundreds of combinations cost little more than a few. The best
# in the table is not always the one taken: "one-se" prefers a shorter formula that is as good for
# all that validation can tell.

search = SparsePolynomialRegressorCV(
    degree=(1, 2, 3), max_terms=8, gamma=(0.1, 1.0, 10.0), rule="one-se", random_state=0
).fit(X, y)
results = pd.DataFrame(search.cv_results_).sort_values("rank_test_score")
columns = ["param_degree", "param_max_terms", "param_gamma", "param_center", "mean_test_score"]
print(results[columns].head().to_string(index=False))
print(f"\n{len(results)} combinations compared; chosen: {search.best_params_}\n")
print(search.polynomial_)
