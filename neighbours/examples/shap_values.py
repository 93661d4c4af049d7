"""shap's introduction: what each input adds to one prediction."""

import numpy as np
import shap
from sklearn.datasets import load_diabetes

from polysharp import SparsePolynomialRegressor

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
model = SparsePolynomialRegressor(2, 4, gamma=1.0).fit(X, y)
print(model.polynomial_)
background = shap.utils.sample(X, 20, random_state=0)
values = shap.Explainer(model.predict, background)(X.iloc[:1], silent=True)
total = values.base_values[0] + values.values[0].sum()
print(f"mean {values.base_values[0]:.2f} + contributions = {total:.2f}, predicted", end=" ")
print(f"{model.predict(X.iloc[:1])[0]:.2f}")
used = {model.polynomial_.names[i] for i in model.polynomial_.inputs}
for name, value in zip(X.columns, values.values[0], strict=True):
    if name in used or not np.isclose(value, 0.0):
        print(f"  {name:<4} {value:+8.2f}")
