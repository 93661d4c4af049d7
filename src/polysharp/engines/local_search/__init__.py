"""Local search: good supports from closed-form gains, fast and without proof.

- ``kernel``: the compiled core, a regression on a support that changes one monomial at a time;
- ``model``: a support on the move, for every form of G;
- ``moves``: moves of several monomials, for rules that single swaps cannot get around;
- ``search``: a good support of one size, and the engine; ``sizes``: of every size.
"""

from polysharp.engines.local_search.search import LocalSearch, forward, improve, restarts
from polysharp.engines.local_search.sizes import every_size

__all__ = ["LocalSearch", "every_size", "forward", "improve", "restarts"]
