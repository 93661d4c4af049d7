"""The public names, for readers of types; ``__init__.py`` loads each of them on first use."""

from polysharp import datasets as datasets
from polysharp import engines as engines
from polysharp import errors as errors
from polysharp import metrics as metrics
from polysharp import plots as plots
from polysharp import report as report
from polysharp import synthetic as synthetic
from polysharp._version import __version__ as __version__
from polysharp.certificate.proof import Proof as Proof
from polysharp.certificate.solution import Solution as Solution
from polysharp.checker.walk import Verdict as Verdict
from polysharp.checker.walk import verify as verify
from polysharp.data.files import scan as scan
from polysharp.errors import CertificateError as CertificateError
from polysharp.errors import ClusterError as ClusterError
from polysharp.errors import DataError as DataError
from polysharp.errors import InfeasibleError as InfeasibleError
from polysharp.errors import InputError as InputError
from polysharp.errors import MissingSolverError as MissingSolverError
from polysharp.errors import TooLargeError as TooLargeError
from polysharp.estimators.kernel_regressor import (
    PolynomialKernelRegressor as PolynomialKernelRegressor,
)
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
from polysharp.estimators.resampling import Stability as Stability
from polysharp.estimators.resampling import stability as stability
from polysharp.estimators.rivals import rivals as rivals
from polysharp.estimators.rivals_found import Rivals as Rivals
from polysharp.polynomial.polynomial import Polynomial as Polynomial
from polysharp.ranking.ranking import Ranking as Ranking
from polysharp.ranking.ranking import rank_inputs as rank_inputs
