"""The checker's way through completions: whatever gains enough is marked, however it is cut."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from support import Marking, home


def marked(
    H: np.ndarray, B: np.ndarray, T: float, marking: Marking, exact: bool = False
) -> set[tuple[int, ...]]:
    """Return what is marked, as sorted supports, each marked once."""
    found = marking.run(H, B, T, exact_size=exact)
    supports = [tuple(sorted(one)) for sets in found for one in sets.tolist()]
    assert len(supports) == len(set(supports))
    return set(supports)


def gain(H: np.ndarray, B: np.ndarray, S: tuple[int, ...]) -> float:
    """Return twice what a support gains."""
    own = H[np.ix_(S, S)]
    return float(np.einsum("tj,tj->", B[:, S], np.linalg.solve(own, B[:, S].T).T))


def table(
    rng: np.random.Generator, size: int, near: float, responses: int
) -> tuple[np.ndarray, ...]:
    """Return H and B of columns in a few directions, scaled to length one."""
    M = rng.standard_normal((30, 3)) @ rng.standard_normal((3, size))
    M += near * rng.standard_normal((30, size))
    Y = rng.standard_normal((30, responses)) + M[:, :responses]
    G, B = M.T @ M, (M.T @ Y).T
    H = G + 0.1 * near**2 * np.eye(size)
    root = np.sqrt(np.diagonal(H))
    return H / np.multiply.outer(root, root), B / (root * np.sqrt((Y * Y).sum()))


@pytest.mark.parametrize("responses", [1, 3])
@pytest.mark.parametrize("L", [2, 3, 4, 5, 6])
def test_whatever_gains_enough_is_marked(L: int, responses: int, monkeypatch) -> None:
    size = 10
    for seed in range(6):
        rng = np.random.default_rng([seed, L, responses])
        monkeypatch.setattr(home("Marking"), "ENTRIES", int(rng.choice([1, 200, 10**5])))
        H, B = table(rng, size, float(rng.choice([1e-3, 0.1, 1.0])), responses)
        sets = [S for k in range(1, L + 1) for S in combinations(range(size), k)]
        gains = np.array([gain(H, B, S) for S in sets])
        T = float(np.quantile(gains[[len(S) == L for S in sets]], rng.choice([0.0, 0.8, 0.99])))
        uses, room = rng.random((size, 4)) < 0.4, int(rng.integers(1, 5))
        exact = bool(rng.random() < 0.3)
        marking = Marking(L, uses, room, 1e-9)
        short = [exact and len(S) < L for S in sets]
        fits = [uses[list(S)].max(axis=0).sum() <= room for S in sets]
        found = marked(H, B, T, marking, exact)
        for S, own, fit, too_short in zip(sets, gains, fits, short, strict=True):
            may = fit and not too_short
            if own > T * (1.0 + 1e-9) and may:
                assert S in found
            elif own < T * (1.0 - 1e-9) or not may:
                assert S not in found


def test_with_nothing_left_to_gain_all_are_marked() -> None:
    """Though rounding has left a pair of equal columns a negative determinant."""
    H = np.full((4, 4), 1.0 + 1e-12)
    np.fill_diagonal(H, 1.0)
    marking = Marking(2, np.zeros((4, 1), dtype=bool), 1, 0.0)
    assert marked(H, np.full((1, 4), 1e-9), -1.0, marking, True) == set(combinations(range(4), 2))
