"""
Checking a proof
================

You need not believe the words "proved best". The search can write its proof to a file, and somebody
else can check this file against the data, with a small program that shares no code with the search.
After this example you can do both: save a proof, and check one.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.plots import GapDisplay

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 6))
y = X[:, 0] * X[:, 1] - X[:, 2] ** 2 + rng.standard_normal(60)

# %%
# The side that claims
# --------------------
# There are only 60 rows, and the noise is more than half as large as the law, so many formulas come
# close to the best one.

model = SparsePolynomialRegressor(degree=3, max_terms=4, gamma=0.5).fit(X, y)
print(model.polynomial_)
print(model.solution_)

file = Path(tempfile.mkdtemp()) / "model.proof"
model.solution_.proof.save(file)

GapDisplay.from_estimator(model)
plt.show()

# %%
# The side that doubts
# --------------------
# The file holds numbers and no code. Its statement is the full claim. The rows come from the
# checking side's own copy of the table.

proof = Proof.load(file)
print(f"{file.stat().st_size / 1024:.0f} KiB, cases: {len(proof.nodes)}")
print(proof.statement)
print(verify(proof, X, y))

# %%
# ``verify`` lists the monomials, computes objective and bound, and goes through every case of the
# proof by itself. It should therefore notice every change. First we change one value of the data:

altered = y.copy()
altered[17] += 0.01
print(verify(proof, X, altered))

# %%
# Then we raise the bound above the value that the proof supports:

print(verify(replace(proof, bound=1.001 * proof.bound), X, y))

# %%
# The proof does not say that the formula is the true one. Here it is not: the law has two terms,
# and the best formula with four terms for these sixty noisy rows has two more.
