"""Branch and bound for several responses with one support: the engine ``tree`` where they differ.

branching    nodes of several responses, and supports rounded from them
relaxation   the solver of a node's relaxation
ends         all supports of a node, tried one by one
supports     incumbents, and supports of every size; growth has the compiled way to these
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from polysharp.engines.compiling import Compiler
from polysharp.engines.joint import relaxation
from polysharp.engines.joint.branching import JointKind
from polysharp.engines.tree import Tree
from polysharp.engines.tree.branching import ListedKind


@dataclass(frozen=True)
class JointTree(Tree):
    """The tree engine for a ``JointProblem``.

    Trying supports neither looks at the clock nor passes any over: it gets less time.
    """

    kind: ClassVar[type[ListedKind]] = JointKind
    kernel: ClassVar[Compiler] = relaxation.kernel
    best_diagonals: bool = False
    ends_seconds: float = 0.02
    outright_share: float = 0.0
    late_share: float = 0.1
    explore_after: int = sys.maxsize
