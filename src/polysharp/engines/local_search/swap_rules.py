"""Which monomial a compiled move of the local search brings in: the best that the rules allow."""

from __future__ import annotations

from polysharp.engines.compiling import Compiler
from polysharp.engines.local_search import tableau
from polysharp.engines.local_search.tableau import GAINS

kernel = Compiler(__file__, tableau.__file__, allocating=False, contracting=True)


@kernel()
def count_in(rules, j, change):  # type: ignore[no-untyped-def]
    """Count monomial j in (1) or out (-1)."""
    rules.inside[j] += change
    for i in rules.inputs[j]:
        rules.used[i] += change


@kernel()
def _lack(rules, j):  # type: ignore[no-untyped-def]
    """Return how many parents j still wants."""
    lack = rules.wanted[j]
    for a in range(rules.parents.shape[1]):
        lack -= rules.inside[rules.parents[j, a]]
    return lack


@kernel()
def _has(row, i):  # type: ignore[no-untyped-def]
    found = False
    for entry in row:
        found |= entry == i
    return found


@kernel()
def _keeps(rules, orphans, j):  # type: ignore[no-untyped-def]
    """Whether j has its parents, is a parent that all orphans lack, and uses what must be used."""
    if _lack(rules, j) > 0:
        return False
    for m in orphans:
        if _lack(rules, m) > 1 or not _has(rules.parents[m], j):
            return False
    missing = 0
    for i in rules.required:
        missing += rules.used[i] == 0 and not _has(rules.inputs[j], i)
    return missing == 0


@kernel()
def best_entrant(rules, state, bar):  # type: ignore[no-untyped-def]
    """Return the monomial of largest gain above ``bar`` that may join, -1 for none."""
    # The members alone need not keep the rules: they are what a swap has in between.
    best, T, f = -1, state.T, state.f
    if rules is None:
        for j in range(f):
            if T[GAINS, j] > bar:
                best, bar = j, T[GAINS, j]
        return best
    used, inputs, orphans, room, n = rules.used, rules.inputs, rules.orphans, rules.k, 0
    for i in range(used.size - 1):
        room -= used[i] > 0
    for m in state.members:
        if m >= 0 and rules.inside[m] > 0 and _lack(rules, m) > 0:
            orphans[n] = m
            n += 1
    budgets_only = rules.parents.shape[1] == 0 and rules.required.size == 0
    for j in range(f):
        if T[GAINS, j] > bar:
            new = 0
            for a in range(inputs.shape[1]):
                new += used[inputs[j, a]] == 0
            if new <= room and (budgets_only or _keeps(rules, orphans[:n], j)):
                best, bar = j, T[GAINS, j]
    return best


@kernel()
def best_without(rules, state, slot, bar):  # type: ignore[no-untyped-def]
    """Return the same once the member of a slot is out."""
    if rules is None:
        return best_entrant(rules, state, bar)
    count_in(rules, state.members[slot], -1)
    j = best_entrant(rules, state, bar)
    count_in(rules, state.members[slot], 1)
    return j
