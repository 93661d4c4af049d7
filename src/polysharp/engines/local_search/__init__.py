"""Local search: good supports from closed-form gains, fast and without proof.

tableau        the regressions on a support, ready for every move: formulas and records
swap_kernel    the compiled moves
swap_state     a support on the move, for every form of G
moves          moves of several monomials, for rules that single swaps cannot get around
walks          a good support of one size, and the engine
best_by_size   good supports of every size
boxed_rows     the same for several responses whose coefficients are bounded
"""

from polysharp.engines.local_search.best_by_size import every_size
from polysharp.engines.local_search.walks import LocalSearch, forward, improve, restarts

__all__ = ["LocalSearch", "every_size", "forward", "improve", "restarts"]
