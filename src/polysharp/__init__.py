"""polysharp: the best small polynomial, with a certificate.

Names are loaded on first use, so that ``import polysharp`` costs nothing by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polysharp._version import __version__

if TYPE_CHECKING:
    from polysharp.certificate.checker.verify import Verdict, verify
    from polysharp.certificate.proof import Proof
    from polysharp.certificate.solution import Solution
    from polysharp.data.scanning import scan
    from polysharp.errors import (
        CertificateError,
        ClusterError,
        DataError,
        InfeasibleError,
        InputError,
        MissingSolverError,
        TooLargeError,
    )
    from polysharp.estimators.kernel import PolynomialKernelRegressor
    from polysharp.estimators.lasso import PolynomialLasso
    from polysharp.estimators.model_file.model_file import load_model, save_model
    from polysharp.estimators.regressor import SparsePolynomialRegressor
    from polysharp.estimators.regressor_cv import SparsePolynomialRegressorCV
    from polysharp.estimators.stability import Stability, stability
    from polysharp.polynomial.polynomial import Polynomial
    from polysharp.ranking.ranking import Ranking, rank_inputs
    from polysharp.selection.size_path import Path, PathPoint, path

_HOMES = {
    "CertificateError": "polysharp.errors",
    "ClusterError": "polysharp.errors",
    "DataError": "polysharp.errors",
    "InfeasibleError": "polysharp.errors",
    "InputError": "polysharp.errors",
    "MissingSolverError": "polysharp.errors",
    "Path": "polysharp.selection.size_path",
    "PathPoint": "polysharp.selection.size_path",
    "Polynomial": "polysharp.polynomial.polynomial",
    "PolynomialKernelRegressor": "polysharp.estimators.kernel",
    "PolynomialLasso": "polysharp.estimators.lasso",
    "Proof": "polysharp.certificate.proof",
    "Ranking": "polysharp.ranking.ranking",
    "Solution": "polysharp.certificate.solution",
    "SparsePolynomialRegressor": "polysharp.estimators.regressor",
    "SparsePolynomialRegressorCV": "polysharp.estimators.regressor_cv",
    "Stability": "polysharp.estimators.stability",
    "TooLargeError": "polysharp.errors",
    "Verdict": "polysharp.certificate.checker.verify",
    "load_model": "polysharp.estimators.model_file.model_file",
    "path": "polysharp.selection.size_path",
    "rank_inputs": "polysharp.ranking.ranking",
    "save_model": "polysharp.estimators.model_file.model_file",
    "scan": "polysharp.data.scanning",
    "stability": "polysharp.estimators.stability",
    "verify": "polysharp.certificate.checker.verify",
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
