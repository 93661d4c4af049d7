"""Good supports of every size from moments: what a search over budgets runs thousands of.

The moves of ``local_search`` in their plainest form, compiled (``growth_kernel``): to the support
of l - 1 monomials add the best entrant, then take the best single swap until none lowers c.  Then
back again: where the support of l + 1 without its least monomial is better than that of l, the walk
up had missed it (two terms that only together beat a third), and it is put right.

The ridge has one value per monomial, so that one G serves every degree: monomial j carries the
scale t_j in a basis of degree r, and a ridge lam on the coefficients of the scaled monomials is
lam / t_j^2 on those of the plain ones.

Where at most k inputs may be used the sizes are walked again for every k, largest first: the
support of k + 1 inputs gives up the input it misses least and is improved, and competes with the
one grown from l - 1.  No proof is attempted here; engines do that for the model that is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.growth_kernel import narrow, walk_back, walk_up
from polysharp.moments.gram import solve_spd
from polysharp.monomials.basis import Basis
from polysharp.typing import Array, Indices

Table = NDArray[np.int64]  # one row of members for each size, -1 for none


@dataclass(frozen=True, eq=False)
class System:
    """min 1/2 (yy - 2 q'w + w'Gw) + 1/2 sum_j ridge_j w_j^2 over the monomials of a pool."""

    G: Array  # symmetric, over all monomials
    q: Array
    yy: float
    ridge: Array
    pool: Indices  # the monomials that may be used
    parts: NDArray[np.int64]  # (f, r): the distinct inputs of each monomial, -1 behind them
    n_inputs: int

    def refit(self, support: Indices) -> Array:
        """Return the coefficients of a support."""
        if not len(support):
            return np.zeros(0)
        return solve_spd(self.regularised(support), self.q[support])

    def regularised(self, support: Indices) -> Array:
        """Return G_SS + diag(ridge_S)."""
        H = self.G[np.ix_(support, support)]
        H[np.diag_indices_from(H)] += self.ridge[support]
        return H

    def objective(self, support: Indices) -> float:
        """Return c(S)."""
        if not len(support):
            return 0.5 * self.yy
        return 0.5 * (self.yy - float(self.q[support] @ self.refit(support)))

    def inputs_of(self, support: Indices) -> Indices:
        """Return the inputs that a support uses."""
        used = np.unique(self.parts[support])
        return used[used >= 0]


def parts_of(basis: Basis) -> NDArray[np.int64]:
    """Return the places of the distinct inputs of every monomial, filled up with -1."""
    parts = np.full((len(basis), max(1, basis.degree)), -1, dtype=np.int64)
    for j, m in enumerate(basis.monomials):
        distinct = sorted(basis.place[i] for i in set(m))
        parts[j, : len(distinct)] = distinct
    return parts


def grow(
    system: System, size: int, max_inputs: int | None = None, *, start: Indices | None = None
) -> Indices:
    """Return a support of at most ``size`` monomials that no single swap improves."""
    return _listed(_walked(system, size, size, max_inputs, start)[0])[0]


def sizes(
    system: System,
    largest: int,
    max_inputs: int | None = None,
    *,
    wider: list[Indices] | None = None,
) -> Iterator[Indices]:
    """Yield a support for each size 1, ..., ``largest``, found by the walk up and the walk back.

    ``wider`` holds the supports of the same sizes with more inputs allowed.
    """
    last = min(largest, len(system.pool))
    if wider is None or max_inputs is None:
        found, values = _walked(system, 1, last, max_inputs, None)
    else:
        found, values = _walked_below(system, last, max_inputs, wider)
    walk_back(*_walked_over(system, max_inputs), found, values)
    yield from _listed(found)


def _walked_below(
    system: System, last: int, max_inputs: int, wider: list[Indices]
) -> tuple[Table, Array]:
    """Walk the sizes, each the better of what was grown and what the wider budget leaves."""
    found: list[Indices] = []
    for size in range(1, last + 1):
        grown = grow(system, size, max_inputs, start=found[-1] if found else None)
        other = _narrowed(system, wider[size - 1], size, max_inputs)
        found.append(min(grown, other, key=system.objective))
    table = np.full((last, last), -1, dtype=np.int64)
    for row, support in zip(table, found, strict=True):
        row[: len(support)] = support
    return table, np.array([2.0 * system.objective(support) for support in found])


def _walked(
    system: System, first: int, last: int, max_inputs: int | None, start: Indices | None
) -> tuple[Table, Array]:
    """Walk from ``start`` over the sizes ``first`` to ``last``: their members, and 2 c of each."""
    members = np.full(last, -1, dtype=np.int64)
    if start is not None:
        members[: len(start)] = start
    found = np.full((max(0, last - first + 1), last), -1, dtype=np.int64)
    values = np.empty(len(found))
    walk_up(*_walked_over(system, max_inputs), members, first, found, values)
    return found, values


def _walked_over(system: System, max_inputs: int | None) -> tuple[Any, ...]:
    """Return what both compiled walks are given."""
    return (
        system.G if system.G.flags.c_contiguous else system.G.T,
        system.q,
        system.ridge,
        system.yy,
        np.ascontiguousarray(system.pool, dtype=np.int64),
        system.parts,
        system.n_inputs,
        system.n_inputs if max_inputs is None else min(max_inputs, system.n_inputs),
    )


def _listed(table: Table) -> list[Indices]:
    return [row[row >= 0].astype(np.intp) for row in table]


def _narrowed(system: System, support: Indices, size: int, max_inputs: int) -> Indices:
    """Give up the inputs that the support misses least until the rest are few enough."""
    if len(system.inputs_of(support)) <= max_inputs:
        return support
    H = solve_spd(system.regularised(support), np.eye(len(support)))
    w = H @ system.q[support]
    kept = narrow(np.ascontiguousarray(H), w, system.parts[support], system.n_inputs, max_inputs)
    return grow(system, size, max_inputs, start=support[kept])
