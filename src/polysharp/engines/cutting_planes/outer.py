"""Outer approximation, whichever solver branches: the loop, and what every solver is told.

strengthen the root  ->  let a solver branch on the master, with cuts added as they are broken
                     ->  begin again in smaller units, where that closed most of the open gap
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.cutting_planes.master import Cut, Master
from polysharp.engines.cutting_planes.root import prepare
from polysharp.engines.local_search.swap_state import SwapState
from polysharp.problem.subproblem import least_cost
from polysharp.typing import Array

MOST_EXTENDED = 100  # monomials up to which sets larger than a support are worth a cut
ACCEPT = 1e-6  # shortfall of eta below c(S), relative to the open gap, that needs no cut


@dataclass(frozen=True)
class OuterApproximation(Engine):
    """Algorithm 2 with some solver.

    Parameters
    ----------
    root_cuts : bool
        Add tangents at fractional points, fix columns and raise the ridge at the root; False is
        the paper's pure form, with cuts at binary points only.
    """

    packages: ClassVar[tuple[str, ...]] = ("highspy",)
    largest = 25_000
    root_cuts: bool = True

    @abstractmethod
    def branch(self, talk: Dialogue) -> Stop | None:
        """Let the solver branch on the master; say why it ended if not by itself."""

    def search(self, run: Run) -> Stop:
        """Strengthen the root, then let the solver branch and ask for cuts."""
        return branch_again(
            run, prepare(run, root_cuts=self.root_cuts), self.branch, self.root_cuts
        )


def branch_again(
    run: Run, first: Master, branch: Callable[[Dialogue], Stop | None], clip: bool = True
) -> Stop:
    """Let a solver branch on a master, again in smaller units as long as that closes the gap."""
    master: Master | None = first
    while not (run.proved or run.expired):
        if master is None:
            return Stop.STALLED
        talk = Dialogue(run, master, clip)
        stop = branch(talk)
        if stop is not None and not run.proved:
            return stop
        master = master.renewed(run, talk.added)
    return Stop.PROVED if run.proved else Stop.TIME


@dataclass(eq=False)
class Dialogue:
    """What a solver is told about the run, and the run about the solver.

    A candidate (s, eta) of the solver is answered with the cuts it breaks, or with none.
    """

    run: Run
    master: Master
    clip: bool = True
    error: BaseException | None = None
    added: list[Cut] = field(default_factory=list)
    nodes_before: int = field(init=False)
    _seen: dict[bytes, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes_before = self.run.nodes

    def gap(self, share: float) -> float:
        """Return a share of the gap tolerance in the units of the solver."""
        return share * self.run.gap_tol * self.run.best.objective / self.master.scale

    def start(self) -> tuple[Array, float]:
        """Return the incumbent as columns and eta."""
        best = self.run.best
        return self.master.point(best.support), max(0.0, self.master.eta(best.objective))

    def follow(self, eta: float, nodes: float, phase: str = "branch and cut") -> None:
        """Carry a solver's bound and counters over to the run; it may have no bound yet."""
        if np.isfinite(eta) and abs(eta) < 1e20:  # what solvers take for infinite
            self.run.raise_bound(self.master.safe_cost(self.run, eta))
        self.run.nodes = self.nodes_before + max(0, int(nodes))
        self.run.report(phase)

    def guarded(self, answer: Callable[[], Any], otherwise: Any, end: Callable[[], Any]) -> Any:
        """Run a callback; keep its exception, which a solver would swallow, and end the solver."""
        try:
            return answer()
        except BaseException as error:
            self.error = self.error or error
            end()
            return otherwise

    def finish(self) -> None:
        """Raise what a callback has kept."""
        if self.error is not None:
            raise self.error

    def accepts(self, s: Array, eta: float) -> bool:
        """Whether eta (in the units of the solvers) is not below c(s); offers s as incumbent."""
        fit = self.run.problem.refit(self.master.kept[s > 0.5])
        if fit.objective < self.run.best.objective:
            self.run.offer(fit.support)
        value = self.master.eta(fit.objective)
        return value - eta <= ACCEPT * max(1.0, abs(value))

    def cuts(self, s: Array, eta: float) -> list[Cut]:
        """Return cuts that remove (s, eta), none where no more can be said.

        A support gets its tangent and, among few monomials, the corner of a larger set that costs
        too much as well; if it comes back, its own corner.  If it comes back even then it is let
        pass, which costs tightness of the bound and never its validity.
        """
        if self.accepts(s, eta):
            return []
        key = np.packbits(s > 0.5).tobytes()
        visits = self._seen[key] = self._seen.get(key, 0) + 1
        s = np.where(s > 0.5, 1.0, 0.0)
        floor = self.run.bound if self.clip else 0.0
        cuts = list[Cut]()
        if visits == 1:
            cuts.append(self.master.tangent(s).clipped(floor))
            larger = self._extended(s) if self.clip and len(s) <= MOST_EXTENDED else s
            if larger.sum() > s.sum():
                cuts.append(self._corner(larger, floor))
        elif visits == 2:
            cuts.append(self._corner(s, floor))
        self.added += cuts
        self.run.cuts += len(cuts)
        return cuts

    def _corner(self, s: Array, floor: float) -> Cut:
        """Return the corner of a set of monomials, of whatever size: no part of it costs less."""
        problem = self.run.problem
        value = least_cost(problem, problem.refit(self.master.kept[s > 0.5]))
        return self.master.corner(s, value, floor)

    def _extended(self, s: Array) -> Array:
        """Add the monomials that gain least to a support while it costs more than is sought.

        Nothing within such a set is a better model, so that one cut removes all supports in it:
        with little ridge and few rows, tangents alone would remove one after another.
        """
        kept, problem, more = self.master.kept, self.run.problem, s.copy()
        state = SwapState(problem, len(kept), kept[s > 0.5])
        while len(state.support) < len(kept):
            gains = np.where(more > 0.5, np.inf, state.gains()[kept])
            j = int(np.argmin(gains))
            if not state.objective - gains[j] > self.run.threshold:
                break
            more[j] = 1.0
            state.load(kept[more > 0.5])
        return more
