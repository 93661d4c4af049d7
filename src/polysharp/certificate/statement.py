"""What a proof is about: the data's preparation, the monomials, the rules and the model.

A statement is complete: from it and the rows alone, the monomials can be listed, the moments
computed and every rule checked, with nothing from the search that made the proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polysharp.certificate.solution import Solution
    from polysharp.monomials.basis import Basis
    from polysharp.monomials.scaling import Scaling
    from polysharp.monomials.structure import Heredity, Structure
    from polysharp.monomials.term_rules import TermRules
    from polysharp.typing import Array, Monomial


@dataclass(frozen=True, eq=False)
class Statement:
    """Among all polynomials of this kind, none has a lower objective on these data than the bound.

    The kind: monomials of degree at most ``degree`` in ``kept_inputs``, with at most
    ``max_interaction`` distinct inputs, of degree at most ``interaction_degree`` where they have
    two inputs or more, the constant only without a free intercept, without ``excluded_terms``,
    and without those that can never meet the heredity.  ``monomials`` lists them: positions in
    that list name them in the proof, as positions in ``kept_inputs`` name inputs there.

    Columns are prod_{i in m} (x_i - shift_i) / scale_i times the scale of the monomial
    (sqrt of the number of orderings of m padded to ``degree``), centred by their weighted means
    when the intercept is free, rows weighted by the sample weights.
    """

    n_inputs: int  # of the table given to fit
    degree: int
    kept_inputs: tuple[int, ...]  # of that table, ascending
    max_interaction: int
    interaction_degree: int
    excluded_terms: tuple[Monomial, ...]
    monomials: tuple[Monomial, ...]  # in inputs of that table
    shift: Array  # (n_inputs,)
    scale: Array  # (n_inputs,)
    fit_intercept: bool
    gamma: float
    max_terms: int
    max_inputs: int
    required_terms: tuple[Monomial, ...]
    required_inputs: tuple[int, ...]
    heredity: Heredity
    support: tuple[Monomial, ...]  # of the model found
    objective: float

    def __str__(self) -> str:
        rules = {
            f"{len(self.excluded_terms)} excluded terms": bool(self.excluded_terms),
            f"{len(self.required_terms)} required terms": bool(self.required_terms),
            f"{len(self.required_inputs)} required inputs": bool(self.required_inputs),
            f"{self.heredity} heredity": self.heredity is not None,
        }
        return ", ".join(
            [
                f"polynomials of degree {self.degree} with at most {self.max_terms} of "
                f"{len(self.monomials)} monomials and at most {self.max_inputs} of "
                f"{len(self.kept_inputs)} inputs (of {self.n_inputs} given), "
                f"{'free intercept' if self.fit_intercept else 'no intercept'}, "
                f"gamma {self.gamma:.6g}",
                *(rule for rule, applies in rules.items() if applies),
            ]
        )

    @classmethod
    def of(
        cls,
        rules: TermRules,
        basis: Basis,
        structure: Structure,
        scaling: Scaling,
        solution: Solution,
    ) -> Statement:
        """State what a solution over ``basis`` claims, in the inputs of the user's table."""
        return cls(
            n_inputs=len(scaling.shift),
            degree=rules.degree,
            kept_inputs=tuple(basis.inputs),
            max_interaction=rules.most_inputs,
            interaction_degree=rules.mixed_degree,
            excluded_terms=rules.exclude_terms,
            monomials=basis.monomials,
            shift=scaling.shift,
            scale=scaling.unit,
            fit_intercept=not rules.constant,
            gamma=solution.gamma,
            max_terms=structure.max_terms,
            max_inputs=structure.max_inputs,
            required_terms=rules.include_terms,
            required_inputs=rules.include_inputs,
            heredity=rules.heredity,
            support=tuple(basis.monomials[j] for j in solution.support),
            objective=solution.objective,
        )


def with_statement(
    solution: Solution,
    rules: TermRules,
    basis: Basis,
    structure: Structure,
    scaling: Scaling,
) -> Solution:
    """Return the solution with its proof, if it has one, made complete."""
    if solution.proof is None:
        return solution
    statement = Statement.of(rules, basis, structure, scaling, solution)
    return replace(solution, proof=solution.proof.about(statement))
