"""The verdict on a proof.

A proof holds when the model is allowed and costs no more than is stated, and when its tree shows
that no support costs less than the bound (``walk``).  Every value is rounded downwards by what
rounding can add at worst, and the least of them is the bound that is proved; there is no tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from html import escape
from math import nan
from typing import Any

import numpy as np

from polysharp.checker.allowed import Rejected, check_statement, demand
from polysharp.checker.checked_rows import read_rows
from polysharp.checker.evidence import ProofError, ProofRecord, all_finite
from polysharp.checker.inner_products import InnerProducts
from polysharp.checker.walk import ProofReader


@dataclass(frozen=True)
class Verdict:
    """Whether a proof holds; ``bound`` and ``objective`` are recomputed, never copied.

    Parameters
    ----------
    valid : bool
        Whether the claim of the proof is proved; the truth value of the verdict.
    bound : float
        No allowed polynomial costs less; rounded downwards, 0 if the proof fails.
    objective : float
        The stated model costs no more; NaN if that was not reached.
    reason : str
        The first thing that is wrong, and where.
    excepted : int
        Number of polynomials, named one by one in the proof, that the bound leaves out.
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
    proof: Any,
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
    proof : fitted model or proof
        A model whose search has left a proof, ``model.solution_.proof`` itself, or a proof read by
        ``Proof.load(path)``.
    X, y, sample_weight
        The rows that were given to ``fit``; y is a table if there are several responses.
    exact : bool, default=False
        Evaluate in exact integers (needs python-flint, the extra ``exact``) instead of floats
        with worst-case bounds on rounding: slower, and sharper by many digits.  Floats are taken
        for the binary fractions they are; a table of texts or of ``decimal.Decimal`` for the
        decimals that stand there.  Several responses are the floats that dividing them by their
        scales gives.
    functions : mapping from names to callables, or None
        Functions of inputs that the statement names, if they are not known by name.

    Returns
    -------
    Verdict
        True or false as it stands; ``reason`` names the first thing that is wrong and where.
    """
    given = proof
    proof = getattr(getattr(proof, "solution_", proof), "proof", proof)
    if not hasattr(proof, "statement"):
        raise ProofError(
            "proof must be a fitted model with a proof, the proof that model.solution_.proof holds "
            "after a search by the tree engine, or one that Proof.load reads, got "
            f"{type(given).__name__}"
        )
    objective = nan
    try:
        with np.errstate(all="ignore"):  # a number that overflows is not finite, and is refused
            demand(all_finite(proof), "it has a number that is none, or infinite")
            check_statement(proof.statement)
            reader = make_reader(proof, (X, y, sample_weight), exact, functions or {})
            objective = reader.objective()
            bound = reader.least()
    except Rejected as failure:
        return Verdict(False, 0.0, objective, str(failure))
    except OverflowError:  # of integers, which become floats in the end
        return Verdict(False, 0.0, objective, "its numbers leave the floats")
    excepted = len(proof.exceptions)
    return Verdict(True, bound if excepted else min(bound, objective), objective, "", excepted)


def make_reader(
    proof: ProofRecord, table: tuple[Any, Any, Any], exact: bool, functions: Mapping[str, Any]
) -> ProofReader:
    """Return a reader of a proof about a table, in floats or exactly."""
    s = proof.statement
    assert s is not None  # check_statement has refused that
    demand(s.listed or not s.responses, "it has several responses and monomials without a list")
    demand(not (s.responses and s.exact_size), "it has several responses and an exact size")
    demand(not (s.responses and proof.exceptions), "it has several responses and exceptions")
    demand(s.listed or not proof.exceptions, "it has exceptions, and monomials without a list")
    demand(s.listed or not exact, "monomials without a list are priced in floats only")
    rows = read_rows(s, *table, functions)
    if not exact:
        return ProofReader(proof, s, InnerProducts(s, rows, s.monomials))
    from polysharp.checker.rational import Exact

    products = Exact(s, rows, s.monomials, table)
    reader = ProofReader(proof, s, products)
    products.learn([reader.vectors(vector) for vector in proof.vectors])
    return reader
