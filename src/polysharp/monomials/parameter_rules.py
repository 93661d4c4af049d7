"""From the parameters of an estimator to the rules about terms, in the user's names.

An estimator has the rules as parameters: budgets, required and excluded terms and inputs, heredity,
bounds on coefficients, functions of inputs, and units with the constants that terms may need.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from polysharp.data.functions import read_functions
from polysharp.data.rows import Ranges
from polysharp.errors import InputError, TooLargeError
from polysharp.monomials.coefficient_bounds import read_bounds
from polysharp.monomials.term_rules import TermRules
from polysharp.monomials.terms import read_inputs, read_terms, write_term
from polysharp.monomials.units import Units

MAX_CHECKED = 8192  # monomials whose units are checked one by one, with pint: a few seconds


def read_rules(
    parameters: dict[str, Any], names: tuple[str, ...], ranges: Ranges | None = None
) -> TermRules:
    """Read the rules from an estimator's parameters; raise InputError if two contradict each other.

    With ``ranges``, inputs of two values occur at most once in a term: if x is a or b, then
    x^2 = (a + b) x - a b.  An input with a power in ``include_terms`` is exempt.
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
        raise InputError(f"exclude_inputs must leave at least one input, got all {len(names)}")
    rules.check(names)
    if parameters.get("constants") is not None:
        return _consistent(rules, parameters, names)
    return rules


def _consistent(rules: TermRules, parameters: dict[str, Any], names: tuple[str, ...]) -> TermRules:
    """Exclude the terms whose coefficients need a constant that the user does not name."""
    inputs, constants = rules.allowed(len(names)), parameters["constants"]
    if parameters["units"] is None or isinstance(constants, str):
        raise InputError(
            f"constants must be a list of units, beside units of the inputs, got {constants!r}"
        )
    if rules.count(len(inputs)) > MAX_CHECKED:
        raise TooLargeError(
            f"constants must be None with more than {MAX_CHECKED:,} monomials, got "
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
