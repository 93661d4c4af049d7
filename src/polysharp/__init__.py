"""polysharp: the best small polynomial, with a certificate.

Names are loaded on first use, so that ``import polysharp`` costs nothing by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from polysharp._version import __version__ as __version__

if TYPE_CHECKING:  # what the table below says, for readers of types
    from polysharp.certificate.checker.verify import Verdict as Verdict
    from polysharp.certificate.checker.verify import verify as verify
    from polysharp.certificate.proof import Proof as Proof
    from polysharp.certificate.solution import Solution as Solution
    from polysharp.data.scanning import scan as scan
    from polysharp.errors import CertificateError as CertificateError
    from polysharp.errors import ClusterError as ClusterError
    from polysharp.errors import DataError as DataError
    from polysharp.errors import InfeasibleError as InfeasibleError
    from polysharp.errors import InputError as InputError
    from polysharp.errors import MissingSolverError as MissingSolverError
    from polysharp.errors import TooLargeError as TooLargeError
    from polysharp.estimators.kernel import PolynomialKernelRegressor as PolynomialKernelRegressor
    from polysharp.estimators.lasso import PolynomialLasso as PolynomialLasso
    from polysharp.estimators.model_file.model_file import load_model as load_model
    from polysharp.estimators.model_file.model_file import save_model as save_model
    from polysharp.estimators.multitask import (
        MultiTaskSparsePolynomialRegressor as MultiTaskSparsePolynomialRegressor,
    )
    from polysharp.estimators.multitask import (
        MultiTaskSparsePolynomialRegressorCV as MultiTaskSparsePolynomialRegressorCV,
    )
    from polysharp.estimators.path import Path as Path
    from polysharp.estimators.path import PathPoint as PathPoint
    from polysharp.estimators.path import path as path
    from polysharp.estimators.regressor import (
        SparsePolynomialRegressor as SparsePolynomialRegressor,
    )
    from polysharp.estimators.regressor_cv import (
        SparsePolynomialRegressorCV as SparsePolynomialRegressorCV,
    )
    from polysharp.estimators.rivals import rivals as rivals
    from polysharp.estimators.rivals_found import Rivals as Rivals
    from polysharp.estimators.stability import Stability as Stability
    from polysharp.estimators.stability import stability as stability
    from polysharp.polynomial.polynomial import Polynomial as Polynomial
    from polysharp.ranking.ranking import Ranking as Ranking
    from polysharp.ranking.ranking import rank_inputs as rank_inputs

_NAMES = {
    "certificate.checker.verify": "Verdict verify",
    "certificate.proof": "Proof",
    "certificate.solution": "Solution",
    "data.scanning": "scan",
    "errors": "CertificateError ClusterError DataError InfeasibleError InputError "
    "MissingSolverError TooLargeError",
    "estimators.kernel": "PolynomialKernelRegressor",
    "estimators.lasso": "PolynomialLasso",
    "estimators.model_file.model_file": "load_model save_model",
    "estimators.multitask": "MultiTaskSparsePolynomialRegressor "
    "MultiTaskSparsePolynomialRegressorCV",
    "estimators.regressor": "SparsePolynomialRegressor",
    "estimators.regressor_cv": "SparsePolynomialRegressorCV",
    "estimators.rivals": "rivals",
    "estimators.rivals_found": "Rivals",
    "estimators.stability": "Stability stability",
    "polynomial.polynomial": "Polynomial",
    "ranking.ranking": "Ranking rank_inputs",
    "estimators.path": "Path PathPoint path",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}
_SUBMODULES = ["datasets", "engines", "errors", "metrics", "plots", "report", "synthetic", "uci"]

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
