"""The checker of proofs: NumPy and the standard library only, and nothing of the search.

Read the files in this order:

    claim          what a proof is about: table, monomials, rules, model and bound
    evidence       the records of a proof, and the four kinds of evidence in it
    archive        proofs as files
    allowed        which monomials and supports the rules allow, and what follows from fixings
    checked_rows   the columns at the rows, with worst-case bounds on their rounding
    inner_products G, q and y'y on demand; ``rational`` has the same in exact integers
    curvature      what may be moved from G into the ridge
    inequalities   the lower bounds themselves, rounded downwards
    all_supports   leaves whose supports, or sets of inputs, are gone through one by one;
                   ``marking`` finds those that may cost too little
    unlisted       prices of monomials that nobody has listed, from their products with a vector
                   (``priced_products``); ``point_pairs`` has those of which one or two may join
    walk           one node after the other
    verification   ``verify``
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Diagonal": "evidence",
    "Intervals": "claim",
    "Pairs": "evidence",
    "ProofError": "evidence",
    "ProofNode": "evidence",
    "ProofRecord": "evidence",
    "Screening": "evidence",
    "Statement": "claim",
    "Vector": "evidence",
    "Verdict": "verification",
    "read_proof": "archive",
    "verify": "verification",
}
__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'polysharp.checker' has no attribute {name!r}")
    return getattr(import_module(f"polysharp.checker.{_HOMES[name]}"), name)
