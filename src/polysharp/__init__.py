"""polysharp: the best small polynomial, with a certificate.

Names are loaded on first use, so that ``import polysharp`` costs nothing by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polysharp._version import __version__

if TYPE_CHECKING:
    from polysharp.checker import Verdict, verify
    from polysharp.cross_validation import SparsePolynomialRegressorCV
    from polysharp.errors import (
        CertificateError,
        ClusterError,
        DataError,
        InfeasibleError,
        InputError,
        MissingSolverError,
        TooLargeError,
    )
    from polysharp.estimator import SparsePolynomialRegressor
    from polysharp.exports.model_file import load_model, save_model
    from polysharp.kernel_regression import PolynomialKernelRegressor
    from polysharp.polynomial import Polynomial
    from polysharp.polynomial_lasso import PolynomialLasso
    from polysharp.proof import Proof
    from polysharp.ranking import Ranking, rank_inputs
    from polysharp.solution import Solution

_HOMES = {
    "CertificateError": "polysharp.errors",
    "DataError": "polysharp.errors",
    "ClusterError": "polysharp.errors",
    "InfeasibleError": "polysharp.errors",
    "InputError": "polysharp.errors",
    "MissingSolverError": "polysharp.errors",
    "Polynomial": "polysharp.polynomial",
    "PolynomialKernelRegressor": "polysharp.kernel_regression",
    "PolynomialLasso": "polysharp.polynomial_lasso",
    "Proof": "polysharp.proof",
    "Ranking": "polysharp.ranking",
    "Solution": "polysharp.solution",
    "SparsePolynomialRegressor": "polysharp.estimator",
    "SparsePolynomialRegressorCV": "polysharp.cross_validation",
    "TooLargeError": "polysharp.errors",
    "Verdict": "polysharp.checker",
    "load_model": "polysharp.exports.model_file",
    "rank_inputs": "polysharp.ranking",
    "save_model": "polysharp.exports.model_file",
    "verify": "polysharp.checker",
}
_SUBMODULES = frozenset(
    {"datasets", "engines", "errors", "metrics", "plots", "report", "synthetic", "uci"}
)

__all__ = [
    "CertificateError",
    "ClusterError",
    "DataError",
    "InfeasibleError",
    "InputError",
    "MissingSolverError",
    "Polynomial",
    "PolynomialKernelRegressor",
    "PolynomialLasso",
    "Proof",
    "Ranking",
    "Solution",
    "SparsePolynomialRegressor",
    "SparsePolynomialRegressorCV",
    "TooLargeError",
    "Verdict",
    "__version__",
    "load_model",
    "rank_inputs",
    "save_model",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        value = import_module(f"polysharp.{name}")
    else:
        raise AttributeError(f"module 'polysharp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
