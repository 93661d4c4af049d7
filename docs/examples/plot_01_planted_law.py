r"""
Finding a law that is known
===========================

This example fits a table whose formula is known, the first test of any method that finds formulas.
After it you can fit a formula of a given size and look at it from all sides. Physics gives the
power that a cargo bicycle needs: rolling and climbing plus air drag,

.. math:: P = m g (c_r + \text{slope})\, v + d\,(v + u)^2 v,

with speed :math:`v`, mass :math:`m`, headwind :math:`u`, and constants for gravity :math:`g`,
rolling resistance :math:`c_r` and drag :math:`d`. Multiplied out, this is a polynomial with five
terms in four inputs. The table has noise of 5 W, and eight further columns that play no part in the
law. Two of them mislead: cadence follows speed, and height follows mass.
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
# monomials, and 118 million sets of five in at most four inputs. The search does not try these sets
# one by one, and still proves that none of them is better.

model = SparsePolynomialRegressor(degree=3, max_terms=5, max_inputs=4, gamma=1.0)
model.fit(X[train], y[train])
print(model.polynomial_)
print(model.solution_)

# %%
# The search found the five planted terms (those of the law behind the data), with coefficients
# close to the physical ones: 9.81 is the acceleration of gravity, 0.192 half the product of air
# density and drag area.

for monomial, planted in rides.law.items():
    place = model.polynomial_.monomials.index(monomial)
    name, found = model.polynomial_.term_names[place], model.polynomial_.coefficients[place]
    print(f"{name:<18} planted {planted:8.4f}   found {found:8.4f}")

# %%
# Left: predictions for rows that the fit has not seen; they are as close as the noise allows.
# Right: the importance of each input, as its share of the variance of the predictions. Cadence and
# height, which would mislead a simple ranking, are not in the formula.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
PredictionDisplay.from_estimator(model, X[test], y[test], ax=left)
ImportanceDisplay.from_estimator(model, X[train], ax=right)
plt.show()

# %%
# The surfaces show the formula over the pairs of inputs whose effects depend on each other most.
# All other inputs are held at their medians.

SurfaceDisplay.from_estimator(model, X[train])
plt.show()
