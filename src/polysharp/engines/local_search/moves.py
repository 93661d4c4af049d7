"""Moves that single swaps of one tableau cannot make.

Of several monomials at once, where rules bind:

exchange an input    it leaves with all its monomials, and another takes its place;
bring in a family    a monomial joins with the parents that heredity wants and the support
                     lacks, into free room or in place of the cheapest members;
narrow               inputs are given up, the one that is missed least first.

Of several responses whose coefficients are bounded: a tableau serves one set of free members, and
boxes stop other members in each response.  So terms are added and swapped by what they gain while
the coefficients of the others stay where they are,

    sum_t max_v  rho_tj v - (G_jj + lam) v^2 / 2    over the box of (t, j),     rho = q - G w,

and the few that gain most are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from polysharp.engines.local_search.swap_state import EMPTY, SwapState
from polysharp.engines.local_search.tableau import SwapTask
from polysharp.moments.gram import solve_spd
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import price
from polysharp.problem.problem import Fit, Problem
from polysharp.typing import Array, Indices

PROMISING_INPUTS = 4  # tried in place of one: later ones hardly ever pay
PROMISING_FAMILIES = 8  # tried at once: under weak heredity one monomial may need several tries
TRIED = 64  # newcomers that rules are asked about if boxes of several responses bind, best first
FITTED = 8  # of them, as gains are estimates


def settle(model: SwapState, size: int) -> None:
    """Move until neither single swaps nor moves of several monomials lower c."""
    structure = model.problem.structure
    moved = True
    while moved:
        _fill_and_swap(model, size)
        moved = not model.out_of_time() and (
            (structure.heredity is not None and add_families(model, size))
            or (structure.inputs_bind and _exchange_input(model, size))
            or (structure.heredity is not None and _swap_in_family(model, size))
        )


def _fill_and_swap(model: SwapState, size: int) -> None:
    """Fill up and swap from a fresh model until nothing lowers c, recomputed, beyond rounding."""
    resolution = model.problem.resolution
    while not model.out_of_time():
        start, before = model.support, model.objective
        model.fill_and_swap(SwapTask(size, size, resolution, 0.0))
        if not model.moves:
            return
        model.load(model.support)
        if model.objective >= before - resolution:
            model.load(start)
            return


def _exchange_input(model: SwapState, size: int) -> bool:
    """Exchange one input for another, with all its monomials, if that lowers the objective."""
    structure, support = model.problem.structure, model.support
    target = model.objective - model.problem.resolution
    used = structure.inputs_of(support)
    for leaving in np.flatnonzero(used):
        losing = structure.uses[support, leaving]
        if np.isin(structure.required_terms, support[losing]).any() or model.out_of_time():
            continue
        rest, others = support[~losing], used.copy()
        others[leaving] = False
        model.load(rest)
        for entering in _promising_inputs(model, others, int(leaving)):
            inputs = others.copy()
            inputs[entering] = True
            model.confine(structure.count_outside(inputs) == 0)
            model.load(rest)
            _fill_and_swap(model, size)
            model.confine()
            if model.objective < target and structure.allows(model.support):
                model.load(model.support)
                return True
    model.load(support)
    return False


def _promising_inputs(model: SwapState, others: NDArray[np.bool_], leaving: int) -> Indices:
    """The inputs that gain most by one monomial of theirs and the ``others`` in use."""
    structure, gains = model.problem.structure, model.gains()
    new = np.append(~others, False)[structure.input_table]
    single = new.sum(axis=1) == 1
    value = np.zeros(structure.n_inputs)
    np.maximum.at(value, structure.input_table[single][new[single]], gains[single])
    value[leaving] = 0.0
    order = np.argsort(-value, kind="stable")[:PROMISING_INPUTS]
    return np.asarray(order[value[order] > 0.0])


def add_families(model: SwapState, size: int) -> bool:
    """Spend free room on monomials that need their parents brought along; say whether any came."""
    structure, grown = model.problem.structure, False
    while (room := size - model.count) > 1:
        support, before = model.support, model.objective
        best, better = 0.0, support
        for family in _promising_families(model, room):
            model.load(np.concatenate([support, family]))
            gain = (before - model.objective) / len(family)
            if gain > best + model.problem.resolution and structure.allows(model.support):
                best, better = gain, model.support
        model.load(better)
        if best <= 0.0:
            break
        grown = True
    return grown


def _swap_in_family(model: SwapState, size: int) -> bool:
    """Bring in a monomial with its parents in place of the cheapest members, if that pays."""
    structure, support = model.problem.structure, model.support
    target = model.objective - model.problem.resolution
    for family in _promising_families(model, size):
        model.load(support)
        if model.out_of_time():
            break
        spared = set(np.concatenate([structure.parents[j] for j in family]).tolist())
        while size - model.count < len(family):
            slot = cheapest(model, spared)
            if slot is None:
                break
            model.load(np.delete(model.support, slot))
        joined = np.concatenate([model.support, family])
        if len(joined) <= size and structure.allows(joined):
            model.load(joined)
            _fill_and_swap(model, size)
            if model.objective < target:
                return True
    model.load(support)
    return False


def _promising_families(model: SwapState, room: int) -> list[Indices]:
    """The families of the orphans that would gain most, at most ``room`` monomials each."""
    structure, support, gains = model.problem.structure, model.support, model.gains()
    families: list[Indices] = []
    for j in np.argsort(-gains, kind="stable"):
        if gains[j] <= 0.0 or len(families) >= PROMISING_FAMILIES:
            break
        family = family_of(structure, support, int(j), gains)
        if len(family) > 1 and structure.heredity == "weak":  # any of its parents will do
            elders = (family_of(structure, support, int(m), gains) for m in structure.parents[j])
            families += [np.append(elder, j) for elder in elders if len(elder) < room]
        elif 1 < len(family) <= room:
            families.append(family)
    return families


def family_of(structure: Structure, support: Indices, j: int, value: Array) -> Indices:
    """Return j with the ancestors that heredity wants and S lacks, oldest first.

    Weak heredity asks for one parent: the one of largest ``value``.
    """
    chosen = set(support.tolist())
    missing: list[int] = []

    def bring(m: int) -> None:
        if m in chosen or m in missing:
            return
        parents = structure.parents[m]
        if structure.heredity == "weak" and len(parents):
            adopted = not chosen.isdisjoint(parents.tolist())
            parents = parents[:0] if adopted else parents[[np.argmax(value[parents])]]
        for parent in parents:
            bring(int(parent))
        missing.append(m)

    bring(j)
    return np.array(missing, dtype=np.intp)


def cheapest(model: SwapState, spared: Collection[int] = ()) -> int | None:
    """Return the slot of the cheapest member that may leave; None if none may."""
    structure, support, costs = model.problem.structure, model.support, model.costs()
    if structure.plain and not spared:
        return int(np.argmin(costs))
    for slot in np.argsort(costs, kind="stable"):
        if support[slot] not in spared and structure.allows(np.delete(support, slot)):
            return int(slot)
    return None


def narrowed(model: SwapState, support: Indices) -> Indices:
    """Give up inputs that a support uses, the one missed least first, until k are left.

    Without the members D that use an input 2 c rises by sum_t w_tD'(H_DD)^-1 w_tD, for all inputs
    at once, each with the rest of H replaced by the identity.
    """
    structure, most = model.problem.structure, model.problem.structure.max_inputs
    model.load(support)
    m = len(support)
    H, W = model.state.H[:m, :m].copy(), model.state.w[:, :m].T.copy()
    for a in EMPTY if model.boxes is None else np.flatnonzero(model.boxes.parked[:m]):
        cost = model.costs()[a]  # as if it stood alone, at what it costs
        H[a, a] = 0.5 * W[a, 0] ** 2 / cost if cost > 0.0 else 1.0
    while True:
        uses = structure.uses[support].T
        users = uses[uses.any(axis=1)]
        if len(users) <= most:
            return support
        A = np.where(users[:, :, None] & users[:, None, :], H, np.eye(len(H)))
        own = users[:, :, None] * W
        try:
            shares = np.linalg.solve(A, own)
        except np.linalg.LinAlgError:  # rounding has spoilt H
            shares = own / np.diagonal(A, axis1=1, axis2=2)[:, :, None]
        least = int(np.argmin(np.einsum("uat,uat->u", own, shares)))
        out = users[least]
        W = (W - H[:, out] @ shares[least][out])[~out]
        H = H - H[:, out] @ np.linalg.pinv(H[np.ix_(out, out)]) @ H[out]
        H, support = H[np.ix_(~out, ~out)], support[~out]


def has_boxed_rows(problem: Problem) -> bool:
    """Whether a problem has several responses and bounded coefficients."""
    return problem.n_responses > 1 and problem.structure.boxes is not None


def grown_boxed(problem: Problem, best: Fit, *, always: bool = False) -> Iterator[Fit]:
    """Yield fits with one term more each, the best one, while a term may join and gains."""
    while len(best.support) < problem.structure.max_terms:
        grown = _with_best(problem, best.support)
        gains = grown is not None and grown.objective < best.objective - problem.resolution
        if grown is None or not (gains or always):
            return
        best = grown
        yield best


def swapped_boxed(
    problem: Problem, best: Fit, tried: int, gain: float, out_of_time: Callable[[], bool]
) -> Fit:
    """Swap the cheapest terms for better ones while that gains more than a share of the cost."""
    improved = True
    while improved and not out_of_time():
        improved = False
        least = best.objective - max(gain * best.objective, problem.resolution)
        # Leaving out a term costs about 1/2 sum_t w_tj^2 / (H^-1)_jj.
        H = problem.hessian(best.support)
        costs = np.square(best.w).sum(axis=0) / np.diagonal(solve_spd(H, np.eye(len(H))))
        for j in best.support[np.argsort(costs)[:tried]].tolist():
            swapped = _with_best(problem, best.support[best.support != j], without=j)
            if swapped is not None and swapped.objective < least:
                best, improved = swapped, True
                break
    return best


def _with_best(problem: Problem, stay: Indices, without: int = -1) -> Fit | None:
    """Return the fit of the terms that stay with the one that gains most, None if none may join."""
    curvature = problem.gram.diagonal + problem.lam
    rho = problem.correlations(problem.refit(stay))
    gains = price(rho, 0.0, curvature, *problem.boxes).sum(axis=0)
    gains[stay] = -np.inf
    if without >= 0:
        gains[without] = -np.inf
    count, fits = min(TRIED, len(gains)), list[Fit]()
    largest = np.argpartition(-gains, count - 1)[:count]
    for j in largest[np.argsort(-gains[largest], kind="stable")]:
        support = np.append(stay, j)
        if gains[j] > 0.0 and problem.structure.allows(support):
            fits.append(problem.refit(support))
        if len(fits) == FITTED:
            break
    return min(fits, key=lambda fit: fit.objective, default=None)
