"""Branch and bound on the perspective relaxation: polysharp's own engine.

loop             the open nodes, least bound first
branching        how a node over listed monomials is made, divided and written into the proof
search_state     what all parts of a search share: settings, nodes, starting points, supports found
scheduler        decides the next step at a node, by what steps take (cost_model)
bounder          the interface of what raises bounds, and coordinate descent on the relaxation:
    relaxation      the solver; compiled sweeps in relaxation_sweeps, of several responses in _rows
    descents        relaxations on a device
    shifts          best diagonals, pairwise shifts
    leaf_bounder    all supports of a node one by one (leaf_enumeration, leaf_kernel)
    input_sets      all sets of inputs that fill the budget k
rounding         incumbents
near_optimal     every support within a factor of the best one
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.tree import input_sets, relaxation_sweeps
from polysharp.engines.tree.branching import ListedKind
from polysharp.engines.tree.leaf_enumeration import compile_for, count_tests
from polysharp.engines.tree.loop import BranchAndBound
from polysharp.engines.tree.search_state import SearchState, Settings, SupportSink
from polysharp.problem.problem import Problem
from polysharp.threads import one_blas_thread

FEW_TERMS, FEW_TESTS = 20, 1e6  # all supports are enumerated sooner than a relaxation is solved


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
        # No clock runs yet.  What is surely needed is compiled: leaf enumeration if supports are so
        # few that they are enumerated, else relaxations.  The other waits until it is needed.
        terms = problem.structure.max_terms
        if terms > FEW_TERMS or count_tests(problem.size, terms) > FEW_TESTS:
            relaxation_sweeps.kernel.compile()
            if problem.structure.inputs_bind and problem.n_responses == 1:
                input_sets.kernel.compile()
        else:
            compile_for(problem.structure, problem.size, problem.n_responses)

    def search(self, run: Run, sink: SupportSink | None = None) -> Stop:
        """Prove the incumbent or improve it until the gap is closed.

        ``sink`` takes the supports that are found; by default they become incumbents.
        """
        with one_blas_thread(), ThreadPoolExecutor(max(1, run.threads)) as pool:
            state = SearchState(self, run, sink or SupportSink(run))
            kind = ListedKind(state, pool)
            # With children of several nodes at hand no thread waits for another's last child; for a
            # device one product with G serves all nodes.
            width = self.width if kind.scheduler.device else max(1, run.threads)
            loop = BranchAndBound(run, kind, self.max_open, self.patience, width)
            try:
                return loop.run()
            finally:
                state.cancelled = True
                # Interrupted with nodes in hand, the search leaves them unended: no proof.
                if loop.whole and not loop.hand:
                    run.proof = kind.proof([node for _, _, node in loop.open])
