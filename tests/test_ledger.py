"""Supports on disk: each one once, the cheapest first, and none of them held in memory."""

from __future__ import annotations

import sqlite3
import tracemalloc
from typing import Any

import numpy as np
import pytest
from support import FRESH, Ledger


def filled(ledger: Ledger, count: int, places: int, seed: int = 0) -> dict[tuple[int, ...], float]:
    """Enter random supports, many of them more than once; return what is in it."""
    rng, known = np.random.default_rng(seed), dict[tuple[int, ...], float]()
    for support in rng.integers(0, places, (count, ledger.size)):
        S = np.sort(support)
        cost = known.setdefault(tuple(S.tolist()), float(rng.integers(0, 50)) / 7.0)
        ledger.add(S, cost)
    return known


@pytest.mark.parametrize("count", [10, 3 * FRESH + 7])
def test_every_support_is_there_once_and_the_cheapest_come_first(count: int) -> None:
    with Ledger(3) as ledger:
        known = filled(ledger, count, 70_000 if count == 10 else 300)
        order = sorted(known, key=lambda S: (known[S], S))
        some = [S for S in order if known[S] <= 4.0]
        assert (ledger.count(), ledger.count(4.0)) == (len(known), len(some))
        blocks = list(ledger.blocks(4.0, rows=1000))
        assert [tuple(S) for part, _ in blocks for S in part.tolist()] == some
        assert [cost for _, part in blocks for cost in part.tolist()] == [known[S] for S in some]
        [(first, costs)] = ledger.blocks(most=3)
        assert ([tuple(S) for S in first.tolist()], len(costs)) == (order[:3], 3)
        ledger.add(np.array([1, 2, 70_000]), -1.0)  # after it was read
        assert next(ledger.blocks())[0][0].tolist() == [1, 2, 70_000]


def test_memory_does_not_grow_with_their_number() -> None:
    peaks = []
    for count in (2 * FRESH, 10 * FRESH):
        supports = np.sort(np.random.default_rng(0).integers(0, 999, (count, 5)), axis=1)
        with Ledger(5) as ledger:
            tracemalloc.start()
            for support in supports:
                ledger.add(support, 1.0)
            seen = sum(len(costs) for _, costs in ledger.blocks())
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert seen > 0.9 * count
    assert peaks[1] < 1.2 * peaks[0]


def test_an_empty_support_can_be_entered() -> None:
    with Ledger(0) as ledger:
        ledger.add(np.zeros(0, dtype=np.intp), 2.0)
        [(supports, costs)] = ledger.blocks()
    assert (supports.shape, costs.tolist()) == ((1, 0), [2.0])


def test_a_full_disk_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def execute(self, *_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        executemany = execute

        def close(self) -> None:
            pass

    with Ledger(1) as ledger:
        ledger._file.close()
        monkeypatch.setattr(ledger, "_file", Full())
        with pytest.raises(OSError, match="TMPDIR: database or disk is full"):
            ledger.count()
