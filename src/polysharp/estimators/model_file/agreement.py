"""Whether a formula, its certificate and the settings can belong to one fit.

A certificate says "no polynomial that obeys these rules costs less than the bound"; it says nothing
about a formula that breaks the rules, or with a tolerance that nobody given for.  So a model file
must agree with itself:

    terms          within degree and budgets, of kept inputs, as include, exclude and heredity say
    coefficients   one in the scaled basis for each term
    gamma, gap_tol those of the settings
    scope          "all-inputs" only where no input was left out by the triage

Whether the numbers are right only the data can tell: ``polysharp.verify`` asks them.
"""

from __future__ import annotations

from itertools import chain
from math import isclose

import numpy as np

from polysharp.errors import InputError
from polysharp.estimators.model import formulas_of
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.monomials.parameter_rules import read_rules
from polysharp.monomials.structure import inherits
from polysharp.monomials.term_rules import TermRules
from polysharp.typing import Monomial


def check_agreement(model: SparsePolynomialRegressor) -> None:
    """Raise InputError for the first thing that cannot come from one fit."""
    polynomial, *others = formulas_of(model)
    solution = model.solution_
    _demand(
        all(formula.monomials == polynomial.monomials for formula in others),
        "responses must have the same terms, and do not",
    )
    rules = read_rules(model.get_params(deep=False), polynomial.names)
    _demand(
        rules.library == polynomial.library,
        "functions must be those that the parameters ask for, and are not",
    )
    kept = {int(i) for i in model.kept_inputs_}
    _check_terms(polynomial.monomials, rules, kept)
    for formula in (polynomial, *others):
        within = rules.coefficients.kept(formula.monomials, formula.coefficients)
        _demand(
            np.array_equal(within, formula.coefficients),
            "terms must have coefficients within coefficient_bounds and positive, and do not",
        )
    count = len(polynomial)
    _demand(
        len(set(solution.support)) == solution.coefficients.shape[-1] == count,
        f"certificate.support and scaled_coefficients must have one value for each of {count} terms"
        f", got {len(set(solution.support))} and {solution.coefficients.shape[-1]}",
    )
    for name, given in (("gamma", model.gamma), ("gap_tol", model.gap_tol)):
        stated = float(getattr(solution, name))
        _demand(
            # gamma comes back as 1 / (1 / gamma)
            given == "auto" or isclose(stated, float(given), rel_tol=1e-12),
            f"certificate.{name} must be that of the parameters, {given!r}, got {stated!r}",
        )
    _demand(solution.gamma > 0.0, f"certificate.gamma must be positive, got {solution.gamma!r}")
    allowed = set(range(len(polynomial.names))) - set(rules.exclude_inputs)
    _demand(
        solution.scope != "all-inputs" or kept == allowed,
        "certificate.scope must be 'kept-inputs' where kept_inputs are not all that are allowed, "
        f"got {solution.scope!r}",
    )


def _check_terms(terms: tuple[Monomial, ...], rules: TermRules, kept: set[int]) -> None:
    """Check the terms one by one, then all together."""
    chosen = {tuple(sorted(m)) for m in terms}
    for m in chosen:
        _demand(
            rules.shape_allows(m) and (rules.constant or bool(m)) and m not in rules.exclude_terms,
            f"terms must be those that the parameters allow, got {m}",
        )
        _demand(rules.library.inputs_of(m) <= kept, f"terms must use kept_inputs alone, got {m}")
        _demand(
            inherits(m, rules.heredity, chosen.__contains__),
            f"terms must meet heredity={rules.heredity!r}, got {m} without its parents",
        )
    inputs = rules.library.inputs_of(chain.from_iterable(chosen))
    limit = len(inputs) if rules.max_inputs is None else rules.max_inputs
    _demand(
        len(chosen) <= rules.max_terms and len(inputs) <= limit,
        f"terms must keep to max_terms={rules.max_terms} and max_inputs={rules.max_inputs}, "
        f"got {len(chosen)} terms in {len(inputs)} inputs",
    )
    _demand(
        chosen.issuperset(rules.include_terms) and inputs.issuperset(rules.include_inputs),
        "terms must hold include_terms and include_inputs of the parameters, and do not",
    )


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise InputError(otherwise)
