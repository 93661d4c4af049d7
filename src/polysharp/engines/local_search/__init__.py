"""Local search: good supports from closed-form gains, fast and without proof.

- ``kernel``: the compiled core, a regression on a support that changes one monomial at a time;
- ``model``: a support on the move, for every form of G;
- ``moves``: moves of several monomials, for rules that single swaps cannot get around;
- ``search``: a good support of one size; ``sizes``: of every size; ``engine``: as an engine.
"""

from polysharp.engines.local_search.engine import LocalSearch
from polysharp.engines.local_search.search import forward, improve, restarts
from polysharp.engines.local_search.sizes import every_size

__all__ = ["LocalSearch", "every_size", "forward", "improve", "restarts"]
