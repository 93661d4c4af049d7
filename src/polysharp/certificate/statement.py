"""Stating what a solution claims, in the inputs of the user's table (``checker.evidence``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polysharp.certificate.proof import CLAIM_ROOM, Proof
from polysharp.certificate.solution import Solution
from polysharp.checker.evidence import Intervals, Statement
from polysharp.data.rows import Rows
from polysharp.monomials.basis import Basis, Scaling
from polysharp.monomials.structure import Structure
from polysharp.monomials.term_rules import TermRules

WORTHLESS = 1e-12  # share of the objective below which a bound says nothing but "not negative"


def state(
    solution: Solution,
    rules: TermRules,
    basis: Basis,
    structure: Structure,
    scaling: Scaling,
    table: Rows,
) -> Statement:
    """State what a solution over ``basis`` claims."""
    named = None if solution.proof is None else solution.proof.monomials
    inputs = basis.inputs if named is None else rules.allowed(len(table.names)).tolist()
    max_inputs = min(rules.max_inputs or len(inputs), len(inputs))
    bounds = rules.coefficients
    return Statement(
        names=tuple(table.names),
        response=table.response,
        total_weight=table.total_weight,
        degree=rules.degree,
        kept_inputs=tuple(inputs),
        max_interaction=rules.most_inputs,
        interaction_degree=rules.mixed_degree,
        excluded_terms=rules.exclude_terms,
        monomials=basis.monomials if named is None else named,
        listed=named is None,
        functions=tuple((a.input, a.function.name) for a in basis.library.applied),
        shift=scaling.shift,
        scale=scaling.unit,
        fit_intercept=not rules.constant,
        gamma=solution.gamma,
        refit_gamma=None if solution.refit is None else solution.refit.gamma,
        max_terms=structure.max_terms if named is None else rules.max_terms,
        max_inputs=structure.max_inputs if named is None else max_inputs,
        required_terms=rules.include_terms,
        required_inputs=rules.include_inputs,
        heredity=rules.heredity,
        two_valued=tuple(i for i in inputs if i in rules.two_valued),
        support=tuple(basis.monomials[j] for j in solution.support),
        objective=solution.objective * (1.0 + CLAIM_ROOM),
        exact_size=structure.exact_size,
        coefficients=Intervals(bounds.everywhere, bounds.inputs, bounds.terms),
    )


def with_statement(solution: Solution, *fit: Any) -> Solution:
    """Return the solution with its proof, if it has one, about the same as ``state``."""
    if solution.proof is None:
        return solution
    statement = state(solution, *fit)
    proof = solution.proof.about(statement)
    if proof.bound < WORTHLESS * statement.objective:
        proof = replace(proof, bound=0.0)
    return replace(solution, proof=proof)


def terms_proof(proof: Proof, model: Any) -> Proof:
    """Return a proof with a fitted model's own terms and ridges in its statement.

    The checker computes anew what these terms cost at the ridge that chose them, and compares it
    with the model's objective.
    """
    solution = model.solution_
    assert proof.statement is not None
    statement = replace(
        proof.statement,
        support=tuple(model.polynomial_.monomials),
        objective=solution.objective * (1.0 + CLAIM_ROOM),
        refit_gamma=None if solution.refit is None else solution.refit.gamma,
    )
    return replace(proof, statement=statement)
