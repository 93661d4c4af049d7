"""The tree of ``tree.branching`` for several responses with one support.

Nodes are made, screened, split and written into the proof as those of one response are: prices add
over the responses.  What differs is how a relaxation is solved, how all supports are gone through,
and how supports are improved.  Best diagonals are those of one response; here the curvature that a
core can spare moves into the ridge once, for all nodes below (``JointCore.strengthened``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polysharp.engines.joint.ends import PAIR, exhaust, ready
from polysharp.engines.joint.relaxation import relax
from polysharp.engines.joint.supports import improve
from polysharp.engines.tree.branching import ListedKind
from polysharp.engines.tree.listed import ListedNode
from polysharp.engines.tree.relaxation import Aim, Relaxed, Warm
from polysharp.engines.tree.rounding import Rounding
from polysharp.problem.joint import JointCore, JointProblem
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array, Indices


class JointNode(ListedNode):
    """A node whose relaxation has a row of coefficients for each response."""

    core: JointCore
    exhaust = staticmethod(exhaust)
    ready = staticmethod(ready)

    def start_at(self, w: Array, nu: float) -> None:
        """Let the relaxation start at some coefficients; it computes rho afresh."""
        self.warm = Warm(w, w[:0], nu)

    def relaxed(self, aim: Aim) -> Relaxed:
        """Solve the relaxation from where it stands."""
        assert self.warm is not None
        return relax(self.core, self.terms, self.budget, self.warm, aim)


class JointRounding(Rounding):
    """Offers supports that swaps improve for all responses together."""

    def start(self, core: Subproblem, factor: float = 1.0) -> Warm:
        """Return the incumbent as the starting point of a relaxation, with no price of budget."""
        del factor
        W = np.zeros_like(core.q)
        W[:, self.state.best.support] = self.state.best.w
        return Warm(W, W[:0], 0.0)

    def improve(self, support: Indices) -> None:
        """Offer what swaps make of a support."""
        assert isinstance(self.state.problem, JointProblem)
        self.state.offer_fit(improve(self.state.problem, support, self.expired))

    walk = improve


@dataclass(eq=False)
class JointKind(ListedKind):
    """Makes, splits and records the nodes of one search."""

    core_type: ClassVar[type[Subproblem]] = JointCore
    node_type: ClassVar[type[ListedNode]] = JointNode
    rounding_type: ClassVar[type[Rounding]] = JointRounding

    most_sets: int = 0  # sets of inputs are bounded for one response only

    def __post_init__(self) -> None:
        super().__post_init__()
        assert isinstance(self.run.problem, JointProblem)
        self.effort.pair = PAIR * (len(self.run.problem.responses) + 2.0)
        self.effort.tried = dict.fromkeys(range(64), 1.0)  # none is passed over
