"""Algorithm 2: allowed supports under tangents of c, with three solvers that branch.

- ``master``: rules and cuts; ``root``: linear programmes, with cuts at fractional points;
- ``outer``: the loop that all solvers share, and what they are told;
- ``scip``, ``gurobi``: one tree with cuts added as they are broken; ``highs``: a tree for each cut.
"""

from polysharp.engines.cutting_planes.gurobi import CuttingPlanesGurobi
from polysharp.engines.cutting_planes.highs import CuttingPlanesMultitree
from polysharp.engines.cutting_planes.scip import CuttingPlanes

__all__ = ["CuttingPlanes", "CuttingPlanesGurobi", "CuttingPlanesMultitree"]
