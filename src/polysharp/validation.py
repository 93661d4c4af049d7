"""The door: parameters and data are checked here, once, and nowhere else.

Every refusal is one sentence with the parameter, the rule and the value received.  Budgets
larger than what exists (k > p, l > f, p' > p) are no error: "at most" stays true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data

from polysharp.data.cluster import is_dask
from polysharp.engines import ENGINES
from polysharp.engines.base import Engine
from polysharp.errors import InputError
from polysharp.monomials.term_rules import TermRules
from polysharp.monomials.terms import read_inputs, read_terms
from polysharp.typing import Array, Indices

# Each stays between its inverse and it.  Bounds divide (y'a)^2, of the order of (sum v y^2)^2, so
# that response and weights have less room than the powers of X, which are only squared.
LARGEST = 1e140  # powers of X
LARGEST_RESPONSE = 1e60
LARGEST_WEIGHT = 1e20  # all rows together


@dataclass(frozen=True, eq=False)
class Data:
    """Checked rows, those of weight zero left out."""

    X: Array
    y: Array
    sample_weight: Array | None
    names: tuple[str, ...]
    response: str

    @property
    def weights(self) -> Array:
        """The weights as an array."""
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def total_weight(self) -> float:
        """What n is when a row of weight two counts as two rows."""
        return float(self.weights.sum())

    def rows(self, chosen: Indices) -> Data:
        """Return some of the rows."""
        weights = None if self.sample_weight is None else self.sample_weight[chosen]
        return replace(self, X=self.X[chosen], y=self.y[chosen], sample_weight=weights)


def _integer(least: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, Integral) and not isinstance(v, bool) and int(v) >= least


def _real(v: Any) -> bool:
    return isinstance(v, Real) and not isinstance(v, bool)


def _positive(v: Any) -> bool:
    return _real(v) and isfinite(v) and v > 0


def _positives(v: Any) -> bool:
    """Whether v is a list or array of positive finite numbers, at least one."""
    if isinstance(v, str) or not isinstance(v, Iterable):
        return False
    values = np.ravel(np.asarray(v, dtype=object))
    return len(values) > 0 and all(map(_positive, values))


def _is(v: Any, *words: str | None) -> bool:
    """Whether v is one of the words; arrays and the like are not, whatever they compare to."""
    return (v is None or isinstance(v, str)) and v in words


def _flag(v: Any) -> bool:
    return isinstance(v, (bool, np.bool_))


_one = _integer(1)

Rule = tuple[Callable[[Any], bool], str]

_RULES: dict[str, Rule] = {
    "degree": (_one, "an integer of at least 1"),
    "max_terms": (_one, "an integer of at least 1"),
    "max_inputs": (lambda v: v is None or _one(v), "None or an integer of at least 1"),
    "gamma": (lambda v: _is(v, "auto") or _positive(v), "'auto' or a positive finite number"),
    "n_candidates": (
        lambda v: _is(v, "auto", None) or _one(v),
        "'auto', None or an integer of at least 1",
    ),
    "fit_intercept": (_flag, "True or False"),
    "scale": (_flag, "True or False"),
    "center": (_flag, "True or False"),
    "device": (
        lambda v: v is None or isinstance(v, str),
        "None, 'cpu', 'cuda' or the name of another PyTorch device",
    ),
    "engine": (
        lambda v: _is(v, *ENGINES) or isinstance(v, Engine),
        f"one of {', '.join(map(repr, ENGINES))}",
    ),
    "time_limit": (lambda v: v is None or _positive(v), "None or a positive number of seconds"),
    "gap_tol": (
        lambda v: _real(v) and 0 <= v < 1,
        "a number of at least 0 and less than 1",
    ),
    "n_jobs": (
        lambda v: v is None or (_integer(-1)(v) and v != 0),
        "None, -1 or an integer of at least 1",
    ),
    "verbose": (lambda v: _flag(v) or _integer(0)(v), "an integer of at least 0"),
    "max_interaction": (lambda v: v is None or _one(v), "None or an integer of at least 1"),
    "interaction_degree": (lambda v: v is None or _one(v), "None or an integer of at least 1"),
    "heredity": (lambda v: _is(v, None, "weak", "strong"), "None, 'weak' or 'strong'"),
}

# What differs for the polynomial Lasso, and what it alone has.
_LASSO_RULES: dict[str, Rule] = {
    **_RULES,
    "max_terms": (lambda v: _is(v, "auto") or _one(v), "'auto' or an integer of at least 1"),
    "gammas": (
        lambda v: v is None or _positives(v),
        "None or an array of positive finite numbers",
    ),
    "cv": (
        lambda v: (
            (isinstance(v, Iterable) or hasattr(v, "split") or _integer(2)(v))
            and not isinstance(v, str)
        ),
        "an integer of at least 2, a splitter or an iterable of (train, test) indices",
    ),
    "standardize": (_flag, "True or False"),
    "n_alphas": (_integer(2), "an integer of at least 2"),
    "eps": (lambda v: _real(v) and 0 < v < 1, "a number between 0 and 1"),
}


def check_parameters(parameters: dict[str, Any]) -> None:
    """Raise InputError for the first parameter that breaks its rule."""
    _check(parameters, _RULES)


def check_lasso_parameters(parameters: dict[str, Any]) -> None:
    """Do the same for the parameters of ``PolynomialLasso``."""
    _check(parameters, _LASSO_RULES)


def _check(parameters: dict[str, Any], rules: dict[str, Rule]) -> None:
    for name, (holds, rule) in rules.items():
        if name in parameters and not holds(parameters[name]):
            raise InputError(f"{name} must be {rule}, got {parameters[name]!r}")


def check_seed(random_state: Any) -> int:
    """Draw a seed from what scikit-learn accepts as ``random_state``, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))


