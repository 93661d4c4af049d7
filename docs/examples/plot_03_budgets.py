"""
Choosing the budgets
====================

How many terms, in how many inputs, of which degree? A formula that is too short misses a part of
the law, and one that is too long fits the noise. After this example you can choose in two ways:
look at the curve of error against size, or let cross-validation decide.
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
# ``path`` finds the best polynomial of every size and proves each. With ``cv`` it also measures the
# error of every size on left-out rows.

curve = path(X, y, degree=3, max_terms=7, gamma=10.0, cv=5, random_state=0)
print(curve)

# %%
# Each of the first five terms removes much of the error; from there on the curve is flat. Five is
# the number of terms in the law behind the data. The bars are standard errors over the folds.

display = PathDisplay.from_path(curve, chosen=curve.best("one-se").max_terms)
display.ax_.set_yscale("log")
plt.show()

# %%
# Inputs that cost money
# ----------------------
# Suppose that you have to buy a sensor for every input. How much does one more sensor lower the
# error? ``max_inputs`` takes several limits, and the picture has one curve for each:

curves = path(
    X,
    y,
    degree=3,
    max_terms=6,
    max_inputs=[4, 3, 2],
    gamma=10.0,
    cv=5,
    random_state=0,
    time_limit=20,
)
PathDisplay.from_path(curves).ax_.set_yscale("log")
plt.show()

# %%
# Let cross-validation decide
# ---------------------------
# The search over budgets also compares degrees, gammas, limits on the number of inputs, and raw
# with centred inputs. It sums over the rows of each fold once, so hundreds of combinations take
# little more time than a few. The rule "one-se" need not take the first row of the table: it takes
# the shortest formula whose error is within one standard error of the smallest. Rows with the same
# error are the same formula under different limits on the inputs.

search = SparsePolynomialRegressorCV(
    degree=(1, 2, 3), max_terms=8, gamma=(0.1, 1.0, 10.0), rule="one-se", random_state=0
).fit(X, y)
results = pd.DataFrame(search.cv_results_).sort_values("rank_test_score")
names = ["degree", "max_terms", "max_inputs", "gamma", "center"]
columns = [*(f"param_{name}" for name in names), "mean_test_score"]
print(results[columns].head().to_string(index=False))
print(f"\n{len(results)} combinations compared; chosen: {search.best_params_}\n")
print(search.polynomial_)
