"""
On a GPU
========

This example fits many inputs with a GPU. After it you can decide whether a GPU pays for your table.
Three steps of a fit are matrix products over all rows: ranking the inputs, summing the moments, and
pricing, which finds promising monomials among all of them without forming them as columns. They
take most of the time of a fit with many inputs. ``device="cuda"`` moves them, and relaxations over
thousands of monomials, to a GPU through PyTorch (``pip install "polysharp[torch]"``). Arguments,
formula and certificate stay the same.
"""

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np

from polysharp import SparsePolynomialRegressor
from polysharp.monomials.basis import count_monomials
from polysharp.synthetic import make_sparse_polynomial

# %%
# The machine that builds this page may have no GPU. The program therefore takes the best device
# that it finds: a GPU; PyTorch on the CPU, which runs the same code; or NumPy if PyTorch is not
# installed.

device = None
if find_spec("torch") is not None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
names = {None: "NumPy: PyTorch is not installed", "cpu": "PyTorch on the CPU: there is no GPU"}
print("this page was built with", names.get(device, "PyTorch on a GPU"))

# %%
# The table has 200 inputs. ``n_candidates=None`` keeps them all, so the search prices 20,300
# monomials in every round.

data = make_sparse_polynomial(
    n=500, p=200, degree=2, max_inputs=5, max_terms=6, snr_sqrt=20, random_state=0
)
model = SparsePolynomialRegressor(
    degree=2, max_terms=6, gamma=0.01, n_candidates=None, device=device, time_limit=30
)
model.fit(data.X, data.y)
print(model.solution_)
print("the law was found:", set(model.polynomial_.monomials) == set(data.monomials))

# %%
# When does a GPU pay? One pricing pass takes about two operations per row and monomial. The lines
# divide this number, for 2000 rows, by measured rates (``python benchmarks/pricing.py``): 7.3
# TFLOP/s in double precision on an H200, and 55 GFLOP/s on two CPU cores. With fewer than a hundred
# inputs a pass takes so little time that a GPU gains nothing.

inputs = np.unique(np.geomspace(10, 3000, 40).astype(int))
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for degree, style in ((2, "--"), (3, "-")):
    work = np.array([2.0 * 2000 * count_monomials(p, degree) for p in inputs])
    for name, rate, colour in (("two cores", 55e9, "0.5"), ("H200", 7.3e12, "C0")):
        ax.loglog(inputs, work / rate, style, color=colour, label=f"{name}, degree {degree}")
ax.set(xlabel="inputs", ylabel="seconds for one pass", ylim=(1e-6, 1e4))
ax.legend(frameon=False)
plt.show()

# %%
# Tensors that are already on a device stay there: ``model.fit(X_tensor, y_tensor)`` uses their
# device if you set none.