def check_rules(parameters: dict[str, Any], names: tuple[str, ...]) -> TermRules:
    """Read the rules about terms in the user's names; raise where they contradict each other."""

    def number(name: str) -> int | None:
        return None if parameters[name] is None else int(parameters[name])

    rules = TermRules(
        degree=int(parameters["degree"]),
        max_terms=int(parameters["max_terms"]),
        max_inputs=number("max_inputs"),
        constant=not parameters["fit_intercept"],
        max_interaction=number("max_interaction"),
        interaction_degree=number("interaction_degree"),
        heredity=parameters["heredity"],
        include_terms=read_terms(parameters["include_terms"], names, "include_terms"),
        exclude_terms=read_terms(parameters["exclude_terms"], names, "exclude_terms"),
        include_inputs=read_inputs(parameters["include_inputs"], names, "include_inputs"),
        exclude_inputs=read_inputs(parameters["exclude_inputs"], names, "exclude_inputs"),
    )
    if len(rules.exclude_inputs) == len(names):
        raise InputError(f"exclude_inputs must leave some input in, got all {len(names)}")
    rules.check(names)
    return rules


def check_data(model: Any, X: Any, y: Any, sample_weight: Any) -> Data:
    """Check the training data; sets ``n_features_in_`` and ``feature_names_in_`` on the model."""
    if is_dask(X):
        raise InputError(
            f"X must be in memory for {type(model).__name__}, got a Dask collection; call "
            "compute() first, or use SparsePolynomialRegressor"
        )
    # What a Dask array calls its name is a key of its graph.
    response = None if type(y).__module__.startswith("dask.array") else getattr(y, "name", None)
    with named_columns(X):
        X, y = validate_data(
            model,
            X,
            y,
            dtype=np.float64,
            y_numeric=True,
            ensure_all_finite=False,
            ensure_min_samples=2,
        )
    names = input_names(model)
    check_finite(X, names)
    y = np.asarray(y, dtype=np.float64)
    weights = None
    if sample_weight is not None:
        X, y, weights = _weighted(X, y, sample_weight)
    check_powers(X, int(model.degree), names)
    check_magnitudes(y, 1.0 if weights is None else float(weights.sum()))
    return Data(X, y, weights, names, response if isinstance(response, str) else "y")


