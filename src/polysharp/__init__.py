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
    from polysharp.scanning import scan
    from polysharp.size_path import Path, PathPoint, path
    from polysharp.solution import Solution
    from polysharp.term_stability import Stability, stability

_HOMES = {
    "CertificateError": "polysharp.errors",
    "ClusterError": "polysharp.errors",
    "DataError": "polysharp.errors",
    "InfeasibleError": "polysharp.errors",
    "InputError": "polysharp.errors",
    "MissingSolverError": "polysharp.errors",
    "Path": "polysharp.size_path",
    "PathPoint": "polysharp.size_path",
    "Polynomial": "polysharp.polynomial",
    "PolynomialKernelRegressor": "polysharp.kernel_regression",
    "PolynomialLasso": "polysharp.polynomial_lasso",
    "Proof": "polysharp.proof",
    "Ranking": "polysharp.ranking",
    "Solution": "polysharp.solution",
    "SparsePolynomialRegressor": "polysharp.estimator",
    "SparsePolynomialRegressorCV": "polysharp.cross_validation",
    "Stability": "polysharp.term_stability",
    "TooLargeError": "polysharp.errors",
    "Verdict": "polysharp.checker",
    "load_model": "polysharp.exports.model_file",
    "path": "polysharp.size_path",
    "rank_inputs": "polysharp.ranking",
    "save_model": "polysharp.exports.model_file",
    "scan": "polysharp.scanning",
    "stability": "polysharp.term_stability",
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
    "Path",
    "PathPoint",
    "Polynomial",
    "PolynomialKernelRegressor",
    "PolynomialLasso",
    "Proof",
    "Ranking",
    "Solution",
    "SparsePolynomialRegressor",
    "SparsePolynomialRegressorCV",
    "Stability",
    "TooLargeError",
    "Verdict",
    "__version__",
    "load_model",
    "path",
    "rank_inputs",
    "save_model",
    "scan",
    "stability",
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
