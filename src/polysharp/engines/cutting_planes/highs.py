"""Algorithm 2 as the paper writes it: one integer programme after another, in HiGHS.

    solve the master  ->  (s, eta);     eta is a lower bound, c(s) an upper one;
    add the tangent at s;               until both meet.

HiGHS has no lazy constraints, so every round is a tree of its own; each starts from the
incumbent.  The bound of a round is HiGHS's own, which stands whether or not the round was solved to
the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.cutting_planes.master import TOLERANCE
from polysharp.engines.cutting_planes.outer import Dialogue, OuterApproximation
from polysharp.engines.cutting_planes.root import HighsModel
from polysharp.engines.interrupts import DeferredInterrupt
from polysharp.typing import Array


@dataclass(frozen=True)
class CuttingPlanesMultitree(OuterApproximation):
    """Outer approximation by a sequence of integer programmes in HiGHS."""

    name: ClassVar[str] = "cutting-planes-multitree"

    def branch(self, talk: Dialogue) -> Stop | None:
        """Add cuts until the last programme needs none, or the time is over."""
        run, programme = talk.run, _Programme(talk)
        while not (run.proved or run.expired):
            answer = programme.next()
            run.rounds += 1
            run.report("integer programme")
            cuts = [] if answer is None else talk.cuts(*answer)
            if not cuts:
                break
            for cut in cuts:
                programme.add(cut)
        return None


class _Programme(HighsModel):
    """The master in HiGHS, growing by a cut or two a round."""

    def __init__(self, talk: Dialogue) -> None:
        run = talk.run
        options = {
            "threads": run.threads,
            "random_seed": run.seed % 2**31,
            "mip_feasibility_tolerance": TOLERANCE,
            "primal_feasibility_tolerance": TOLERANCE,
            "dual_feasibility_tolerance": TOLERANCE,
            "mip_rel_gap": 0.0,
        }
        super().__init__(talk.master, options, binary=True)
        self.talk, self.ctrl_c = talk, DeferredInterrupt()
        # HiGHS asks now and then whether to go on.
        self.highs.cbMipInterrupt.subscribe(self._listen)

    def next(self) -> tuple[Array, float] | None:
        """Return (s, eta) of the best solution, None where the time ran out before one."""
        talk, highs = self.talk, self.highs
        highs.setOptionValue("mip_abs_gap", talk.gap(0.25))
        solution = self.api.HighsSolution()
        solution.col_value = np.append(*talk.start())
        highs.setSolution(solution)
        with DeferredInterrupt() as self.ctrl_c:
            solved = self.run(talk.run)
        talk.finish()
        info = highs.getInfo()
        talk.follow(info.mip_dual_bound, info.mip_node_count, "integer programme")
        talk.nodes_before = talk.run.nodes
        if not solved:
            return None
        x = np.array(highs.getSolution().col_value)
        return x[: len(talk.master.kept)], float(x[-1])

    def _listen(self, event: Any) -> None:
        bound, nodes = event.data_out.mip_dual_bound, event.data_out.mip_node_count
        self.talk.guarded(
            lambda: self.talk.follow(bound, nodes, "integer programme"), None, event.interrupt
        )
        if self.ctrl_c.pending:
            event.interrupt()
