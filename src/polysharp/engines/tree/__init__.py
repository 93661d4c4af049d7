"""Branch and bound on the perspective relaxation: polysharp's own engine.

loop         the open nodes, least bound first
branching    how a node over listed monomials is made, split and written into the proof
listed       the node itself: what it fixes, what is proved about it
bounding     how it is bounded: rules, few supports, relaxation, screening
few_supports nodes whose supports are tried one by one
sharpening   relaxations with their best diagonals, and with couplings
effort       settings, and what may be spent on a node
outlook      whether a node is coupled before it is split
ends         all supports of a node, tried one by one; ends_kernel has the compiled search
relaxation   the relaxation of a node with its safe bound; relaxation_kernel solves it, compiled
input_sets   all sets of inputs that fill the budget k, bounded one by one
rounding     incumbents
near_optimal every support within a factor of the best one
support_sink, support_store  where supports go that are found
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.tree import relaxation_pricing
from polysharp.engines.tree.branching import ListedKind
from polysharp.engines.tree.effort import Settings, Spending
from polysharp.engines.tree.ends import ready, ways
from polysharp.engines.tree.loop import BranchAndBound
from polysharp.engines.tree.support_sink import SupportSink
from polysharp.problem.problem import Problem
from polysharp.threads import one_blas_thread

FEW_TERMS, FEW_WAYS = 20, 1e6  # all supports are tried sooner than a relaxation is solved


@dataclass(frozen=True)
class Tree(Settings, Engine):
    """Settings of the branch and bound."""

    name: ClassVar[str] = "tree"
    needs_start: ClassVar[bool] = False
    max_open: int = 100_000  # nodes; an open one holds a byte per monomial and a sparse vector
    largest: int = 25_000
    # Seconds after which a search ends whose bound has stopped moving; infinite: it always goes on.
    patience: float = 15.0

    def check(self, problem: Problem) -> None:
        """Refuse problems whose Gram matrix would not fit in memory, and compile for the others."""
        super().check(problem)
        # No clock runs yet.  Where supports are so few that they are tried one by one, relaxations
        # are compiled only if it comes to them; where they are fewer still, nothing is.
        terms = problem.structure.max_terms
        if terms > FEW_TERMS or ways(problem.size, terms) > FEW_WAYS:
            relaxation_pricing.kernel.compile()
        ready(problem.structure, problem.size, problem.n_responses)

    def search(self, run: Run, sink: SupportSink | None = None) -> Stop:
        """Prove the incumbent or improve it until the gap is closed.

        ``sink`` takes the supports that are found; by default they become incumbents.
        """
        with one_blas_thread(), ThreadPoolExecutor(max(1, run.threads)) as pool:
            kind = ListedKind(self, run, pool, sink or SupportSink(run))
            width = self._width(kind.effort, run)
            loop = BranchAndBound(run, kind, self.max_open, self.patience, width)
            try:
                return loop.run()
            finally:
                kind.effort.cancelled = True
                # Interrupted with nodes in hand, the search leaves them unended: no proof.
                if loop.whole and not loop.hand:
                    run.proof = kind.proof([node for _, _, node in loop.open])

    def _width(self, effort: Spending, run: Run) -> int:
        """Return how many nodes are split at a time."""
        if effort.descents is not None:  # one product with G serves all of them
            return self.width
        # With children of several nodes at hand no thread waits for another's last child.
        return max(1, run.threads)
