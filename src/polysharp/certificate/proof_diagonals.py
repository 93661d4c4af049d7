"""The diagonals of a proof as arrays of a file, and the couplings that they share.

A coupling is listed once: its monomials, their reach, and a number of two bytes for each pair,
32,768 more than the ratio, row by row above the diagonal.  Files of proofs without couplings have
none of these arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index as whole
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.proof import Diagonal
from polysharp.certificate.proof_arrays import (
    MOST_BYTES,
    Numbers,
    Stored,
    cut,
    each,
    end_to_end,
    integers,
    joined,
    listed_once,
)
from polysharp.problem.pairwise_shift import PairwiseMatrix

MIDDLE = 32_768  # what a ratio of zero is stored as


def diagonal_arrays(diagonals: tuple[Diagonal, ...]) -> dict[str, Numbers]:
    """Return diagonals and couplings as arrays."""
    found = {
        **joined("diagonal_index", [d.index for d in diagonals]),
        "diagonal_value": end_to_end([d.value for d in diagonals]),
    }
    couplings, number = listed_once(d.coupling for d in diagonals if d.coupling is not None)
    if not couplings:
        return found
    return {
        **found,
        "diagonal_coupling": integers(number.get(id(d.coupling), -1) for d in diagonals),
        **joined("diagonal_free", [d.free for d in diagonals]),
        "diagonal_terms": integers(d.terms for d in diagonals),
        **joined("coupling_index", [c.index for c in couplings]),
        "coupling_reach": end_to_end([c.reach for c in couplings]),
        "coupling_ratios": np.concatenate([_triangle(c.ratios) for c in couplings]),
    }


def read_diagonals(stored: Stored) -> tuple[Diagonal, ...]:
    """Return the diagonals of a file; those of one coupling share one record of it."""
    columns: list[Iterable[Any]] = [
        stored.lists("diagonal_index"),
        stored.reals("diagonal_value", "diagonal_index"),
    ]
    if "diagonal_coupling" in stored:
        columns += [
            stored.numbered("diagonal_coupling", _couplings(stored), least=-1),
            stored.lists("diagonal_free"),
            map(whole, stored["diagonal_terms"].tolist()),
        ]
    return tuple(each(Diagonal, *columns))


def _couplings(stored: Stored) -> list[PairwiseMatrix]:
    lengths, triangles = stored["coupling_index_length"], stored["coupling_ratios"]
    if sum(2 * size * size for size in map(whole, lengths.tolist())) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    if triangles.dtype != np.uint16 or not triangles.all():
        raise ValueError("a ratio is none")
    index = stored.lists("coupling_index")
    ratios = map(_square, cut(triangles, lengths * (lengths - 1) // 2), map(len, index))
    return each(PairwiseMatrix, index, stored.reals("coupling_reach", "coupling_index"), ratios)


def _triangle(ratios: NDArray[np.int16]) -> NDArray[np.uint16]:
    """Return what stands above the diagonal, row by row."""
    rows = [row[a + 1 :].astype(np.int32) + MIDDLE for a, row in enumerate(ratios)]
    return np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.uint16)


def _square(triangle: Numbers, size: int) -> NDArray[np.int16]:
    """Return a symmetric matrix from what stands above its diagonal; it takes no more than it."""
    ratios, start = np.zeros((size, size), dtype=np.int16), 0
    for a in range(size):
        row = triangle[start : start + size - 1 - a].astype(np.int32) - MIDDLE
        ratios[a, a + 1 :] = ratios[a + 1 :, a] = row
        start += len(row)
    return ratios
