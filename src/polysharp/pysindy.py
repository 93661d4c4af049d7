"""An optimizer for pysindy: equations with few terms, each with its certificate.

pysindy builds a library Theta (n x f) of functions of the state and asks an optimizer for sparse
coefficients of every derivative.  Here equation t with at most l terms is the best subset problem

    c_t(l) = min 1/2 |dx_t - Theta w|^2 + 1/(2 gamma) |w|^2   with at most l nonzero w_j

over columns divided by their root mean squares: ``polysharp.path`` at degree 1.  A joint budget K
asks for min sum_t c_t(l_t) over sum_t l_t <= K.  Given every c_t(l) with a lower bound, a small
dynamic programme divides K optimally; run on the lower bounds, it bounds every other division.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.errors import InputError, MissingSolverError
from polysharp.estimators.path import PathPoint, path
from polysharp.progress import relative_gap
from polysharp.typing import Array

try:
    from pysindy.optimizers import BaseOptimizer
except ModuleNotFoundError as error:
    raise MissingSolverError(
        "polysharp.pysindy needs the package pysindy, which is not installed; "
        "run 'pip install pysindy'"
    ) from error


class ExactOptimizer(BaseOptimizer):  # type: ignore[misc]
    """Best subset regression for every equation of a dynamical system, with certificates.

    Parameters
    ----------
    max_terms : int or sequence of int, default=5
        Maximum number of terms in each equation: one number for all, or one for each.
    joint_terms : int or None, default=None
        Maximum number of terms in all equations together, divided among them optimally.
    gamma : float or "auto", default=1000.0
        The ridge on the coefficients of the scaled columns is 1 / gamma: weak, so that it does not
        influence which terms are chosen.
    time_limit : float or None, default=60.0
        Seconds for each equation, all its sizes together.
    gap_tol : float, default=1e-4
        Relative gap at which an equation counts as proved.
    normalize_columns, copy_X, initial_guess, unbias
        As in every optimizer of pysindy; ``unbias`` refits the chosen terms without the ridge.
        An initial guess has no influence.
    verbose : bool, default=False
        Show the progress of every equation.

    Attributes
    ----------
    coef_ : ndarray of shape (n_equations, n_functions)
        The coefficients.
    solutions_ : tuple of Solution or None
        Objective, bound and gap of every equation; None for an equation without terms.
    objective_, bound_, gap_ : float
        The sum over the equations, the lower bound for every other choice of terms, and the gap.

    Examples
    --------
    >>> import numpy as np
    >>> from polysharp.pysindy import ExactOptimizer  # doctest: +SKIP
    >>> Theta = np.random.default_rng(0).standard_normal((50, 6))
    >>> dx = Theta[:, [0]] - 2.0 * Theta[:, [3]]
    >>> ExactOptimizer(max_terms=2).fit(Theta, dx).coef_.round(6)  # doctest: +SKIP
    array([[ 1.,  0.,  0., -2.,  0.,  0.]])
    """

    def __init__(
        self,
        max_terms: Any = 5,
        joint_terms: int | None = None,
        gamma: Any = 1e3,
        time_limit: float | None = 60.0,
        gap_tol: float = 1e-4,
        normalize_columns: bool = False,
        copy_X: bool = True,
        initial_guess: Any = None,
        unbias: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            normalize_columns=normalize_columns,
            copy_X=copy_X,
            initial_guess=initial_guess,
            unbias=unbias,
        )
        self.max_terms = max_terms
        self.joint_terms = joint_terms
        self.gamma = gamma
        self.time_limit = time_limit
        self.gap_tol = gap_tol
        self.verbose = verbose

    def _reduce(self, x: Array, y: Array) -> None:
        """Solve every equation; pysindy calls this with the library and the derivatives."""
        sizes = self._sizes(x.shape[1], y.shape[1])
        rows = [self._points(x, y[:, t], sizes[t]) for t in range(y.shape[1])]
        empty = 0.5 * np.einsum("nt,nt->t", y, y)
        objectives, bounds = (
            [
                np.array([zero, *(getattr(point, name) for point in row)])
                for zero, row in zip(empty, rows, strict=True)
            ]
            for name in ("objective", "bound")
        )
        total = sum(len(row) for row in rows) if self.joint_terms is None else self.joint_terms
        self.objective_, chosen = divide(objectives, int(total))
        self.bound_, _ = divide(bounds, int(total))
        self.gap_ = relative_gap(self.objective_, self.bound_)
        self.coef_ = np.zeros((y.shape[1], x.shape[1]))
        solutions: list[Solution | None] = []
        for t, (row, place) in enumerate(zip(rows, chosen, strict=True)):
            point = row[place - 1] if place else None
            solutions.append(None if point is None else point.solution)
            if point is not None:
                columns = [monomial[0] for monomial in point.polynomial.monomials]
                self.coef_[t, columns] = point.polynomial.coefficients
        self.solutions_ = tuple(solutions)
        self.history_.append(self.coef_)

    def _sizes(self, functions: int, equations: int) -> list[list[int]]:
        """Return the numbers of terms that each equation is solved for."""
        given = self.max_terms
        largest = [given] * equations if isinstance(given, Integral) else list(given)
        if len(largest) != equations or not all(_counts(size) for size in largest):
            raise InputError(
                "max_terms must be a positive integer, or one for each of the "
                f"{equations} equations, got {given!r}"
            )
        if self.joint_terms is None:
            return [[min(int(size), functions)] for size in largest]
        if not _counts(self.joint_terms):
            raise InputError(
                f"joint_terms must be a positive integer or None, got {self.joint_terms!r}"
            )
        return [list(range(1, min(int(size), functions, self.joint_terms) + 1)) for size in largest]

    def _points(self, x: Array, y: Array, sizes: list[int]) -> list[PathPoint]:
        """Solve one equation for several numbers of terms."""
        if not y.any():
            return []  # a derivative that is zero needs no term
        return list(
            path(
                x, y, degree=1, max_terms=sizes, gamma=self.gamma, time_limit=self.time_limit,
                gap_tol=self.gap_tol, fit_intercept=False, exclude_terms=[()], n_candidates=None,
                verbose=int(self.verbose),
            )
        )  # fmt: skip


def divide(costs: list[Array], total: int) -> tuple[float, list[int]]:
    """Return the least sum of one entry per row whose places sum to at most ``total``.

    A row of two entries means 'no term, or the one size', which costs one place.
    """
    least = np.zeros(total + 1)
    choices = []
    for row in costs:
        options = np.full((len(row), total + 1), np.inf)
        for place in range(min(len(row), total + 1)):
            options[place, place:] = row[place] + least[: total + 1 - place]
        choices.append(options.argmin(axis=0))
        least = options.min(axis=0)
    places, left = [], total
    for choice in reversed(choices):
        places.append(int(choice[left]))
        left -= places[-1]
    return float(least[total]), places[::-1]


def _counts(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0
