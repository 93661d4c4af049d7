"""The door for parameters: they are checked here, by the rules of ``parameter_table``.

Every refusal is one sentence with the parameter, the rule and the value received.  Budgets
larger than what exists (k > p, l > f, p' > p) are no error: "at most" stays true.

The search over budgets and ``path`` take one value or several where an estimator takes one:
``several`` makes a tuple of them, ``check_several`` asks of each what the estimator asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from polysharp.errors import InputError
from polysharp.estimators.parameter_table import LASSO, ValueRule, rules_of

RULES = rules_of()
LASSO_RULES = RULES | rules_of(LASSO)


def check_parameters(parameters: dict[str, Any], rules: dict[str, ValueRule] = RULES) -> None:
    """Raise InputError for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        if name in parameters and not rule.holds(parameters[name]):
            raise InputError(f"{name} must be {rule.words}, got {_shown(parameters[name])}")


def _shown(value: Any) -> str:
    """Write a value for a message; integers of very many digits are not written out."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of about {int(value.bit_length() * log10(2)) + 1} digits"
    return repr(value)


def several(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    if given is None or isinstance(given, str) or not isinstance(given, (Sequence, np.ndarray)):
        return (given,)
    return tuple(given)


def check_several(name: str, given: Any, *, auto: bool = False) -> None:
    """Refuse what an estimator would not take as its parameter ``name``, value by value.

    With ``auto`` the word "auto" is taken, too.
    """
    rule = RULES[name]
    values = several(given)
    if auto and values == ("auto",):
        return
    if not values:
        raise InputError(f"{name} must have at least one value, got {given!r}")
    for value in values:
        if not rule.holds(value):
            raise InputError(
                f"{name} must be {rule.words}, or a sequence of such, got {_shown(value)}"
            )
        if isinstance(value, str) and len(values) > 1:
            raise InputError(f"{name} must not mix {value!r} with numbers, got {given!r}")


def sizes(max_terms: Any) -> tuple[int, ...]:
    """Return the numbers of terms to compare: all up to a number, or those of a sequence."""
    if isinstance(max_terms, (int, np.integer)):
        return tuple(range(1, int(max_terms) + 1))
    return tuple(sorted({int(size) for size in max_terms}))


def input_limits(max_inputs: Any) -> tuple[int | None, ...]:
    """Return the limits on the number of inputs to compare, the widest first."""
    limits = {None if k is None else int(k) for k in several(max_inputs)}
    return tuple(sorted(limits, key=lambda k: -np.inf if k is None else -k))


def check_seed(random_state: Any) -> int:
    """Draw a seed from what scikit-learn accepts as ``random_state``, or from a Generator."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))
