"""
A thousand inputs
=================

With 1000 inputs there are 501,500 monomials of degree up to 2. The paper's way is to rank the
inputs first and to search among the best of them. That ranking is a heuristic: an input that
works only in products may stand far down, and is then lost for good. polysharp can also keep
every input and let none of the 501,500 columns be formed unless it is needed. The certificate
then covers all of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from polysharp import SparsePolynomialRegressor, rank_inputs
from polysharp.synthetic import make_sparse_polynomial

data = make_sparse_polynomial(
    n=300, p=1000, degree=2, max_inputs=6, max_terms=8, snr_sqrt=20, random_state=0
)
print("the law uses inputs", ", ".join(str(i) for i in data.inputs), "in 300 rows")

# %%
# The ranking (Algorithm 1): kernel regression on all monomials at once, and the share of each
# input in it. It takes a moment, and puts some of the six inputs far down the list.

ranking = rank_inputs(data.X, data.y, degree=2)
place = np.empty(1000, dtype=int)
place[ranking.order] = np.arange(1, 1001)
print("their places in the ranking:", sorted(place[list(data.inputs)].tolist()))

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.semilogx(
    np.arange(1, 1001), ranking.scores[ranking.order], ".", color="0.7", label="other inputs"
)
inputs = list(data.inputs)
ax.semilogx(place[inputs], ranking.scores[inputs], "o", color="C0", label="inputs of the law")
ax.set(xlabel="place in the ranking", ylabel="score")
ax.legend(frameon=False)
plt.show()

# %%
# A triage to the best 20 inputs loses what it loses. The certificate knows: its scope is
# "kept-inputs", and what it proves is true of these twenty only.

kept = SparsePolynomialRegressor(degree=2, max_terms=8, gamma=0.01, n_candidates=20)
kept.fit(data.X, data.y)
print(kept.solution_)

# %%
# With ``n_candidates=None`` no input is discarded. The search starts with a pool of promising
# monomials; matrix products find the monomials outside that correlate most with what is left
# unexplained, and they join the pool until none outside can matter. That last step is a proof
# over every input.

every = SparsePolynomialRegressor(degree=2, max_terms=8, gamma=0.01, n_candidates=None)
every.fit(data.X, data.y)
print(every.solution_)
for name, model in (("20 kept inputs", kept), ("every input", every)):
    right = len(set(model.polynomial_.monomials) & set(data.monomials))
    print(f"{name}: {right} of {len(data.monomials)} terms of the law found")

# %%
# Degree 3 has 167 million monomials and works in the same way; one pass over them is a matter of
# seconds on a GPU (see the benchmarks).
