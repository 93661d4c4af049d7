r"""
Discovering the equations of a chaotic system
=============================================

This example finds differential equations from a trajectory: three quantities over time, measured
with noise. After it you can do the same for your own system. If the equations are polynomials, as
often in physics, chemistry and ecology, each of them is a sparse regression of one derivative on
the state. The trajectory comes from the Lorenz system,

.. math:: \dot x = 10\,(y - x),\qquad \dot y = x\,(28 - z) - y,\qquad \dot z = x y - \tfrac83 z.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp
from scipy.signal import savgol_filter

from polysharp import path

STEP = 0.01


def lorenz(_, state):
    """Return the derivatives of the true system."""
    x, y, z = state
    return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]


time = np.arange(0, 20, STEP)
start = [-8.0, 8.0, 27.0]
truth = solve_ivp(lorenz, (0, time[-1]), start, t_eval=time, rtol=1e-9, atol=1e-9).y.T
measured = truth + np.random.default_rng(0).normal(scale=0.05, size=truth.shape)

# %%
# Derivatives are not measured, so we estimate them: a polynomial of degree five, fitted to 21
# neighbouring points, gives the smoothed state and its derivative. This step decides the result:
# differences of neighbouring points would have more noise than signal.

smooth = savgol_filter(measured, 21, 5, axis=0)[20:-20]
slopes = savgol_filter(measured, 21, 5, deriv=1, delta=STEP, axis=0)[20:-20]
states = pd.DataFrame(smooth, columns=["x", "y", "z"])

# %%
# ``path`` finds the best polynomial of each size for each equation, among the 19 monomials of
# degree up to 3. ``gamma`` is large because the noise is small. The folds are blocks of time,
# because neighbouring points are nearly equal and would tell a model the rows that it must predict.
# The number of terms is the smallest whose error is within one standard error of the least.

blocks = np.arange(len(states)) * 5 // len(states)
folds = [(np.flatnonzero(blocks != b), np.flatnonzero(blocks == b)) for b in range(5)]
equations = []
for column, name in enumerate(states):
    derivative = pd.Series(slopes[:, column], name=f"d{name}/dt")
    curve = path(states, derivative, degree=3, max_terms=5, gamma=10.0, cv=folds, random_state=0)
    equations.append(curve.best("one-se"))

for equation, true in zip(
    equations, ("-10 x + 10 y", "28 x - y - x z", "-2.667 z + x y"), strict=True
):
    print(f"{equation.polynomial.formula(3)}")
    print(f"        true: {true}        {equation.status}, gap {equation.gap:.1e}")

# %%
# The formulas have exactly the true terms, and each is proved the best of its size. The picture
# solves the equations found, and the true ones, from a start that was not in the data. The two
# trajectories agree for some time. In the end they part, as any two trajectories of a chaotic
# system do, but they stay on the same attractor.


def found(_, state):
    """Return the derivatives of the system found."""
    return [equation.polynomial(np.atleast_2d(state))[0] for equation in equations]


span = np.arange(0, 12, STEP)
new_start = [5.0, 5.0, 15.0]
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[3, 2])
for system, style, label in ((lorenz, "0.6", "true"), (found, "C0", "found")):
    orbit = solve_ivp(system, (0, span[-1]), new_start, t_eval=span, rtol=1e-8, atol=1e-8).y
    axes[0].plot(span, orbit[0], color=style, label=label, lw=2.5 if label == "true" else 1)
    axes[1].plot(orbit[0], orbit[2], color=style, lw=0.7)
axes[0].set(xlabel="time", ylabel="x")
axes[0].legend(frameon=False)
axes[1].set(xlabel="x", ylabel="z")
plt.show()
