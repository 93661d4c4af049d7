"""
What else could it be?
======================

A formula that is proved best may have rivals that are nearly as good. After this example you can
list all of them and see which terms they share. In the diabetes table the measurements of blood
lipids can replace one another, and only a complete list shows it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import polysharp
from polysharp.datasets import diabetes

patients = diabetes()
X = pd.DataFrame(patients.X, columns=patients.input_names)
y = pd.Series(patients.y, name="progression")

# %%
# The best formula
# ----------------
# Which six of the ten measurements predict best, without powers and products?

model = polysharp.SparsePolynomialRegressor(degree=1, max_terms=6, gamma=1e4).fit(X, y)
print(model.polynomial_)
print(model.solution_)

# %%
# Its rivals
# ----------
# ``rivals`` lists all formulas of six terms whose objective is at most 1 % larger, with a proof
# that there are no others.

found = polysharp.rivals(model, X, y, within=0.01)
print(found)
print(polysharp.verify(found.proof, X, y))

# %%
# Total cholesterol ``tc`` and its ``ldl`` part are nearly the same column (correlation 0.9), and
# their coefficients have opposite signs: the formula uses their difference. ``hdl`` and the ratio
# ``tch`` carry nearly the same information. Chance in the rows decides which of them a selection
# takes.

print(X[["tc", "ldl", "hdl", "tch"]].corr().round(2))
for name, swaps in found.replaceable.inputs.items():
    for swap in swaps:
        print(f"{' and '.join(swap.into)} in place of {name}: +{100 * swap.excess:.2f} %")

# %%
# Terms by formulas
# -----------------
# The picture has all formulas within 3 %: one row per term, one column per formula. A full row is a
# term that every one of these formulas needs.

wide = polysharp.rivals(model, X, y, within=0.03)
frame = wide.to_frame()
terms = list(wide.shares.terms)
has = frame[terms].to_numpy().T

fig, ax = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
ax.imshow(np.where(has, 1.0, np.nan), aspect="auto", cmap="Blues", vmin=0.0, vmax=1.4)
ax.set_yticks(range(len(terms)), [f"{t} ({100 * wide.shares.terms[t]:.0f} %)" for t in terms])
ax.set_xlabel(f"{wide.count} formulas, the best one to the left, the last at +3 %")
ax.set_xticks([])
plt.show()
