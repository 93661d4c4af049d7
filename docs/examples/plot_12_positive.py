"""
Coefficients of known sign
==========================

This example uses known signs of coefficients. After it you can require signs, or limits, and read a
certificate about the formulas that obey. Friction, drag and climbing each *take* power from a
cyclist, so no term may have a negative coefficient. The rides are few and noisy, and heavy riders
happened to ride slowly; the inputs are speed, weight, slope and headwind.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polysharp import SparsePolynomialRegressor, verify

rng = np.random.default_rng(0)
n = 30
speed = rng.uniform(4.0, 9.0, n)  # metres per second
weight = 95.0 - 2.5 * speed + 4.0 * rng.normal(size=n)  # kilograms
slope = rng.uniform(0.0, 0.04, n)
wind = rng.uniform(0.0, 3.0, n)
X = pd.DataFrame({"speed": speed, "weight": weight, "slope": slope, "wind": wind})
law = 9.81 * weight * slope * speed + 0.25 * speed**3 + 0.5 * speed**2 * wind
y = pd.Series(law + 40.0 * rng.normal(size=n), name="power")

# %%
# We fit the best five terms of degree 3, without and with the rule about signs. There is no
# constant, because a bicycle at rest takes no power.

settings = {
    "degree": 3,
    "max_terms": 5,
    "gamma": 100.0,
    "fit_intercept": False,
    "exclude_terms": ["1"],
}
free = SparsePolynomialRegressor(**settings).fit(X, y)
signed = SparsePolynomialRegressor(**settings, positive=True).fit(X, y)
for name, model in (("free", free), ("positive", signed)):
    error = np.sqrt(np.mean((model.predict(X) - law) ** 2))
    print(f"{name}: {model.polynomial_.formula(3)}")
    print(f"    {model.solution_.status}; {error:.0f} W from the law\n")

# %%
# Both are proved the best of their kind. The certificate of the second covers formulas without
# negative coefficients. The statement of its proof says so, and the checker takes it into account:

print(str(signed.solution_.proof.statement).splitlines()[-6])
print(verify(signed.solution_.proof, X, y))

# %%
# The rule helps most outside the range of the rides, here on a steep road:

speeds = np.linspace(2.0, 12.0, 60)
steep = pd.DataFrame({"speed": speeds, "weight": 80.0, "slope": 0.08, "wind": 0.0})
truth = 9.81 * 80.0 * 0.08 * steep["speed"] + 0.25 * steep["speed"] ** 3
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot(steep["speed"], truth, color="0.6", linewidth=4, label="law")
axes.plot(steep["speed"], free.predict(steep), "--", label="best five terms")
axes.plot(steep["speed"], signed.predict(steep), label="best five without a negative one")
axes.set(xlabel="speed, m/s", ylabel="power, W", title="a slope of 8 %, twice the steepest seen")
axes.legend()

# %%
# ``coefficient_bounds`` takes intervals for inputs and for single terms as well, in the units of
# the table. Here the coefficient of one drag term is at most 0.4:

drag = {"*": (0, None), "speed^2 wind": (0, 0.4)}
known = SparsePolynomialRegressor(**settings, coefficient_bounds=drag).fit(X, y)
print(known.polynomial_.formula(3))
