"""polysharp: the tree, which proves its answer, or local search, which does not."""

import warnings

from benchopt import BaseSolver

from polysharp import SparsePolynomialRegressor


class Solver(BaseSolver):
    """``SparsePolynomialRegressor`` with the engine that is named."""

    name = "polysharp"
    requirements = ["pip::polysharp"]
    sampling_strategy = "run_once"
    parameters = {"engine": ["tree", "local-search"], "time_limit": [60.0]}

    def set_objective(self, X, y, degree, max_terms, max_inputs, gamma):
        """Take the inputs as they are: the objective has scaled them."""
        self.X, self.y = X, y
        self.model = SparsePolynomialRegressor(
            degree,
            max_terms,
            max_inputs,
            gamma=gamma,
            scale=False,
            engine=self.engine,
            time_limit=self.time_limit,
            random_state=0,
        )

    def warm_up(self):
        """Compile, untimed."""
        self.run(None)

    def run(self, _):
        """Fit; a search that ran out of time still has its best model."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.fit(self.X, self.y)

    def get_result(self):
        """Return the chosen monomials."""
        return {"terms": self.model.polynomial_.monomials}
