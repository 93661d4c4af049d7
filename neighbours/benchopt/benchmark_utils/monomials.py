"""Monomials of the scaled basis, from its definition."""

from collections import Counter
from math import factorial, prod

import numpy as np


def design(X, terms, degree):
    """Return the scaled monomials at the rows of X, centred as for a free intercept."""
    columns = []
    for term in terms:
        repeats = [*Counter(term).values(), degree - len(term)]
        orderings = factorial(degree) / prod(map(factorial, repeats))
        columns.append(np.sqrt(orderings) * np.prod(X[:, list(term)], axis=1))
    M = np.column_stack(columns)
    return M - M.mean(axis=0)
