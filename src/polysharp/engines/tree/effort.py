"""What a search may spend on one node, from what such things have cost so far.

Second-order steps grow with the cube of the monomials, ends with the number of supports; how long
they take on this machine is measured as the search runs.  The first guesses are those of one core.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np

from polysharp.engines.base import Run
from polysharp.engines.tree.ends import Exhausted, ways
from polysharp.engines.tree.ends_kernel import Quest
from polysharp.engines.tree.outlook import Outlook
from polysharp.engines.tree.relaxation import RATE, Aim
from polysharp.engines.tree.support_sink import SupportSink

MEMORY = 0.9  # weight of the past in a running mean
WORTH_TIMING = 1e-3  # seconds; shorter measurements are noise
PAIR = 0.3e-9  # seconds for a support that is tried
ROW_PAIR = 1e-9  # the same for several responses, times their number and two
# Trying the supports of several responses neither looks at the clock nor passes any over: it gets
# less time.  Best diagonals are those of one response, and so are explorations.
SEVERAL: dict[str, Any] = {
    "best_diagonals": False,
    "ends_seconds": 0.02,
    "outright_share": 0.0,
    "late_share": 0.1,
    "explore_after": sys.maxsize,
}
TRIED = 0.4  # share of the supports that is tried, for every term beyond three, as a first guess
# Seconds to take out what is in and for room to work in, over the square of what is free.
ELIMINATED = 5e-8
PATIENCE = 2.0  # times the seconds foreseen after which trying supports is given up
MOST_CHOICES = 1e13  # below one node: more, and whoever checks the proof refuses
BEYOND_HOPE = 1e9  # seconds; sums of such can be taken apart again
MANY = 32  # nodes; fewer leave a device idle, and say nothing about many
COUPLED_BYTES, COUPLED_MEMORY = 240.0, 1e9  # for each pair of monomials, and for one coupling
KEPT_MEMORY = 4e9  # bytes of all couplings that were made, whether they are still in use or not
TINY = 1e-300  # what a share of a cost of zero is measured in


@dataclass(frozen=True)
class Settings:
    """How nodes over listed monomials are treated.

    Parameters
    ----------
    max_proof : int
        Stored numbers beyond which the proof is given up.
    relaxation_rate : float
        Multiplications per second left that a relaxation may make.
    walks : int
        Idle walks of the local search from each exploration.
    explore_after : int
        Nodes split or coupled after which other basins are explored: an easy proof is done by then.
    shrink : float
        A node moves to a subproblem of its own when this share of the monomials is left.
    smallest : int
        Subproblems of so few monomials are not worth making smaller.
    best_diagonals : bool
        Whether relaxations are solved together with their best diagonals.
    sharp_seconds, sharp_share : float
        Seconds, or share of the time spent so far, that a first best diagonal may take: where
        coordinate descent and screening close everything soon, large matrices are not worth it.
    sharp_tol : float
        How near to the best a diagonal must be, as a share of the distance to the threshold.
    couplings : bool
        Whether couplings are looked for where a best diagonal falls short.
    coupling_worth : float
        How many times its time a coupling has to save, by what the splits so far have taken.  That
        estimate is rough, and a part of what a coupling brings is lost on the nodes below.
    ends_worth : float
        A node is ended by trying all its supports if that takes no longer than so many relaxations
        with their best diagonals; closing it by relaxations takes about ten of them.
    ends_seconds : float
        Seconds that it may always take where no best diagonal would be made.
    outright_share : float
        Share of the time left that trying all supports of the root may take where it has too many
        monomials for a best diagonal.
    late_share : float
        Share of the time spent that trying all supports of all open nodes may take; then it is
        done.
    longest_chain : int
        Most terms that one split decides where shares come from the best diagonal.
    width : int
        Nodes that are split at a time if a device relaxes them.
    descents_from : int
        Monomials from which a device relaxes nodes.
    descents_on : tuple of str
        Kinds of device that do.
    """

    max_proof: int = 5_000_000
    relaxation_rate: float = RATE
    walks: int = 2
    explore_after: int = 4
    shrink: float = 0.5
    smallest: int = 40
    best_diagonals: bool = True
    sharp_seconds: float = 0.5
    sharp_share: float = 0.05
    sharp_tol: float = 0.5
    couplings: bool = True
    coupling_worth: float = 16.0
    ends_worth: float = 4.0
    ends_seconds: float = 0.0
    outright_share: float = 0.3
    late_share: float = 0.5
    longest_chain: int = 4
    width: int = 512
    descents_from: int = 1500
    descents_on: tuple[str, ...] = ("cuda",)


@dataclass(eq=False)
class Spending:
    """Costs measured so far, and what they allow."""

    settings: Settings
    run: Run
    sink: SupportSink
    level: float  # below the eigenvalues of G + lam I scaled to unit diagonal
    tried: dict[int, float] = field(default_factory=dict)  # share of supports, by terms left
    pair: float = PAIR  # seconds for one that is tried
    step: float = 1.0  # seconds of a second-order step over the guess
    steps: float = 8.0  # of one relaxation
    kept: float = 0.0  # bytes of couplings
    ends_left: float = 0.0  # seconds to try the supports of all open nodes
    cancelled: bool = False  # for threads that still evaluate nodes when the search has ended
    outlook: Outlook = field(init=False)
    descents: Any = None  # relaxations over thousands of monomials, on a device
    descent: float = 2e-9  # seconds for one of those, over the square of its monomials

    def __post_init__(self) -> None:
        if (several := self.run.problem.n_responses) > 1:
            self.settings = replace(self.settings, **SEVERAL)
            self.pair = ROW_PAIR * (several + 2.0)
            self.tried = dict.fromkeys(range(64), 1.0)  # none is passed over
        self.outlook = Outlook(self.settings.coupling_worth)
        device = self.run.device
        on = device is not None and device.type in self.settings.descents_on
        if on and self.run.problem.size >= self.settings.descents_from:
            from polysharp.engines.tree.descents import DeviceDescents

            self.descents = DeviceDescents(self.run.problem, device)

    @property
    def threshold(self) -> float:
        """A node with this bound is closed."""
        return self.run.threshold

    @property
    def tolerance(self) -> float:
        """Share of a cost that need not be beaten; a little less than the threshold asks for."""
        return 0.98 * self.run.gap_tol

    def quest(self, cost: float, slack: float, fewest: int) -> Quest:
        """What to look for among all supports of a node, where rounding may hide ``slack``.

        Once one is found, only better ones matter, unless all are wanted; within boxes none
        gains what it would gain without, so that finding it settles nothing.
        """
        all_count = self.sink.wants_all or self.run.problem.structure.boxes is not None
        need = cost - self.threshold - 2.0 * slack
        room = np.inf if all_count else 2.0 * slack
        return Quest(need, cost, self.tolerance, room, float(fewest))

    def work(self, free: int, budget: int) -> float:
        """Return how many pairs to try at most where so many supports are left."""
        return max(PATIENCE * self._ends_here(free, budget), 10.0 * WORTH_TIMING) / self.pair

    def expired(self) -> bool:
        """Whether the time is up."""
        return self.cancelled or self.run.expired

    def aim(self) -> Aim:
        """How far to go with coordinate descent: to the threshold of now, within the time left."""
        return Aim(
            self.run.threshold,
            seconds=self.run.time_left,
            rate=self.settings.relaxation_rate,
            cancelled=lambda: self.cancelled,
        )

    def ends_pay(self, free: int, budget: int) -> bool:
        """Whether trying all supports is cheaper than relaxations.

        Where no best diagonal would be made, coordinate descent is what it must compete with.
        """
        there = self.descents is not None and free >= self.settings.descents_from
        if there or not self.sharpens(free):
            worth = max(
                self.settings.ends_seconds, self.settings.ends_worth * self.descent * free**2
            )
        else:
            worth = self.settings.ends_worth * self.steps * self._step(free)
        return self.ends(free, budget) <= min(worth, 0.3 * self._left)

    def outright_pays(self, free: int, budget: int) -> bool:
        """Whether all supports may be tried although a relaxation has been of no use."""
        return self.ends(free, budget) <= self.settings.outright_share * self._left

    def late_ends_pay(self) -> bool:
        """Whether everything that is open may be ended, the search having lasted for some time."""
        return self.ends_left <= min(self.settings.late_share * self.run.seconds, 0.8 * self._left)

    def ends(self, free: int, budget: int) -> float:
        """Return the seconds that trying all supports takes; infinite where it cannot be done."""
        return self._ends_here(free, budget) + ELIMINATED * free * free

    def diagonal_pays(self, free: int) -> bool:
        """Whether the first best diagonal of so many monomials is affordable."""
        allowed = max(self.settings.sharp_seconds, self.settings.sharp_share * self.run.seconds)
        return 2.0 * self.steps * self._step(free) <= min(allowed, 0.5 * self._left)

    def sharpens(self, free: int) -> bool:
        """Whether a relaxation of so many monomials is solved with its best diagonal."""
        return self.settings.best_diagonals and self.diagonal_pays(free)

    def coupling_pays(self, free: int, budget: int, bound: float) -> bool:
        """Whether to look for a coupling of a node, by its monomials, terms left and bound."""
        taken = self.outlook.pace * _coupling_guess(free)
        return (
            self.settings.couplings
            and taken <= 0.3 * self._left
            and 1 < budget < free
            and COUPLED_BYTES * free * free <= COUPLED_MEMORY
            and self.kept + 2.0 * free * free <= KEPT_MEMORY
            and self.outlook.coupling_pays(budget, self.short(bound), taken, self._left)
        )

    def going_on_pays(self, gain: float, aim: float, brought: float, seconds: float) -> bool:
        """Whether to go on with couplings, these seconds having lowered the gain by so much."""
        short, more = (own / max(self.threshold, TINY) for own in (gain - aim, brought))
        return self.outlook.going_on_pays(short, more, seconds, self._left)

    def note_couplings(
        self, before: list[tuple[int, int, float]], after: list[float], seconds: float
    ) -> None:
        """Learn from couplings: monomials, terms left and bounds of nodes, and bounds now."""
        for (_, budget, bound), now in zip(before, after, strict=True):
            self.outlook.note_coupling(budget, self.short(bound), self.short(now))
        self.outlook.note_pace(seconds / sum(_coupling_guess(free) for free, _, _ in before))
        self.kept += sum(2.0 * free * free for free, _, _ in before)

    def note_splits(self, families: list[tuple[float, list[Any]]], seconds: float) -> None:
        """Learn what splits have taken, from the bounds of nodes and their children."""
        for bound, children in families:
            after = [0.0 if child.closed else self.short(child.bound) for child in children]
            self.outlook.note_split(self.short(bound), after, seconds / len(families))

    def short(self, bound: float) -> float:
        """Return by which share of the threshold bounds fall short of it."""
        return max(self.threshold - bound, 0.0) / max(self.threshold, TINY)

    def strengthening_pays(self, size: int) -> bool:
        """Whether the smallest eigenvalue of so many monomials is worth looking for."""
        return 2e-11 * float(size) ** 3 <= 0.2 * self._left

    def note_ends(self, free: int, budget: int, ended: Exhausted | None) -> None:
        """Learn what trying all supports has taken; None: it was given up.

        Short times are all beginning and end, and say nothing of long ones; work can be counted.
        """
        if ended is None:
            self.tried[budget] = 2.0 * self._tried(budget)
        elif ended.work > 0.0:
            share = ended.work / ways(free, budget)
            self.tried[budget] = MEMORY * self.tried.get(budget, share) + (1.0 - MEMORY) * share
            if ended.seconds > WORTH_TIMING:
                pair = ended.seconds / ended.work
                self.pair = MEMORY * self.pair + (1.0 - MEMORY) * pair

    def note_diagonal(self, free: int, steps: int, seconds: float) -> None:
        """Learn what a best diagonal has taken."""
        if steps and seconds > WORTH_TIMING:
            ratio = seconds / (steps * _guess(free))
            self.step = MEMORY * self.step + (1.0 - MEMORY) * ratio
            self.steps = MEMORY * self.steps + (1.0 - MEMORY) * steps

    def note_descents(self, sizes: Sequence[int], seconds: float) -> None:
        """Learn what relaxations of so many monomials have taken, one or many together."""
        if self.descents is None or len(sizes) >= MANY:
            work = float(np.square(sizes, dtype=np.float64).sum())
            self.descent = 0.5 * (self.descent + seconds / max(work, 1.0))

    @property
    def _left(self) -> float:
        """Seconds left; without a limit, as if there were half an hour."""
        return min(self.run.time_left, 1800.0)

    def _step(self, free: int) -> float:
        return self.step * _guess(free)

    def _ends_here(self, free: int, budget: int) -> float:
        memory = 16.0 * free * free * max(budget - 2, 1)  # H and U of the levels
        if budget >= 64 or memory > 2e9 or comb(free, budget) > MOST_CHOICES:
            return np.inf
        return self.pair * self._tried(budget) * ways(free, budget)

    def _tried(self, budget: int) -> float:
        """Share of supports that is tried; where that is not known, from that of fewer terms."""
        known = max((L for L in self.tried if budget >= L), default=min(budget, 3))
        share = self.tried.get(known, 1.0)
        each = min(share, 1.0) ** (1.0 / (known - 3)) if known > 3 else TRIED
        return float(share * each ** (budget - known))


def _coupling_guess(free: int) -> float:
    """Seconds of a coupling of so many monomials."""
    return 0.02 + 1.5e-6 * free**2 + 1.5e-8 * free**3


def _guess(free: int) -> float:
    """Seconds of one second-order step."""
    return 3e-4 + 4e-10 * free**3
