"""Local search as an engine: a good model at once, and no proof beyond its own residual.

Forward selection and swaps from the start at hand, then walks and restarts until several in a
row bring nothing.  The bound is the one that ``certify`` derives from the final residual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polysharp.certificate.solution import Stop
from polysharp.engines.base import Engine, Run
from polysharp.engines.local_search.search import forward, improve, restarts
from polysharp.problem.problem import Fit


@dataclass(frozen=True)
class LocalSearch(Engine):
    """Forward selection, swaps and restarted walks.

    Parameters
    ----------
    patience : int
        Walks in a row without improvement before the search ends.
    """

    name: ClassVar[str] = "local-search"
    proves: ClassVar[bool] = False
    needs_start: ClassVar[bool] = False
    patience: int = 20

    def search(self, run: Run) -> Stop:
        """Descend from the start and from forward selection, then walk from the better one."""
        problem, rng = run.problem, np.random.default_rng(run.seed)
        for start in (run.best.support, forward(problem).support):
            run.offer_fit(improve(problem, start, out_of_time=lambda: run.expired))
        run.raise_bound(problem.dual_bound(run.best))

        def on_walk(fit: Fit) -> None:
            run.rounds += 1
            if run.offer_fit(fit):
                run.raise_bound(problem.dual_bound(fit))
            run.report("walking")

        restarts(
            problem,
            run.best.support,
            rng,
            self.patience,
            out_of_time=lambda: run.expired,
            on_walk=on_walk,
        )
        return Stop.TIME if run.expired else Stop.LOCAL
