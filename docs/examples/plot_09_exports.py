"""
Taking the formula elsewhere
============================

After this example you can use a formula without polysharp: in a paper, a program, a
microcontroller, a database or a service. Every export returns the values of ``predict``, up to the
last digits.
"""

import json
import sqlite3
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from polysharp import SparsePolynomialRegressor, load_model, save_model
from polysharp.datasets import cycling

rides = cycling(n=500)
X = pd.DataFrame(rides.X, columns=rides.input_names).rename(columns={"headwind": "head wind"})
y = pd.Series(rides.y, name="power")
model = SparsePolynomialRegressor(degree=3, max_terms=5, max_inputs=4, gamma=1.0).fit(X, y)
law = model.polynomial_

# %%
# For a paper
# -----------
# ``to_latex`` rounds the numbers for reading. ``to_sympy`` returns an expression that SymPy can
# differentiate: here the power that one more metre per second takes.

figure, ax = plt.subplots(figsize=(10, 0.8))
ax.axis("off")
ax.text(0.5, 0.5, f"${law.to_latex(3)}$", ha="center", va="center", fontsize=10)
plt.show()

slope_of_power = law.to_sympy().diff("speed")
print("one more m/s costs", slope_of_power, "watts")

# sphinx_gallery_thumbnail_number = 2
figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
speeds = np.linspace(0, 12, 100)
for wind in (-3, 0, 3):
    cost = slope_of_power.subs({"mass": 90, "slope": 0, "head wind": wind})
    ax.plot(speeds, [cost.subs("speed", v) for v in speeds], label=f"head wind {wind} m/s")
ax.set(xlabel="speed (m/s)", ylabel="watts per m/s more", title="on the flat, 90 kg")
ax.legend(frameon=False)
plt.show()

# %%
# For a program
# -------------
# ``to_python`` writes a plain function without any import. It replaces column names that are not
# valid identifiers and names the column in a comment.

print(law.to_python())

# %%
# ``to_c`` writes C99, for machines without Python:

print(law.to_c("power"))

# %%
# For a database
# --------------
# The SQL expression has only sums and products, so every dialect takes it. SQLite returns the same
# values as ``predict``:

print(law.to_sql(table="rides"))
with sqlite3.connect(":memory:") as database:
    X.to_sql("rides", database, index=False)
    answers = np.array(database.execute(law.to_sql(table="rides")).fetchall())[:, 0]
print("largest difference to predict:", f"{abs(answers - model.predict(X)).max():.1e}")

# %%
# For a model server
# ------------------
# ``law.to_onnx()`` is an ONNX graph in double precision (``pip install "polysharp[onnx]"``)::
#
#     import onnx
#     onnx.save(law.to_onnx(), "power.onnx")
#
# For later
# ---------
# The model file is JSON with formula, certificate and settings. It holds no code, so you may load a
# file from a stranger, and any program that reads JSON can read it without polysharp.

file = Path(tempfile.mkdtemp()) / "power.json"
save_model(model, file)
print(json.dumps(json.loads(file.read_text())["terms"][0], indent=2))
again = load_model(file)
print("the same predictions:", np.array_equal(again.predict(X), model.predict(X)))
