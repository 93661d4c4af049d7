"""Branch and bound for several responses with one support.

branching    how nodes are made, bounded and split
relaxation   the solver of a node's relaxation
supports     incumbents, and supports of every size; growth has the compiled way to these
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polysharp.certificate.proof import ProofWriter
from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.joint.branching import JointKind
from polysharp.engines.tree.loop import BranchAndBound
from polysharp.problem.joint import JointProblem
from polysharp.threads import one_blas_thread


@dataclass(frozen=True)
class JointTree(Engine):
    """The tree engine for a ``JointProblem``."""

    name: ClassVar[str] = "tree"
    needs_start: ClassVar[bool] = False
    max_open: int = 100_000
    max_proof: int = 5_000_000  # stored numbers beyond which the proof is given up
    patience: float = 15.0  # seconds after which a bound that has stopped moving ends the search

    def search(self, run: Run) -> Stop:
        """Prove the incumbent or improve it until the gap is closed."""
        assert isinstance(run.problem, JointProblem)
        with one_blas_thread():
            kind = JointKind(run.problem, run, ProofWriter(self.max_proof))
            loop = BranchAndBound(run, kind, self.max_open, self.patience)
            try:
                return loop.run()
            finally:
                # Interrupted with nodes in hand, the search leaves them unended: no proof.
                if loop.whole and not loop.hand:
                    run.proof = kind.proof([node for _, _, node in loop.open])
