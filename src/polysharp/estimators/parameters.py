"""The door for parameters: they are checked here, by the rules of ``parameter_table``.

Every refusal is one sentence with the parameter, the rule and the value received.  Budgets
larger than what exists (k > p, l > f, p' > p) are no error: "at most" stays true.

The search over budgets and ``path`` take one value or several where an estimator takes one:
``several`` makes a tuple of them, ``check_several`` asks of each what the estimator asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log10
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from polysharp.data.functions import read_functions
from polysharp.data.summary import Ranges
from polysharp.errors import InputError, TooLargeError
from polysharp.estimators.parameter_table import LASSO, ValueRule, rules_of
from polysharp.moments.gram import MAX_DENSE
from polysharp.monomials.coefficient_bounds import read_bounds
from polysharp.monomials.term_rules import TermRules
from polysharp.monomials.terms import read_inputs, read_terms, write_term
from polysharp.monomials.units import Units

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


def check_several(name: str, single: str, given: Any, *, auto: bool = False) -> None:
    """Refuse what an estimator would not take as its parameter ``single``, value by value.

    With ``auto`` the word "auto" is taken, too.
    """
    rule = RULES[single]
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


def read_rules(
    parameters: dict[str, Any], names: tuple[str, ...], ranges: Ranges | None = None
) -> TermRules:
    """Read the rules about terms in the user's names; raise where they contradict each other.

    Where the ranges of the inputs are known, those of two values stand at most once in a term: on
    the rows x^2 = (a + b) x - a b where x is a or b, so that a power is another term in disguise.
    An input that the user wants a power of is left alone.
    """

    def number(name: str) -> int | None:
        return None if parameters[name] is None else int(parameters[name])

    library = read_functions(parameters.get("functions"), names)
    include_terms = read_terms(parameters["include_terms"], names, "include_terms", library)
    two_valued: set[int] = set()
    if ranges is not None:
        two_valued = set(np.flatnonzero(ranges.two_valued[: len(names)]).tolist())
    for m in include_terms:
        owners = [library.owner(c) for c in m]
        two_valued -= {i for i in owners if owners.count(i) > 1}
    rules = TermRules(
        degree=int(parameters["degree"]),
        max_terms=int(parameters["max_terms"]),
        max_inputs=number("max_inputs"),
        constant=not parameters["fit_intercept"],
        max_interaction=number("max_interaction"),
        interaction_degree=number("interaction_degree"),
        heredity=parameters["heredity"],
        include_terms=include_terms,
        exclude_terms=read_terms(parameters["exclude_terms"], names, "exclude_terms", library),
        include_inputs=read_inputs(parameters["include_inputs"], names, "include_inputs"),
        exclude_inputs=read_inputs(parameters["exclude_inputs"], names, "exclude_inputs"),
        two_valued=tuple(sorted(two_valued)),
        library=library,
        coefficients=read_bounds(
            parameters.get("coefficient_bounds"), parameters.get("positive", False), names, library
        ),
    )
    if len(rules.exclude_inputs) == len(names):
        raise InputError(f"exclude_inputs must leave some input in, got all {len(names)}")
    rules.check(names)
    if parameters.get("constants") is not None:
        return _consistent(rules, parameters, names)
    return rules


def _consistent(rules: TermRules, parameters: dict[str, Any], names: tuple[str, ...]) -> TermRules:
    """Exclude the terms whose coefficients would need other constants than those allowed."""
    inputs, constants = rules.allowed(len(names)), parameters["constants"]
    if parameters["units"] is None or isinstance(constants, str):
        raise InputError(
            f"constants must be a list of units, beside units of the inputs, got {constants!r}"
        )
    if rules.count(len(inputs)) > MAX_DENSE:
        raise TooLargeError(
            f"constants must be None where there are more than {MAX_DENSE:,} monomials, got "
            f"{rules.count(len(inputs)):,}; exclude inputs or lower the degree"
        )
    units = Units.read(parameters["units"], names, rules.library)
    wrong = units.inconsistent(rules.monomials_of(inputs), constants)
    kept = set(wrong) & set(rules.include_terms)
    if kept:
        shown = write_term(min(kept), names, rules.library)
        raise InputError(
            f"include_terms must be consistent with units and constants, got {shown!r}"
        )
    return replace(rules, exclude_terms=tuple(dict.fromkeys((*rules.exclude_terms, *wrong))))
