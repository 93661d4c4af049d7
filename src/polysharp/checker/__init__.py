"""The checker of proofs: NumPy and the standard library only, and nothing of the search.

Read the files in this order:

    evidence       the records of a proof: statement, tree, and the four kinds of evidence in it
    archive        proofs as files
    allowed        which monomials and supports the rules allow, and what follows from fixings
    curvature      the value of a vector in parts, and what may be moved from G into the ridge
    checked_rows   the columns at the rows, with worst-case bounds on their rounding
    inner_products G, q and y'y on demand, in floats or in exact integers
    inequalities   the lower bounds themselves, rounded downwards
    all_supports   leaves whose supports, or sets of inputs, are gone through one by one
    unlisted       prices of monomials that nobody has listed, from their products with a vector,
                   or as points if one or two of them may join
    walk           ``verify``: one node after the other
"""

from polysharp.checker.archive import read_proof
from polysharp.checker.evidence import (
    Diagonal,
    Intervals,
    Pairs,
    ProofError,
    ProofNode,
    ProofRecord,
    Screening,
    Statement,
    Vector,
)
from polysharp.checker.walk import Verdict, verify

__all__ = [
    "Diagonal",
    "Intervals",
    "Pairs",
    "ProofError",
    "ProofNode",
    "ProofRecord",
    "Screening",
    "Statement",
    "Vector",
    "Verdict",
    "read_proof",
    "verify",
]
