"""
A thousand inputs
=================

This example fits a table with 1000 inputs, in two ways. After it you can choose between them: rank
the inputs and search only the first ones, or search all of them. There are 501,500 monomials of
degree up to 2. The paper behind polysharp ranks the inputs and searches among the best. That
ranking is a heuristic: it may place an input that acts only in products far down, and the search
then cannot find it. polysharp can also keep every input, and form a column only if it is needed.
The certificate then covers all 501,500 monomials.
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
# The ranking (the paper's Algorithm 1) fits a kernel regression on all monomials at once and scores
# each input by its share. It is quick, and it puts some of the six inputs far down the list.

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
# ``n_candidates=20`` keeps the first 20 inputs (a *triage*) and loses the others. The certificate
# says so: its scope is "kept-inputs", and its proof is about these 20 inputs only.

kept = SparsePolynomialRegressor(degree=2, max_terms=8, gamma=0.01, n_candidates=20)
kept.fit(data.X, data.y)
print(kept.solution_)

# %%
# ``n_candidates=None`` discards no input. The search starts with a working set of promising
# monomials. Matrix products compare all other monomials with the part of the response that the
# model leaves unexplained, and the most correlated ones join the working set. The search ends when
# no other monomial can improve the formula. This last step is a proof over every input.

every = SparsePolynomialRegressor(degree=2, max_terms=8, gamma=0.01, n_candidates=None)
every.fit(data.X, data.y)
print(every.solution_)
for name, model in (("20 kept inputs", kept), ("every input", every)):
    right = len(set(model.polynomial_.monomials) & set(data.monomials))
    print(f"{name}: {right} of {len(data.monomials)} terms of the law found")

# %%
# Degree 3 has 167 million monomials and works in the same way. The page *Benchmarks* has times of
# such fits with and without a GPU.
