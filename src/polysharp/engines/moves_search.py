"""Search for good supports with closed-form gains: no proof, but fast.

    forward    add the best entrant until the budget is spent;
    swap       take the best of all l x f swaps until none lowers c;
    improve    both, and where rules bind the moves that single swaps cannot make: exchange one
               input for another with all its monomials, bring in a monomial with its parents;
    restarts   walks away from local optima.  A walk drops the cheapest member and adds the best
               entrant, even when c rises; a monomial that has just left (or joined) may not come
               back (or leave) for a few steps, unless that beats the best support known.  A walk
               that has not improved for a while starts again from a random part of the best.

The walk is what finds the planted law below n = 200 (p = 25, r = 3, l = 20), where forward
selection and swaps end at several times its objective.  Every support kept is allowed by the
structure, and every objective returned is recomputed by ``Problem.refit``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polysharp.problem.moves import Mask, Moves
from polysharp.problem.problem import Fit, Problem
from polysharp.problem.working_model import WorkingModel
from polysharp.typing import Array, Indices

STALL = 200  # steps of a walk without improvement before it starts again
TENURE = 10  # steps for which a monomial that left stays out, plus up to as many at random
SETTLING = 6  # at most so many steps for which a monomial that joined stays in
PROMISING = 4  # inputs, or families, tried for each exchange

OutOfTime = Callable[[], bool]
OnWalk = Callable[[Fit], object]


def _never() -> bool:
    return False


def forward(problem: Problem, start: Indices | None = None, *, allowed: Mask | None = None) -> Fit:
    """Forward selection from ``start`` (by default the smallest support that meets the rules).

    Parameters
    ----------
    problem : Problem
    start : array of int, optional
        An allowed support to grow.
    allowed : array of bool, optional
        The monomials that may join; all by default.
    """
    moves = Moves(problem.structure, allowed)
    model = _model(problem, _smallest(problem, moves) if start is None else start)
    _fill(model, moves)
    return problem.refit(model.support)


def swap(
    problem: Problem,
    support: Indices,
    *,
    allowed: Mask | None = None,
    out_of_time: OutOfTime = _never,
) -> Fit:
    """Take the best single swap until none lowers the objective."""
    model = _model(problem, support)
    _descend(model, Moves(problem.structure, allowed), out_of_time)
    return problem.refit(model.support)


def improve(
    problem: Problem,
    support: Indices,
    *,
    allowed: Mask | None = None,
    out_of_time: OutOfTime = _never,
) -> Fit:
    """Fill the budget and swap to a local optimum, compound moves included where rules bind."""
    model = _model(problem, support)
    _settle(model, Moves(problem.structure, allowed), out_of_time)
    return problem.refit(model.support)


def restarts(
    problem: Problem,
    support: Indices,
    rng: np.random.Generator,
    rounds: int,
    *,
    allowed: Mask | None = None,
    out_of_time: OutOfTime = _never,
    on_walk: OnWalk | None = None,
) -> Fit:
    """Walk from a support, then from random parts of the best one; return the best fit met.

    Ends after ``rounds`` walks in a row without improvement.  ``on_walk`` is called after each
    walk with the best fit so far.
    """
    moves = Moves(problem.structure, allowed)
    model = _model(problem, support)
    best = problem.refit(model.support)
    idle = 0
    while idle < rounds and not out_of_time():
        found = _walk(model, moves, rng, best, out_of_time)
        better = found.objective < best.objective - problem.resolution
        best, idle = (found, 0) if better else (best, idle + 1)
        if on_walk is not None:
            on_walk(best)
        model.load(_thinned(best.support, moves, rng))
        _settle(model, moves, out_of_time)
    return best


def _model(problem: Problem, support: Indices) -> WorkingModel:
    model = WorkingModel(problem, problem.structure.max_terms)
    model.load(support)
    return model


def _smallest(problem: Problem, moves: Moves) -> Indices:
    """The smallest support that meets the requirements, of largest correlations among equals."""
    structure = problem.structure
    if not len(structure.required_terms) and not len(structure.required_inputs):
        return np.zeros(0, dtype=np.intp)
    share = (problem.q / np.sqrt(problem.gram.diagonal + problem.lam)) ** 2
    value = 0.5 * share / (1.0 + share.sum()) - 1.0
    return structure.best_linear(np.where(moves.among, value, -float(len(value))))


def _fill(model: WorkingModel, moves: Moves) -> None:
    """Add the best entrant until the budget is spent or nothing gains."""
    for slot in model.empty_slots:
        gains = model.gains() * moves.entrants(model.support)
        j = int(np.argmax(gains))
        if gains[j] <= 0.0:
            break
        model.add(int(slot), j)
    if moves.structure.heredity is not None:
        _fill_families(model, moves)


def _descend(model: WorkingModel, moves: Moves, out_of_time: OutOfTime) -> None:
    """Take the best swap while it lowers the objective, recomputed, beyond rounding."""
    resolution = model.problem.resolution
    model.refresh()
    while not out_of_time():
        gain, slot, j = _best_swap(model, moves)
        if gain <= resolution:
            return
        before, members = model.objective, model.support
        model.drop(slot)
        model.add(slot, j)
        model.refresh()
        if model.objective >= before - resolution:
            model.load(members)
            return


def _best_swap(model: WorkingModel, moves: Moves) -> tuple[float, int, int]:
    """Return (gain, slot, entrant) of the best swap."""
    best = (0.0, -1, -1)
    support = model.support
    held = moves.held(model.members) | (model.members < 0)
    mask = moves.entrants(support)
    for slot in np.flatnonzero(~held):
        leaving = model.members[slot]
        if not moves.free:
            mask = moves.entrants(support[support != leaving])
            mask[leaving] = False
        gains = model.swap_gains(int(slot)) * mask
        j = int(np.argmax(gains))
        if gains[j] > best[0]:
            best = (float(gains[j]), int(slot), j)
    return best


def _settle(model: WorkingModel, moves: Moves, out_of_time: OutOfTime) -> None:
    """Fill and swap until neither that nor a compound move lowers the objective."""
    while True:
        _fill(model, moves)
        _descend(model, moves, out_of_time)
        if out_of_time():
            return
        if moves.structure.inputs_bind and _exchange_input(model, moves, out_of_time):
            continue
        if moves.structure.heredity is not None and _graft(model, moves, out_of_time):
            continue
        return


def _exchange_input(model: WorkingModel, moves: Moves, out_of_time: OutOfTime) -> bool:
    """Exchange one input for another, with all its monomials, if that lowers the objective."""
    structure, problem = moves.structure, model.problem
    support, target = model.support, model.objective - problem.resolution
    used = structure.inputs_of(support)
    for i in np.flatnonzero(used):
        rest = support[~structure.uses[support, i]]
        if moves.held(support[structure.uses[support, i]]).any() or out_of_time():
            continue
        for entering in _promising_inputs(model, moves, rest, used, int(i)):
            inputs = used.copy()
            inputs[[i, entering]] = False, True
            model.load(rest)
            inner = moves.within(inputs)
            _fill(model, inner)
            _descend(model, inner, out_of_time)
            if model.objective < target and structure.allows(model.support):
                return True
    model.load(support)
    return False


def _promising_inputs(
    model: WorkingModel, moves: Moves, rest: Indices, used: Mask, leaving: int
) -> Indices:
    """The inputs whose best monomial gains most once ``leaving`` is out."""
    structure = moves.structure
    kept = used.copy()
    kept[leaving] = False
    model.load(rest)
    gains = model.gains() * (moves.among & model.outside)
    new = np.append(~kept, False)[structure.input_table]
    single = new.sum(axis=1) == 1
    value = np.zeros(structure.n_inputs)
    np.maximum.at(value, structure.input_table[single][new[single]], gains[single])
    value[leaving] = 0.0
    order = np.argsort(-value, kind="stable")[:PROMISING]
    best: Indices = order[value[order] > 0.0]
    return best


def _fill_families(model: WorkingModel, moves: Moves) -> None:
    """Spend what is left of the budget on monomials that need their parents brought along."""
    while (room := len(model.empty_slots)) > 1:
        support, before = model.support, model.objective
        best, grown = 0.0, support
        for family in _promising_families(model, moves, room):
            model.load(np.concatenate([support, family]))
            gain = (before - model.objective) / len(family)
            if gain > best + model.problem.resolution and moves.structure.allows(model.support):
                best, grown = gain, model.support
        model.load(grown)
        if best <= 0.0:
            return


def _graft(model: WorkingModel, moves: Moves, out_of_time: OutOfTime) -> bool:
    """Bring in a monomial with its parents in place of the cheapest members, if that pays."""
    support, target = model.support, model.objective - model.problem.resolution
    for family in _promising_families(model, moves, len(model.members)):
        model.load(support)
        if out_of_time() or not _make_room(model, moves, family):
            continue
        model.load(np.concatenate([model.support, family]))
        if not moves.structure.allows(model.support):
            continue
        _fill(model, moves)
        _descend(model, moves, out_of_time)
        if model.objective < target:
            return True
    model.load(support)
    return False


def _promising_families(model: WorkingModel, moves: Moves, room: int) -> list[Indices]:
    """The families of the orphans that would gain most, at most ``room`` monomials each."""
    support = model.support
    gains = model.gains() * (moves.among & model.outside & ~moves.entrants(support))
    families: list[Indices] = []
    for j in np.argsort(-gains, kind="stable"):
        if gains[j] <= 0.0 or len(families) == PROMISING:
            break
        family = moves.family(support, int(j), gains)
        if 1 < len(family) <= room and moves.among[family].all():
            families.append(family)
    return families


def _make_room(model: WorkingModel, moves: Moves, family: Indices) -> bool:
    """Drop the cheapest members that may go, until the family fits."""
    spared = np.unique(np.concatenate([moves.structure.parents[j] for j in family]))
    while len(model.empty_slots) < len(family):
        support = model.support
        for slot in np.argsort(model.costs()):
            j = int(model.members[slot])
            if j >= 0 and j not in spared and moves.may_lose(support, j):
                model.drop(int(slot))
                break
        else:
            return False
    return True


def _walk(
    model: WorkingModel,
    moves: Moves,
    rng: np.random.Generator,
    best: Fit,
    out_of_time: OutOfTime,
) -> Fit:
    """Walk from the model's support until ``STALL`` steps bring nothing; return the best met."""
    problem = model.problem
    spare = int(moves.among.sum()) - len(model.members)
    patience = min(STALL, max(0, spare) * len(model.members))
    until = np.zeros(problem.size)
    step = last = 0
    if model.objective < best.objective - problem.resolution:
        best = problem.refit(model.support)
    while step - last < patience and not out_of_time():
        step += 1
        tenure = min(TENURE + int(rng.integers(TENURE + 1)), spare // 2)
        joined = _step(model, moves, until, step, tenure, best.objective)
        if joined < 0:
            break
        until[joined] = step + 1 + int(rng.integers(SETTLING))
        if model.objective < best.objective - problem.resolution:
            found = problem.refit(model.support)
            if found.objective < best.objective - problem.resolution:
                best, last = found, step
    return best


def _step(
    model: WorkingModel, moves: Moves, until: Array, step: int, tenure: int, record: float
) -> int:
    """Exchange the cheapest member that may leave for the best entrant; return it, or -1."""
    costs = model.costs()
    costs[(until[model.members] > step) | moves.held(model.members)] = np.inf
    resolution = model.problem.resolution
    for slot in np.argsort(costs):
        if not np.isfinite(costs[slot]):
            break
        leaving = model.drop(int(slot))
        until[leaving] = step + 1 + tenure
        gains = model.gains() * moves.entrants(model.support)
        gains[leaving] = 0.0
        j = int(np.argmax(gains))
        if until[j] > step and model.objective - gains[j] >= record - resolution:
            gains[until > step] = 0.0
            j = int(np.argmax(gains))
        if gains[j] > 0.0:
            model.add(int(slot), j)
            return j
        model.add(int(slot), leaving)
    return -1


def _thinned(support: Indices, moves: Moves, rng: np.random.Generator) -> Indices:
    """Keep a random part of a support, of random size, that the rules allow."""
    keep = rng.random()
    rest = support
    for j in rng.permutation(support):
        if rng.random() > keep and moves.may_lose(rest, int(j)):
            rest = rest[rest != j]
    return rest
