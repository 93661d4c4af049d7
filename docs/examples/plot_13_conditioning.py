"""
Inputs far from zero
====================

The powers of an input that goes from 300 to 400 are nearly multiples of each other: formulas with
quite different powers fit alike, their coefficients are tiny numbers that cancel, and a proof has
to tell them all apart. Centred inputs are better, orthogonal polynomials better still.
"""

from dataclasses import replace
from itertools import combinations_with_replacement

import matplotlib.pyplot as plt
import numpy as np

from polysharp import SparsePolynomialRegressor, verify

rng = np.random.default_rng(0)
X = rng.uniform(300.0, 400.0, (400, 4))
X[0], X[1] = 300.0, 400.0
t = (X - 350.0) / 50.0
smooth = 4.0 * np.exp(0.8 * t[:, 0]) * np.sin(1.5 * t[:, 1])
y = smooth + t[:, 2] ** 3 * t[:, 3] + 0.05 * rng.normal(size=400)

# %%
# The best eight terms of degree 5, of 125 products, in five bases. The ridge penalises the
# coefficients of scaled products, so that each basis has its own best formula.

bases = {
    "powers of x": {},
    "powers of x - mean": {"center": True},
    "Legendre": {"basis": "legendre"},
    "Chebyshev": {"basis": "chebyshev"},
    "Hermite": {"basis": "hermite"},
}
settings = {"degree": 5, "max_terms": 8, "gamma": 100.0, "time_limit": 30.0}
models = {
    name: SparsePolynomialRegressor(**settings, **own).fit(X, y) for name, own in bases.items()
}
for name, model in models.items():
    found = model.solution_
    print(f"{name:<18} {found.status}, {found.counters.nodes:3} nodes, R2 {model.score(X, y):.4f}")

# %%
# Coefficients in Legendre polynomials can be read: each of these varies between -1 and 1, or nearly
# so, over the range seen. Its inputs are mapped from that range; the formula and the statement of
# the proof say from where.

model = models["Legendre"]
print(model.polynomial_.formula(3))
print(verify(model.solution_.proof, X, y))

# %%
# How nearly dependent the columns are, their correlation matrix tells: the smallest eigenvalue is
# what the sharpest combination of terms is left with beside the ridge. ``products`` are the values
# of terms at the rows.


def eigenvalues(law):
    """Return the eigenvalues of the correlations of all products of degree 5."""
    every = [m for d in range(1, 6) for m in combinations_with_replacement(range(4), d)]
    columns = replace(law, monomials=tuple(every), coefficients=np.ones(len(every))).products(X)
    return np.linalg.eigvalsh(np.corrcoef(columns, rowvar=False))[::-1]


figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for name, model in models.items():
    found = eigenvalues(model.polynomial_)
    axes.semilogy(np.maximum(found, 1e-16), label=name)
    print(f"{name:<18} smallest eigenvalue {found[-1]:.0e}, largest {found[0]:.0f}")
axes.set(xlabel="number", ylabel="eigenvalue", title="correlations of the 125 products")
axes.legend()

# %%
# The same formula in plain powers of the inputs, for whoever needs it, has many more terms and
# fewer digits:

raw = models["Legendre"].polynomial_.to_raw()
print(len(raw), "terms;", raw.formula(3)[:76], "...")
print(f"largest difference {np.abs(raw(X) - models['Legendre'].predict(X)).max():.0e}")
