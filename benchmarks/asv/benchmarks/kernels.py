"""Five kernels that decide how long a fit takes, watched from commit to commit by asv.

    pip install asv virtualenv
    cd benchmarks/asv
    asv continuous main HEAD        # before and after, on one machine in one run
    asv run main~20..main           # the last twenty commits; asv publish draws them

Each takes a fraction of a second on one core.  ``setup`` runs the kernel once, so that compiling
it is not timed.
"""

from __future__ import annotations

import numpy as np

from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV, rank_inputs
from polysharp.datasets import diabetes
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis
from polysharp.pricing.pricer import Pricer
from polysharp.synthetic import make_sparse_polynomial


class MomentsOfRows:
    """G, q and yy of 20,000 rows and 286 monomials."""

    def setup(self) -> None:
        """Draw the rows."""
        rng = np.random.default_rng(0)
        self.X, self.y = rng.standard_normal((20_000, 10)), rng.standard_normal(20_000)
        self.basis = Basis.full(10, 3)
        self.time_accumulate()

    def time_accumulate(self) -> None:
        """One pass over the rows."""
        accumulate(self.basis, self.X, self.y)


class RankingOfInputs:
    """Algorithm 1 on 1,000 rows and 400 inputs."""

    def setup(self) -> None:
        """Draw a planted law."""
        data = make_sparse_polynomial(1000, 400, 3, max_inputs=5, max_terms=5, random_state=0)
        self.X, self.y = data.X, data.y
        self.time_rank()

    def time_rank(self) -> None:
        """One ranking."""
        rank_inputs(self.X, self.y, degree=3)


class PricingOfMonomials:
    """The largest correlations over 182,104 monomials, none of them formed."""

    def setup(self) -> None:
        """Draw rows and a residual."""
        rng = np.random.default_rng(0)
        self.pricer = Pricer(rng.standard_normal((2000, 101)), 3)
        self.a = rng.standard_normal(2000)
        self.time_price()

    def time_price(self) -> None:
        """One pass over all monomials."""
        self.pricer.price(self.a, 50)


class ProofByTheTree:
    """Eight of the 65 monomials of the diabetes data, proved."""

    def setup(self) -> None:
        """Compile."""
        self.data = diabetes()
        self.time_prove()

    def fit(self) -> SparsePolynomialRegressor:
        """Fit with the settings whose work is counted."""
        model = SparsePolynomialRegressor(2, 8, gamma=1.0, time_limit=60.0, random_state=0)
        return model.fit(self.data.X, self.data.y)

    def time_prove(self) -> None:
        """One fit with its proof."""
        self.fit()

    def track_nodes(self) -> int:
        """Nodes of the tree, which no machine changes."""
        return self.fit().solution_.counters.nodes

    track_nodes.unit = "nodes"  # type: ignore[attr-defined]


class SearchOverBudgets:
    """Degree, number of terms and ridge chosen by five folds of 500 rows."""

    def setup(self) -> None:
        """Draw a planted law and compile."""
        data = make_sparse_polynomial(500, 6, 2, max_inputs=3, max_terms=4, random_state=0)
        self.X, self.y = data.X, data.y
        self.time_search()

    def time_search(self) -> None:
        """One search, without the certified fit at its end."""
        SparsePolynomialRegressorCV(
            (1, 2, 3), 10, cv=5, center=False, rule="best", refit=False, random_state=0
        ).fit(self.X, self.y)
