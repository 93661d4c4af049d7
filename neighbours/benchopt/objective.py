"""Best subset of monomials with budgets of terms and of inputs, as benchopt asks for it.

    min 1/2 |y - M_S w|^2 + 1/(2 gamma) |w|^2,   |S| <= max_terms, S uses at most max_inputs inputs

over sets S of monomials of degree 1 to r, in the scaled basis in which m(x)'m(x') = (1 + x'x')^r.
A solver returns the set; its coefficients follow from it, and are computed here for every method.
"""

import numpy as np
from benchmark_utils.monomials import design
from benchopt import BaseObjective


class Objective(BaseObjective):
    """Cost of the best coefficients on a set of monomials."""

    name = "Best subset of monomials"
    url = "https://polysharp.readthedocs.io"
    min_benchopt_version = "1.6"
    sampling_strategy = "run_once"
    parameters = {"max_terms": [5], "max_inputs": [3], "gamma_factor": [1.0]}

    def set_data(self, X, y, degree):
        """Divide inputs by their root mean square, as polysharp does, and centre the response."""
        self.X, self.y, self.degree = X / np.sqrt(np.mean(X**2, axis=0)), y - y.mean(), degree
        self.gamma = self.gamma_factor / np.sqrt(len(y))

    def get_objective(self):
        """Return what every solver is given."""
        return {
            "X": self.X,
            "y": self.y,
            "degree": self.degree,
            "max_terms": self.max_terms,
            "max_inputs": self.max_inputs,
            "gamma": self.gamma,
        }

    def evaluate_result(self, terms):
        """Return the cost of a set of monomials; infinite where it exceeds a budget."""
        terms = sorted(set(map(tuple, terms)))
        inputs = {i for term in terms for i in term}
        size = {"n_terms": len(terms), "n_inputs": len(inputs)}
        if len(terms) > self.max_terms or len(inputs) > self.max_inputs:
            return {"value": np.inf, **size}
        if not terms:
            return {"value": 0.5 * float(self.y @ self.y), **size}
        M = design(self.X, terms, self.degree)
        q = M.T @ self.y
        w = np.linalg.solve(M.T @ M + np.eye(len(terms)) / self.gamma, q)
        return {"value": 0.5 * float(self.y @ self.y - q @ w), **size}

    def get_one_result(self):
        """Return the empty set, which every budget allows."""
        return {"terms": []}
