r"""
Finding a law that is known
===========================

The first test of a method that finds formulas is a table whose formula is known. Physics says
what power a cargo bicycle needs: rolling and climbing plus air drag,

.. math:: P = m g (c_r + \text{slope})\, v + d\,(v + u)^2 v,

with speed :math:`v`, mass :math:`m` and headwind :math:`u`. Multiplied out it is a polynomial
with five terms in four inputs. The table has noise of 5 W, and eight further columns that play no
part in it; two of those mislead (cadence follows speed, height follows mass).
"""

import matplotlib.pyplot as plt
import pandas as pd

from polysharp import SparsePolynomialRegressor
from polysharp.datasets import cycling
from polysharp.plots import ImportanceDisplay, PredictionDisplay, SurfaceDisplay

rides = cycling(n=1000, noise=5.0)
X = pd.DataFrame(rides.X, columns=rides.input_names)
y = pd.Series(rides.y, name="power")
train, test = slice(0, 750), slice(750, None)
print(", ".join(X.columns))

# %%
# We ask for the best five terms of degree up to 3 in at most four inputs. There are 454 such
# monomials, hence about 1.6e11 sets of five; the search does not go through them all, and still
# proves that none of them is better.

model = SparsePolynomialRegressor(degree=3, max_terms=5, max_inputs=4, gamma=1.0)
model.fit(X[train], y[train])
print(model.polynomial_)
print(model.solution_)

# %%
# The five planted terms came back, with coefficients close to the physical ones: 9.81 is the
# acceleration of gravity, 0.192 half of air density times drag area.

for monomial, planted in rides.law.items():
    place = model.polynomial_.monomials.index(monomial)
    name, found = model.polynomial_.term_names[place], model.polynomial_.coefficients[place]
    print(f"{name:<18} planted {planted:8.4f}   found {found:8.4f}")

# %%
# Left: predictions of rows that were not used in the fit, within the noise of the meter. Right:
# what matters, as shares of the variance of the predictions. Cadence and height, which mislead a
# simple ranking, are not in the formula at all.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
PredictionDisplay.from_estimator(model, X[test], y[test], ax=left)
ImportanceDisplay.from_estimator(model, X[train], ax=right)
plt.show()

# %%
# A formula can be looked at from all sides. These are the pairs of inputs whose effects depend on
# each other most; all other inputs are held at their medians.

SurfaceDisplay.from_estimator(model, X[train])
plt.show()
