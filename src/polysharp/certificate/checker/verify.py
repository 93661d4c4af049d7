"""A checker of proofs that shares no code with the search: plain NumPy, and the records alone.

It recomputes monomials and rules (``rules``), columns (``rows``) and moments (``moments``) from the
statement and the table, goes through the tree from its root (``reader``), deduces after every
fixing what the rules force, and evaluates a lower bound wherever the proof relies on one
(``bounds``, ``ends``, ``pricing``).  A proof holds when

    - the model is allowed, and costs no more than is stated,
    - every split is covered by its children: with chain c_1..c_m, either some c_a is the first
      one out, or all are in; with sets of inputs, every set that fills the budget is a child, or
      the ridge regression on all of its monomials costs at least the bound,
    - everything that screening fixes, and every leaf, costs at least the bound, except supports
      that the claim leaves out by name.

Every value is rounded downwards by what rounding can add at worst, and the least of them is what
is proved; there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from math import inf, isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.certificate.checker.boxes import check_intervals
from polysharp.certificate.checker.exact import Exact, read_table
from polysharp.certificate.checker.moments import CheckedMoments as Moments
from polysharp.certificate.checker.pricing import PricedReader
from polysharp.certificate.checker.reader import ProofPart, ProofReader
from polysharp.certificate.checker.rows import Columns, read_rows
from polysharp.certificate.checker.rules import Rejected, Rules, check_statement, demand
from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.certificate.proof import Proof
    from polysharp.certificate.statement import Statement


@dataclass(frozen=True)
class Verdict:
    """Whether a proof holds; ``bound`` and ``objective`` are recomputed, never copied.

    Parameters
    ----------
    valid : bool
        Whether the claim of the proof is proved; the truth value of the verdict.
    bound : float
        What no allowed polynomial can go below, rounded downwards; 0 where the proof fails.
    objective : float
        What the stated model costs at most; NaN where that was not reached.
    reason : str
        The first thing that is wrong, and where.
    excepted : int
        How many polynomials, named one by one in the proof, the bound does not speak of.
    """

    valid: bool
    bound: float
    objective: float
    reason: str = ""
    excepted: int = 0

    def __bool__(self) -> bool:
        return self.valid

    def __str__(self) -> str:
        if not self.valid:
            return f"rejected: {self.reason}"
        # Rounded to the safe side: 9 digits of a bound may be more than the bound.
        down, up = Context(prec=9, rounding=ROUND_FLOOR), Context(prec=9, rounding=ROUND_CEILING)
        bound = float(down.create_decimal_from_float(self.bound))
        objective = float(up.create_decimal_from_float(self.objective))
        but = f", but for the {self.excepted} that it names," if self.excepted else ""
        return (
            f"valid: the model costs at most {objective:.9g}, and no polynomial of the kind stated"
            f"{but} costs less than {bound:.9g}"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(str(self))}</p>"


def verify(
    proof: Proof,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    exact: bool = False,
    functions: Mapping[str, Any] | None = None,
) -> Verdict:
    """Check a proof against the data it speaks of.

    Parameters
    ----------
    proof : Proof
        ``model.solution_.proof``, or one read by ``Proof.load(path)``.
    X, y, sample_weight
        The rows that were given to ``fit``; of several responses y is a table.
    exact : bool, default=False
        Evaluate in exact integers (needs python-flint, the extra ``exact``) instead of floats
        with worst-case bounds on rounding: slower, and sharper by many digits.  Floats are taken
        for the binary fractions they are; a table of texts or of ``decimal.Decimal`` for the
        decimals that stand there.  Several responses are the floats that dividing them by their
        scales gives.
    functions : mapping from names to callables, or None
        Functions of inputs that the statement names, where they are not those known by name.

    Returns
    -------
    Verdict
        True or false as it stands; ``reason`` names the first thing that is wrong and where.
    """
    if not hasattr(proof, "statement"):
        raise InputError(
            "proof must be what model.solution_.proof holds after a search by the tree engine, or "
            f"what Proof.load reads, got {type(proof).__name__}"
        )
    objective = nan
    try:
        with np.errstate(all="ignore"):  # what overflows is not finite, and is refused as such
            statement = proof.statement
            if statement is None:
                raise Rejected("the proof has no statement")
            check_statement(statement)
            check_intervals(statement)
            reader = _reader(proof, statement, (X, y, sample_weight), exact, functions or {})
            objective = _objective(statement, reader)
            bound = _least(proof, ProofPart(0, reader.rules.root(), reader))
    except Rejected as failure:
        return Verdict(False, 0.0, objective, str(failure))
    except OverflowError:  # of integers, which become floats in the end
        return Verdict(False, 0.0, objective, "its numbers leave the floats")
    excepted = len(proof.exceptions)
    return Verdict(True, bound if excepted else min(bound, objective), objective, "", excepted)


def _reader(
    proof: Proof,
    s: Statement,
    given: tuple[Any, Any, Any],
    exact: bool,
    functions: Mapping[str, Any],
) -> ProofReader:
    """Return what reads a proof of this kind: of one response or several, listed or priced."""
    X, y, weight = given
    rules, terms, responses = Rules(s), s.monomials, [(y, 1.0)]
    if s.responses:
        demand(s.listed, "it has several responses and monomials that are not listed")
        demand(not s.exact_size, "it has several responses and an exact size")
        demand(not proof.exceptions, "it has several responses and exceptions")
        Y, count = np.asarray(y, dtype=np.float64), len(s.responses)
        demand(Y.ndim == 2 and Y.shape[1] == count, f"y is no table of {count} responses")
        named = all(isfinite(scale) and scale > 0.0 for _, scale in s.responses)
        demand(named, "a response has no scale")
        responses = [(y / unit, unit) for y, (_, unit) in zip(Y.T, s.responses, strict=True)]
    if not s.listed:
        demand(not exact, "monomials that are not listed are priced in floats only")
        demand(not proof.exceptions, "it has exceptions, and monomials that are not listed")
        rows = read_rows(s, X, y, weight, functions)
        return PricedReader(proof, rules, Columns(s, rows, terms))
    every: list[Moments] = []
    for y, unit in responses:
        rows = read_rows(s, X, y, weight, functions, unit)
        own = Exact(s, rows, terms, read_table(X, y, weight)) if exact else Moments(s, rows, terms)
        own.G = every[0].G if every else own.G  # one matrix is within the errors of all
        every.append(own)
    reader = ProofReader(proof, rules, every)
    known = [reader.vectors(vector) for vector in proof.vectors] if exact else []
    for t, own in enumerate(every):
        if isinstance(own, Exact):
            own.learn(parts[t] for parts in known)
    return reader


def _objective(s: Statement, reader: ProofReader) -> float:
    """Return what the model costs at most; it must be allowed, and cost no more than stated."""
    place = {term: j for j, term in enumerate(s.monomials)}
    demand(set(s.support) <= place.keys(), "the model has a term that is no candidate")
    S = np.array(sorted({place[term] for term in s.support}), dtype=np.intp)
    demand(len(S) == len(s.support) and reader.rules.allows(S), "the model breaks the rules")
    value = reader.cost_at_most(S)
    demand(value <= s.objective, f"the model costs {value:.12g}, more than stated")
    return value


def _least(proof: Proof, root: ProofPart) -> float:
    """Check every node; return the least cost that the proof leaves possible."""
    nodes, claim = proof.nodes, proof.bound
    demand(isfinite(claim), "the bound is not a number")
    demand(len(nodes) > 0, "the proof has no nodes")
    least, seen, stack = inf, {0}, [root]
    while stack:
        part = stack.pop()
        try:
            value, children = part.reader.visit(nodes[part.number], part.at, claim)
            demand(value >= claim, f"proves {value:.12g}, less than the bound {claim:.12g}")
            for child in children:
                demand(0 < child.number < len(nodes), f"child {child.number} does not exist")
                demand(child.number not in seen, f"child {child.number} is used twice")
                seen.add(child.number)
        except Rejected as failure:
            raise Rejected(f"node {part.number}: {failure}") from None
        least = min(least, value)
        stack += children
    demand(len(seen) == len(nodes), "some nodes are not part of the tree")
    return max(0.0, least)
