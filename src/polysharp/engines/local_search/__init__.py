"""Local search: good supports from closed-form gains, fast and without proof.

tableau        the regressions on a support, ready for every move: formulas, records, rules
swap_kernel    the compiled moves
swap_state     a support on the move, for every form of G
moves          moves of several monomials, and of several responses in boxes
walks          good supports of one size and of every size, and the engine
"""

from polysharp.engines.local_search.walks import (
    LocalSearch,
    every_size,
    forward,
    improve,
    restarts,
)

__all__ = ["LocalSearch", "every_size", "forward", "improve", "restarts"]
