"""The support store: each support once, the cheapest first."""

from __future__ import annotations

import numpy as np
import pytest
from support import FRESH, SupportStore


@pytest.mark.parametrize(("count", "places"), [(10, 70_000), (3 * FRESH + 7, 300)])
def test_every_support_is_there_once_and_the_cheapest_come_first(count: int, places: int) -> None:
    rng, known = np.random.default_rng(0), dict[tuple[int, ...], float]()
    store = SupportStore(3, places)
    for support in np.sort(rng.integers(0, places, (count, 3)), axis=1):
        cost = known.setdefault(tuple(support.tolist()), float(rng.integers(0, 50)) / 7.0)
        store.add(support, cost)
    order = sorted(known, key=lambda S: (known[S], S))
    some = [S for S in order if known[S] <= 4.0]
    assert (store.count(), store.count(4.0)) == (len(known), len(some))
    supports, costs = store.cheapest(4.0)
    assert [tuple(S) for S in supports.tolist()] == some
    assert costs.tolist() == [known[S] for S in some]
    assert store.least() == known[order[0]]
    store.add(np.array([1, 2, places - 1]), -1.0)  # after it was read
    assert store.cheapest()[0][0].tolist() == [1, 2, places - 1]


def test_an_empty_support_can_be_stored() -> None:
    store = SupportStore(0, 5)
    store.add(np.zeros(0, dtype=np.intp), 2.0)
    store.add(np.zeros(0, dtype=np.intp), 2.0)
    supports, costs = store.cheapest()
    assert (supports.shape, costs.tolist()) == ((1, 0), [2.0])
