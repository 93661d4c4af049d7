"""The diagonals of a proof as arrays of a file, and the couplings that they share.

A coupling is listed once: its monomials, their reach, and one byte for each pair, 128 more than the
ratio, row by row above the diagonal.  Files of proofs without couplings have none of these arrays.
"""

from __future__ import annotations

from operator import index as whole

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.proof import Diagonal
from polysharp.certificate.proof_arrays import (
    MOST_BYTES,
    Numbering,
    Numbers,
    cut,
    end_to_end,
    integers,
    joined,
    lists_of,
    numbered,
)
from polysharp.problem.coupling import Coupling

MIDDLE = 128  # the byte of a ratio of zero


def diagonal_arrays(diagonals: tuple[Diagonal, ...]) -> dict[str, Numbers]:
    """Return diagonals and couplings as arrays."""
    found = {
        **joined("diagonal_index", [d.index for d in diagonals]),
        "diagonal_value": end_to_end([d.value for d in diagonals]),
    }
    if all(d.coupling is None for d in diagonals):
        return found
    couplings = Numbering[Coupling]()
    return {
        **found,
        "diagonal_coupling": integers(couplings.of(d.coupling) for d in diagonals),
        **joined("diagonal_free", [d.free for d in diagonals]),
        "diagonal_terms": integers(d.terms for d in diagonals),
        **joined("coupling_index", [c.index for c in couplings.listed]),
        "coupling_reach": end_to_end([c.reach for c in couplings.listed]),
        "coupling_ratios": np.concatenate([_triangle(c.ratios) for c in couplings.listed]),
    }


def read_diagonals(stored: dict[str, Numbers]) -> tuple[Diagonal, ...]:
    """Return the diagonals of a file; those of one coupling share one record of it."""
    index = lists_of(stored, "diagonal_index")
    values = cut(stored["diagonal_value"], stored["diagonal_index_length"])
    plain = [Diagonal(i, v.astype(np.float64)) for i, v in zip(index, values, strict=True)]
    if "diagonal_coupling" not in stored:
        return tuple(plain)
    couplings = _couplings(stored)
    return tuple(
        Diagonal(d.index, d.value, None if c == -1 else numbered(c, couplings), free, whole(terms))
        for d, c, free, terms in zip(
            plain,
            stored["diagonal_coupling"].tolist(),
            lists_of(stored, "diagonal_free"),
            stored["diagonal_terms"].tolist(),
            strict=True,
        )
    )


def _couplings(stored: dict[str, Numbers]) -> list[Coupling]:
    lengths, triangles = stored["coupling_index_length"], stored["coupling_ratios"]
    if sum(size * size for size in map(whole, lengths.tolist())) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES:,} bytes")
    if triangles.dtype != np.uint8 or not triangles.all():
        raise ValueError("a ratio is none")
    return [
        Coupling(index, reach.astype(np.float64), _square(triangle, len(index)))
        for index, reach, triangle in zip(
            lists_of(stored, "coupling_index"),
            cut(stored["coupling_reach"], lengths),
            cut(triangles, lengths * (lengths - 1) // 2),
            strict=True,
        )
    ]


def _triangle(ratios: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return what stands above the diagonal, row by row."""
    rows = [row[a + 1 :].astype(np.int16) + MIDDLE for a, row in enumerate(ratios)]
    return np.concatenate([np.zeros(0, np.int16), *rows]).astype(np.uint8)


def _square(triangle: Numbers, size: int) -> NDArray[np.int8]:
    """Return a symmetric matrix from what stands above its diagonal; it takes no more than it."""
    ratios, start = np.zeros((size, size), dtype=np.int8), 0
    for a in range(size):
        row = triangle[start : start + size - 1 - a].astype(np.int16) - MIDDLE
        ratios[a, a + 1 :] = ratios[a + 1 :, a] = row
        start += len(row)
    return ratios
