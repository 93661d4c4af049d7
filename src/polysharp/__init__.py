"""polysharp: the best small polynomial, with a certificate.

Names are loaded on first use, so that ``import polysharp`` costs nothing by itself;
``__init__.pyi`` has the same names for readers of types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from polysharp._version import __version__ as __version__

_NAMES = {
    "checker.walk": "Verdict verify",
    "certificate.proof": "Proof",
    "certificate.solution": "Solution",
    "data.files": "scan",
    "errors": "CertificateError ClusterError DataError InfeasibleError InputError "
    "MissingSolverError TooLargeError",
    "estimators.kernel_regressor": "PolynomialKernelRegressor",
    "estimators.lasso": "PolynomialLasso",
    "estimators.model_file.model_file": "load_model save_model",
    "estimators.multitask": "MultiTaskSparsePolynomialRegressor "
    "MultiTaskSparsePolynomialRegressorCV",
    "estimators.regressor": "SparsePolynomialRegressor",
    "estimators.regressor_cv": "SparsePolynomialRegressorCV",
    "estimators.rivals": "rivals",
    "estimators.rivals_found": "Rivals",
    "estimators.resampling": "Stability stability",
    "polynomial.polynomial": "Polynomial",
    "ranking.ranking": "Ranking rank_inputs",
    "estimators.path": "Path PathPoint path",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = ["datasets", "engines", "errors", "metrics", "plots", "report", "synthetic"]

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"polysharp.{_HOMES[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"polysharp.{name}")
    else:
        raise AttributeError(f"module 'polysharp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
