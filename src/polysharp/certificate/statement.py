"""What a proof is about: the data's preparation, the monomials, the rules and the model.

A statement is complete: from it and the rows alone, the monomials can be listed, the moments
computed and every rule checked, with nothing from the search that made the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from polysharp.certificate.proof import CLAIM_ROOM
from polysharp.certificate.solution import Solution
from polysharp.data.functions import PLAIN, Library
from polysharp.data.rows import Rows
from polysharp.monomials.basis import Basis
from polysharp.monomials.coefficient_bounds import UNBOUNDED, CoefficientBounds
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.structure import Heredity, Structure
from polysharp.monomials.term_rules import TermRules
from polysharp.monomials.terms import write_term
from polysharp.typing import Array, Monomial

WORTHLESS = 1e-12  # share of the objective below which a bound says nothing but "not negative"


@dataclass(frozen=True, eq=False, kw_only=True)
class Statement:
    """Among all polynomials of this kind, none has a lower objective on these data than the bound.

    The kind: monomials of degree at most ``degree`` in ``kept_inputs``, with at most
    ``max_interaction`` distinct inputs, of degree at most ``interaction_degree`` where they have
    two inputs or more, the constant only without a free intercept, without ``excluded_terms``,
    without powers of inputs in ``two_valued``, and without those that can never meet the heredity;
    ``max_terms`` of them at most, or exactly so many with ``exact_size``.  ``monomials`` lists
    them: positions in that list name them in the proof, as positions in ``kept_inputs`` name inputs
    there.  Where they are too many to list (``listed`` is false), the list has those that the proof
    names, and the claim covers all others as well.

    Factors are the inputs and ``functions`` of them, (input, name), numbered after the inputs and
    computed in double precision from the inputs as they are; a monomial has at most
    ``max_interaction`` distinct inputs, not columns, and neither an input with its own inverse nor
    a square root twice.

    Columns are prod_{i in m} (x_i - shift_i) / scale_i times the scale of the monomial
    (sqrt of the number of orderings of m padded to ``degree``), centred by their weighted means
    when the intercept is free, rows weighted by the sample weights.  Coefficients of the products
    of x_i - shift_i keep to ``coefficients``.
    """

    names: tuple[str, ...]  # of the inputs given to fit
    response: str
    # Of several responses, each divided by its scale: they share their terms, and costs are added.
    responses: tuple[tuple[str, float], ...] = ()
    total_weight: float  # of the rows; their number where there are no weights
    degree: int
    kept_inputs: tuple[int, ...]  # of those given, ascending
    max_interaction: int
    interaction_degree: int
    excluded_terms: tuple[Monomial, ...]
    monomials: tuple[Monomial, ...]  # in the inputs given
    listed: bool = True
    functions: tuple[tuple[int, str], ...] = ()
    shift: Array  # one per input given, then one per function
    scale: Array  # likewise
    fit_intercept: bool
    gamma: float
    max_terms: int
    max_inputs: int
    required_terms: tuple[Monomial, ...]
    required_inputs: tuple[int, ...]
    heredity: Heredity
    two_valued: tuple[int, ...] = ()  # inputs that stand at most once in a term
    support: tuple[Monomial, ...]  # of the model found
    objective: float  # which it does not exceed
    exact_size: bool = False
    coefficients: CoefficientBounds = UNBOUNDED  # of monomials of x - shift

    def __str__(self) -> str:
        """Everything that the claim depends on, line by line."""
        among = f"of {len(self.monomials)} monomials" if self.listed else "monomials"
        size = "exactly" if self.exact_size else "at most"
        response = f"response: {self.response}"
        if self.responses:
            scaled = ", ".join(f"{name} / {scale!r}" for name, scale in self.responses)
            response = f"responses, with the same terms and their costs added: {scaled}"
        lines = [
            f"{response}, rows of total weight {self.total_weight!r}",
            f"polynomials: degree {self.degree}, {size} {self.max_terms} {among} in at most "
            f"{self.max_inputs} of {len(self.kept_inputs)} inputs ({len(self.names)} were given)",
            f"terms: at most {self.max_interaction} inputs in one, degree at most "
            f"{self.interaction_degree} where there are two or more",
            f"intercept: {'free' if self.fit_intercept else 'none'}",
            f"ridge: gamma {self.gamma!r}, on the coefficients of the scaled monomials",
        ]
        rules = {
            "heredity": self.heredity,
            "excluded terms": self._written(self.excluded_terms),
            "required terms": self._written(self.required_terms),
            "required inputs": ", ".join(self.names[i] for i in self.required_inputs),
            "two-valued inputs, at most once in a term": ", ".join(
                self.names[i] for i in self.two_valued
            ),
            "coefficients": replace(self.coefficients, library=self._library).written(
                self._columns
            ),
        }
        lines += [f"{name}: {rule}" for name, rule in rules.items() if rule]
        lines += [
            f"input {self.names[i]}: ({self.names[i]} - {float(self.shift[i])!r})"
            f" / {float(self.scale[i])!r}"
            for i in self.kept_inputs
        ]
        lines += [
            f"function: {name} of {self.names[i]} / {float(self.scale[len(self.names) + t])!r}"
            for t, (i, name) in enumerate(self.functions)
            if i in self.kept_inputs
        ]
        model = self._written(self.support) or "no term"
        return "\n".join([*lines, f"model: {model}; costs at most {self.objective!r}"])

    def _written(self, terms: Iterable[Monomial]) -> str:
        return ", ".join(write_term(m, self._columns, self._library) for m in terms)

    @property
    def _columns(self) -> list[str]:
        return [*self.names, *(f"{name}({self.names[i]})" for i, name in self.functions)]

    @property
    def _library(self) -> Library:
        return Library(len(self._columns))

    @classmethod
    def of(
        cls,
        rules: TermRules,
        basis: Basis,
        structure: Structure,
        scaling: Scaling,
        table: Rows,
        solution: Solution,
    ) -> Statement:
        """State what a solution over ``basis`` claims, in the inputs of the user's table."""
        named = None if solution.proof is None else solution.proof.monomials
        inputs = rules.allowed(len(table.names)).tolist() if named is not None else basis.inputs
        return cls(
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
            max_terms=structure.max_terms if named is None else rules.max_terms,
            max_inputs=structure.max_inputs
            if named is None
            else min(rules.max_inputs or len(inputs), len(inputs)),
            required_terms=rules.include_terms,
            required_inputs=rules.include_inputs,
            heredity=rules.heredity,
            two_valued=tuple(i for i in inputs if i in rules.two_valued),
            support=tuple(basis.monomials[j] for j in solution.support),
            objective=solution.objective * (1.0 + CLAIM_ROOM),
            exact_size=structure.exact_size,
            coefficients=replace(rules.coefficients, unit=(), library=PLAIN),
        )


def with_statement(
    solution: Solution,
    rules: TermRules,
    basis: Basis,
    structure: Structure,
    scaling: Scaling,
    table: Rows,
) -> Solution:
    """Return the solution with its proof, if it has one, made complete."""
    if solution.proof is None:
        return solution
    statement = Statement.of(rules, basis, structure, scaling, table, solution)
    proof = solution.proof.about(statement)
    if proof.bound < WORTHLESS * statement.objective:
        proof = replace(proof, bound=0.0)
    return replace(solution, proof=proof)
