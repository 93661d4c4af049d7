"""
What else could it be?
======================

A formula that is proved best may have rivals that are nearly as good. On the diabetes table the
measurements of blood lipids can replace one another, and only a complete list shows it.
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
# Six terms, no powers and no products: which six of the ten measurements?

model = polysharp.SparsePolynomialRegressor(degree=1, max_terms=6, gamma=1e4).fit(X, y)
print(model.polynomial_)
print(model.solution_)

# %%
# Its rivals
# ----------
# All formulas of six terms that cost at most 1 % more, with a proof that there are no others.

found = polysharp.rivals(model, X, y, within=0.01)
print(found)
print(polysharp.verify(found.proof, X, y))

# %%
# Total cholesterol and its LDL part are nearly the same column (correlation 0.9), with signs that
# oppose each other: what the formula uses is their difference, and HDL or the ratio ``tch`` say
# much the same. Which of them a selection picks is an accident of the rows.

print(X[["tc", "ldl", "hdl", "tch"]].corr().round(2))
for name, swaps in found.replaceable.inputs.items():
    for swap in swaps:
        print(f"{' and '.join(swap.into)} in place of {name}: +{100 * swap.excess:.2f} %")

# %%
# Terms by formulas
# -----------------
# A wider net, 3 %, and a picture: one row per term, one column per formula. Full rows are what the
# data insist on.

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
