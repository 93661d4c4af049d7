"""The loop of branch and bound by itself, with nodes made for the purpose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from support import (
    BranchAndBound,
    NodeKind,
    Problem,
    Run,
    Scheduler,
    Stop,
    Structure,
    TimeBudget,
    Tree,
)


@dataclass(frozen=True)
class Part:
    """A node of a given bound."""

    bound: float
    discarded: float = np.inf
    closed: bool = False


class Given(NodeKind[Part]):
    """A root that is divided once, into closed nodes of given bounds."""

    def __init__(self, bounds: list[float]) -> None:
        self.bounds = bounds

    def root(self) -> Part:
        return Part(0.0)

    def divide(self, nodes):
        return (Part(bound, closed=True) for bound in self.bounds)


def run_over(bounds: list[float]) -> BranchAndBound[Part]:
    structure = Structure(np.ones((2, 1), dtype=bool), 1, 1)
    problem = Problem.dense(np.eye(2), np.array([1.0, 2.0]), 100.0, 1.0, structure)
    run = Run(problem, TimeBudget(10.0), 0.0)
    loop = BranchAndBound(run, Given(bounds))
    assert loop.run() in {Stop.EXHAUSTED, Stop.PROVED}
    return loop


def test_the_bound_of_the_whole_is_the_least_of_its_parts():
    assert run_over([30.0, 20.0, 40.0]).record.bound == 20.0


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("useless", [np.nan, -np.inf, -1e299])
def test_a_part_about_which_nothing_is_known_leaves_no_bound(place, useless):
    """NaN vanishes from a minimum, wherever it stands: the loop must not let it in."""
    bounds = [30.0, 20.0]
    bounds.insert(place, useless)
    assert run_over(bounds).record.bound == 0.0


def test_a_node_in_hand_counts_when_the_search_is_interrupted():
    """Parts that were made before the interrupt count too, with what screening has discarded."""

    class Interrupted(Given):
        def divide(self, nodes):
            yield Part(30.0, discarded=20.0)
            raise KeyboardInterrupt

        def root(self):
            return Part(25.0)

    structure = Structure(np.ones((2, 1), dtype=bool), 1, 1)
    problem = Problem.dense(np.eye(2), np.array([1.0, 2.0]), 100.0, 1.0, structure)
    loop = BranchAndBound(Run(problem, TimeBudget(10.0), 0.0), Interrupted([]))
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert loop.bound == 20.0
    assert loop.record.bound == 25.0  # which had been proved of the whole


def still(width: int) -> BranchAndBound[Part]:
    """Return a search whose bound never moves, each division leaving what was divided."""

    class Still(Given):
        def divide(self, nodes):
            return iter([Part(0.0)])

    structure = Structure(np.ones((2, 1), dtype=bool), 1, 1)
    problem = Problem.dense(np.eye(2), np.array([1.0, 2.0]), 100.0, 1.0, structure)
    return BranchAndBound(Run(problem, TimeBudget(2.0), 0.0), Still([]), patience=0.05, width=width)


def test_a_search_ends_when_its_bound_has_stopped_but_not_before_it_has_divided_enough():
    loop = still(1)
    assert loop.run() is Stop.STEADY
    assert loop._divided >= 16
    loop = still(10**9)
    assert loop.run() is Stop.TIME


def test_supports_of_open_nodes_are_counted_once(monkeypatch):
    """When every node is closed none are left, also of nodes that moved to smaller subproblems."""
    rng = np.random.default_rng(3)
    M = rng.standard_normal((100, 120))
    y = M[:, :6] @ rng.uniform(0.4, 1.0, 6) + 0.5 * rng.standard_normal(100)
    structure = Structure(np.ones((120, 1), dtype=bool), 8, 1)
    problem = Problem.dense(M.T @ M, M.T @ y, float(y @ y), 5.0, structure)
    seen, cores, plain = list[Scheduler](), set[int](), Scheduler.wait

    def watched(self, node):
        plain(self, node)
        cores.add(node.core.size)
        seen[:] = [self]

    monkeypatch.setattr(Scheduler, "wait", watched)
    none = dict.fromkeys(("leaf_worth", "late_share", "outright_share"), 0.0)
    solution = Tree(diagonal_shifts=False, shrink=1.0, patience=np.inf, **none).solve(problem)
    assert solution.status == "optimal"
    assert len(cores) > 1
    assert abs(seen[0].waiting) < 1e-6


class Wide(NodeKind[Part]):
    """A root that is divided into itself for ever, at a bound of its own."""

    def __init__(self, bound: float) -> None:
        self.bound, self.divided = bound, 0

    def root(self) -> Part:
        return Part(self.bound)

    def divide(self, nodes):
        self.divided += 1
        yield from nodes


@pytest.mark.parametrize(("bound", "seconds"), [(30.0, 0.05), (46.0, 0.5)])
def test_a_wide_gap_is_hopeless_after_a_while(bound, seconds):
    """A search that has come near goes on to its time limit."""
    structure = Structure(np.ones((2, 1), dtype=bool), 1, 1)
    problem = Problem.dense(np.eye(2), np.array([1.0, 2.0]), 100.0, 1.0, structure)
    run = Run(problem, TimeBudget(0.5, hopeless_after=0.05), 0.0)
    assert BranchAndBound(run, Wide(bound)).run() is Stop.TIME
    assert run.seconds == pytest.approx(seconds, abs=0.2)
