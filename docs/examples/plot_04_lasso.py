"""
Beside the Lasso
================

This example compares polysharp with the Lasso on the same rows. After it you know which difference
to expect: fewer terms, and coefficients that are not shrunk. The usual way to a sparse polynomial
is to form all monomials and to run the Lasso on them. Its penalty does two jobs at once: it selects
terms, and it shrinks their coefficients. These jobs conflict if monomials are correlated, as they
usually are. A penalty that is strong enough to drop the wrong terms shrinks the right ones too
much, so cross-validation chooses a weak penalty, which keeps many wrong terms. The inputs here are
correlated like neighbouring measurements (0.7 from one to the next).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.metrics import root_mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from polysharp import SparsePolynomialRegressorCV
from polysharp.synthetic import make_sparse_polynomial

DEGREE = 3
data = make_sparse_polynomial(
    n=700, p=8, degree=DEGREE, max_terms=8, snr_sqrt=10, rho=0.7, random_state=1
)
X, y, X_test, signal = data.X[:200], data.y[:200], data.X[200:], data.signal[200:]

# %%
# Both methods choose their settings by cross-validation on the same 200 rows.

ours = SparsePolynomialRegressorCV(
    degree=DEGREE, max_terms=20, center=False, rule="one-se", time_limit=20, random_state=0
).fit(X, y)
expansion = PolynomialFeatures(DEGREE, include_bias=False)
lasso = LassoCV(cv=5, random_state=0, max_iter=100_000)
pipeline = make_pipeline(expansion, StandardScaler(), lasso).fit(X, y)

# %%
# The number of true terms and of false terms that each method selects from 164 monomials, and its
# error on 500 new rows without noise:

planted = set(data.monomials)
powers = expansion.powers_[lasso.coef_ != 0.0]
by_lasso = {tuple(np.repeat(np.arange(X.shape[1]), row).tolist()) for row in powers}
by_ours = set(ours.polynomial_.monomials)
for name, model, found in (("polysharp", ours, by_ours), ("Lasso", pipeline, by_lasso)):
    error = root_mean_squared_error(signal, model.predict(X_test))
    print(
        f"{name:<10} {len(found & planted)} of {len(planted)} terms, "
        f"{len(found - planted):2} false ones, error {error:.3f}"
    )
print(ours.solution_)

# %%
# The coefficients of both, beside those of the law. The Lasso shrinks the true terms towards zero
# and adds many small terms that are not in the law.


def coefficients(monomials, values):
    """Return the coefficients of all monomials of the expansion."""
    lookup = dict(zip(monomials, values, strict=True))
    every = [tuple(np.repeat(np.arange(X.shape[1]), row).tolist()) for row in expansion.powers_]
    return np.array([lookup.get(monomial, 0.0) for monomial in every])


truth = coefficients(data.monomials, data.coefficients)
shown = {
    "polysharp": coefficients(ours.polynomial_.monomials, ours.polynomial_.coefficients),
    "Lasso": lasso.coef_ / pipeline[1].scale_,
}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, shown.items(), strict=True):
    order = np.argsort(-np.maximum(abs(truth), 1e-3 * abs(values)))[:40]
    ax.bar(range(40), truth[order], color="0.8", label="planted")
    ax.plot(range(40), values[order], "o", ms=4, color="C0" if name == "polysharp" else "C1")
    ax.set_title(name)
    ax.set_xlabel("monomials, planted ones first")
axes[0].set_ylabel("coefficient")
axes[0].legend(frameon=False)
plt.show()
