"""
Checking a proof
================

"Proved optimal" should not have to be believed. Behind a bound stands a proof that can be written
to a file and sent to somebody else, who checks it against the data with a short program that
knows nothing of the search. This is what it looks like from both sides.
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
# With only 60 rows and as much noise as law, many formulas come close, and the proof has some
# work to do.

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
# The file holds numbers and no code. Its statement says what is claimed; the rows come from our
# own copy of the table.

proof = Proof.load(file)
print(f"{file.stat().st_size / 1024:.0f} KiB, {len(proof.nodes)} nodes")
print(proof.statement)
print(verify(proof, X, y))

# %%
# ``verify`` lists the monomials itself, computes objective and bound itself, and goes through
# every case of the proof. It takes nothing on trust, so it must notice when something is wrong.
# Say, one digit of the data:

altered = y.copy()
altered[17] += 0.01
print(verify(proof, X, altered))

# %%
# Or a bound that promises more than was shown:

print(verify(replace(proof, bound=1.001 * proof.bound), X, y))

# %%
# What the proof does not say is that the formula is the true one. Here it is not: the law has two
# terms, and the best four-term fit to sixty noisy rows added two more.
