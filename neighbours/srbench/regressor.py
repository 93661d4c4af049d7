"""polysharp in SRBench: an estimator, its formula as text for SymPy, and its complexity.

SRBench imports this file and looks for four names: ``est``, ``hyper_params``, ``model`` and
``eval_kwargs``; older versions of it also ask for ``complexity``.  Degree, number of terms and
ridge are chosen by validation inside ``fit``, so there is nothing left to tune outside.
"""

from __future__ import annotations

from typing import Any

from polysharp import SparsePolynomialRegressorCV

est = SparsePolynomialRegressorCV(
    degree=(1, 2, 3), max_terms=15, rule="best", time_limit=3000.0, random_state=0
)
hyper_params: list[dict[str, Any]] = [{}]
eval_kwargs: dict[str, Any] = {
    "scale_x": False,  # polysharp scales by itself, and reports in the data's units
    "scale_y": False,
    "test_params": {"degree": (1, 2), "max_terms": 5, "time_limit": 20.0},
}


def model(est: Any, X: Any = None) -> str:
    """Return the formula as SymPy reads it, in the names of the columns of X."""
    expression = _expression(est)
    if X is not None and hasattr(X, "columns"):
        from sympy import Symbol

        names = zip(est.polynomial_.names, map(str, X.columns), strict=True)
        expression = expression.subs({Symbol(a): Symbol(b) for a, b in names}, simultaneous=True)
    return str(expression)


def complexity(est: Any) -> int:
    """Return the number of nodes of the formula's tree, which is SRBench's measure."""
    return _nodes(_expression(est))


def _expression(est: Any) -> Any:
    """Return the formula as it was fitted or, where that is shorter, multiplied out."""
    law = est.polynomial_
    return min((law.to_sympy(), law.to_raw().to_sympy()), key=_nodes)


def _nodes(expression: Any) -> int:
    from sympy import preorder_traversal

    return sum(1 for _ in preorder_traversal(expression))
