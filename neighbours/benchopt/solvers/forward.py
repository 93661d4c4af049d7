"""Forward selection: always the monomial with the largest correlation that the budgets allow."""

from itertools import combinations_with_replacement

import numpy as np
from benchmark_utils.monomials import design
from benchopt import BaseSolver


class Solver(BaseSolver):
    """Orthogonal matching pursuit under both budgets, as a yardstick."""

    name = "forward"
    sampling_strategy = "run_once"

    def set_objective(self, X, y, degree, max_terms, max_inputs, gamma):
        """List all monomials."""
        self.y, self.max_terms, self.max_inputs, self.gamma = y, max_terms, max_inputs, gamma
        self.terms = [
            term
            for d in range(1, degree + 1)
            for term in combinations_with_replacement(range(X.shape[1]), d)
        ]
        self.M = design(X, self.terms, degree)

    def run(self, _):
        """Add one monomial after another."""
        chosen, residual = [], self.y
        while len(chosen) < self.max_terms:
            for j in np.argsort(-np.abs(self.M.T @ residual)):
                inputs = {i for c in [*chosen, j] for i in self.terms[c]}
                if j not in chosen and len(inputs) <= self.max_inputs:
                    break
            else:
                break
            chosen.append(int(j))
            M = self.M[:, chosen]
            w = np.linalg.solve(M.T @ M + np.eye(len(chosen)) / self.gamma, M.T @ self.y)
            residual = self.y - M @ w
        self.chosen = chosen

    def get_result(self):
        """Return the chosen monomials."""
        return {"terms": [self.terms[j] for j in self.chosen]}