@contextmanager
def named_columns(X: Any) -> Iterator[None]:
    """Where a table is refused because of what a column holds, say which and where."""
    try:
        yield
    except (TypeError, ValueError):
        names = list(getattr(X, "columns", ()))
        double = [name for name, count in Counter(names).items() if count > 1]
        if double:
            raise InputError(
                f"X must have a name of its own for each column, got {double[0]!r} more than once"
            ) from None
        for name in names:
            cells = np.asarray(X[name])
            row = _first_without_number(cells)
            if row is not None:
                raise InputError(
                    f"X must hold numbers, got {cells[row]!r} in row {row} of column {name!r}"
                ) from None
        raise


def _first_without_number(cells: Any) -> int | None:
    """Return the place of the first cell that cannot be read as a number, None without any."""
    if cells.dtype.kind not in "OSUT":
        return None if cells.dtype.kind in "biuf" or not len(cells) else 0
    for row, cell in enumerate(cells.tolist()):
        try:
            float(0.0 if cell is None else cell)
        except (TypeError, ValueError):
            return row
    return None


def input_names(model: Any) -> tuple[str, ...]:
    """Return the columns' names as the user gave them, x0, x1, ... without."""
    given = getattr(model, "feature_names_in_", None)
    if given is None:
        return tuple(f"x{i}" for i in range(model.n_features_in_))
    return tuple(str(name) for name in given)


def check_finite(X: Array, names: tuple[str, ...]) -> None:
    """Refuse NaN and infinities, and say where the first one stands."""
    # A sum is not finite when an entry is not, and costs no table of flags.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()) or np.isfinite(X).all():
            return
    row, column = (int(a) for a in np.argwhere(~np.isfinite(X))[0])
    raise InputError(
        f"X must have neither NaN nor inf, got {X[row, column]} in row {row} of column "
        f"{names[column]!r}"
    )


def check_powers(X: Array, degree: int, names: tuple[str, ...]) -> None:
    """Refuse inputs whose powers, or the coefficients they lead to, leave the floats."""
    peaks = np.maximum(X.max(axis=0), -X.min(axis=0))
    limit = LARGEST ** (1.0 / degree)
    for name, peak in zip(names, peaks.tolist(), strict=True):
        if peak and not 1.0 / limit <= peak <= limit:
            raise InputError(
                f"X must have powers up to degree={degree} within {1 / LARGEST:g} and {LARGEST:g}, "
                f"got column {name!r} with largest absolute value {peak:g}; use other units"
            )


def check_magnitudes(y: Array, total_weight: float) -> None:
    """Refuse responses and weights with which a bound would leave the floats."""
    peak = float(np.abs(y).max())
    if peak and not 1.0 / LARGEST_RESPONSE <= peak <= LARGEST_RESPONSE:
        raise InputError(
            f"y must lie within {1 / LARGEST_RESPONSE:g} and {LARGEST_RESPONSE:g}, got the largest "
            f"absolute value {peak:g}; use other units"
        )
    if not 1.0 / LARGEST_WEIGHT <= total_weight <= LARGEST_WEIGHT:
        raise InputError(
            f"sample_weight must have a sum within {1 / LARGEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, "
            f"got {total_weight:g}"
        )


def _weighted(X: Array, y: Array, sample_weight: Any) -> tuple[Array, Array, Array]:
    """Check the weights and leave out the rows that count for nothing."""
    given = np.asarray(sample_weight)
    # Ours before scikit-learn's, whose wording for these two differs between versions.
    if given.dtype.kind in "biuf" and given.size and not np.any(given):
        raise InputError("sample_weight must have a positive value, got only zeros")
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if weights.min() < 0:
        raise InputError(f"sample_weight must not be negative, got {weights.min():g}")
    used = weights > 0
    if int(used.sum()) < 2:
        raise InputError("sample_weight must be positive for at least 2 rows, got 1 row")
    return (X, y, weights) if used.all() else (X[used], y[used], weights[used])
