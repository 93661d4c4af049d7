"""Algorithm 2: allowed supports under tangents of c, with three solvers that branch.

- ``master``: rules and cuts, the loop that all solvers share, and what they are told;
- ``root``: linear programmes, with cuts at fractional points;
- ``scip``, ``gurobi``: one tree with cuts added as they are broken; ``highs``: a tree for each cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.cutting_planes import gurobi, highs, scip
from polysharp.engines.cutting_planes.master import branch_again
from polysharp.engines.cutting_planes.root import prepare


@dataclass(frozen=True)
class OuterApproximation(Engine):
    """Algorithm 2 with some solver.

    Parameters
    ----------
    root_cuts : bool
        Add tangents at fractional points, fix columns and raise the ridge at the root; False is
        the paper's pure form, with cuts at binary points only.
    """

    solver: ClassVar[ModuleType]  # whose ``branch`` lets it branch on a master
    packages: ClassVar[tuple[str, ...]] = ("highspy",)
    largest = 25_000
    root_cuts: bool = True

    def search(self, run: Run) -> Stop:
        """Strengthen the root, then let the solver branch and ask for cuts."""
        master = prepare(run, root_cuts=self.root_cuts)
        return branch_again(run, master, self.solver.branch, self.root_cuts)


@dataclass(frozen=True)
class CuttingPlanes(OuterApproximation):
    """Outer approximation with lazy cuts in SCIP."""

    name: ClassVar[str] = "cutting-planes"
    packages: ClassVar[tuple[str, ...]] = ("pyscipopt", "highspy")
    solver: ClassVar[ModuleType] = scip


@dataclass(frozen=True)
class CuttingPlanesGurobi(OuterApproximation):
    """Outer approximation with lazy cuts in Gurobi."""

    name: ClassVar[str] = "cutting-planes-gurobi"
    packages: ClassVar[tuple[str, ...]] = ("gurobipy", "highspy")
    extra: ClassVar[str] = "gurobi"
    solver: ClassVar[ModuleType] = gurobi


@dataclass(frozen=True)
class CuttingPlanesMultitree(OuterApproximation):
    """Outer approximation by a sequence of integer programmes in HiGHS."""

    name: ClassVar[str] = "cutting-planes-multitree"
    solver: ClassVar[ModuleType] = highs
