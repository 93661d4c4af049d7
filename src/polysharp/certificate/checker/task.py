"""What a proof is checked against, from its statement and the rows alone.

The monomials are listed from the rules, m_j = scale_j prod_i (x_i - shift_i) / unit_i, centred
by their weighted means where the intercept is free, and G = M'VM, q = M'Vy, yy = y'Vy.  The
rules say which supports are allowed, and what follows once some monomials are in or out.

Part of the checker: nothing here is shared with the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, isfinite, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from polysharp.certificate.statement import Statement

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
States = NDArray[np.int8]  # 1 in, 0 free, -1 out
Pair = tuple[States, States]  # of monomials and of inputs
IN, FREE, OUT = 1, 0, -1

EPS = 2.0**-52
BLOCK = 4096  # rows of the design held at once


class Rejected(Exception):
    """The first thing that is wrong with a proof."""


class Empty(Exception):
    """The fixings leave no allowed support."""


def demand(holds: bool | np.bool_, otherwise: str) -> None:
    """Reject the proof unless something holds."""
    if not holds:
        raise Rejected(otherwise)


def check_statement(s: Statement) -> None:
    """Reject a statement that is not sound or whose monomials are not all that it allows."""
    p, kept = s.n_inputs, list(s.kept_inputs)
    demand(kept == sorted(set(kept) & set(range(p))), "kept_inputs are not inputs in order")
    demand(np.shape(s.shift) == np.shape(s.scale) == (p,), "shift or scale has a wrong length")
    demand(np.isfinite(s.shift).all() and np.isfinite(s.scale).all(), "shift or scale is no number")
    demand(np.all(s.scale > 0.0), "scale is not positive")
    demand(isfinite(s.gamma) and s.gamma > 0.0, "gamma is not positive")
    demand(min(s.degree, s.max_terms, s.max_inputs) >= 1, "degree or a budget is below 1")
    demand(s.heredity in {None, "weak", "strong"}, "heredity is unknown")
    demand(set(s.required_inputs) <= set(kept), "a required input is not kept")
    demand(list(s.monomials) == _monomials(s), "the monomials are not all that the rules allow")
    demand(set(s.required_terms) <= set(s.monomials), "a required term is not a candidate")


def _monomials(s: Statement) -> list[tuple[int, ...]]:
    """All monomials of the statement's kind, degree by degree."""
    level: list[tuple[int, ...]] = [()]
    shaped = [] if s.fit_intercept else level.copy()
    for _ in range(s.degree):
        longer = [(*m, i) for m in level for i in s.kept_inputs if not m or i >= m[-1]]
        level = [m for m in longer if _shape_allowed(m, s)]
        shaped += level
    kept: dict[tuple[int, ...], None] = {}
    for m in shaped:
        present = [parent in kept for parent in _parents(m)]
        enough = {None: True, "strong": all(present), "weak": any(present) or not present}
        if enough[s.heredity] and m not in s.excluded_terms:
            kept[m] = None
    return list(kept)


def _shape_allowed(m: tuple[int, ...], s: Statement) -> bool:
    distinct = len(set(m))
    return distinct <= s.max_interaction and (distinct < 2 or len(m) <= s.interaction_degree)


def _parents(m: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The monomials with one factor less; those of one factor have none."""
    return {m[:a] + m[a + 1 :] for a in range(len(m))} if len(m) > 1 else set()


def read_rows(s: Statement, X: Any, y: Any, weight: Any) -> tuple[Array, Array, Array]:
    """Return X, y and the weights as numbers."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(-1)
    v = np.asarray(1.0 if weight is None else weight, dtype=np.float64)
    v = v.reshape(-1) if v.ndim else np.full(len(y), v)
    demand(X.shape == (len(y), s.n_inputs), f"X is no table of {s.n_inputs} inputs by {len(y)}")
    demand(len(y) > 0 and v.shape == y.shape, "y and sample_weight do not have a value per row")
    demand(all(np.isfinite(a).all() for a in (X, y, v)), "the data are not finite")
    demand(np.all(v >= 0.0) and v.sum() > 0.0, "sample_weight is negative or all zero")
    size = sqrt(v.sum()) * float(np.abs(y).max())
    within = 1e-30 <= v.sum() <= 1e30 and (size == 0.0 or 1e-75 <= size <= 1e75)
    demand(within, "y or sample_weight is too large or too small: its powers leave the floats")
    return X, y, v


def _design(s: Statement, U: Array) -> Array:
    """The scaled monomials at rows of coded inputs U, column by column."""
    M = np.empty((len(U), len(s.monomials)), order="F")
    for j, m in enumerate(s.monomials):
        repeats = prod(factorial(m.count(i)) for i in set(m))
        M[:, j] = sqrt(factorial(s.degree) // (factorial(s.degree - len(m)) * repeats))
        for i in m:
            M[:, j] *= U[:, i]
    return M


@dataclass(frozen=True, eq=False)
class Task:
    """Moments, ridge and rules, recomputed."""

    G: Array
    q: Array
    yy: float
    lam: float
    norms: Array  # |m_j|
    unit: float  # relative rounding of products: u of the checker
    rounding: float  # of yy
    rules: Rules

    @classmethod
    def of(cls, s: Statement, X: Array, y: Array, v: Array) -> Task:
        """Compute the moments by blocks of rows."""
        f, root = len(s.monomials), np.sqrt(v)
        U = (X - s.shift) / s.scale
        blocks = [slice(a, a + BLOCK) for a in range(0, len(y), BLOCK)]
        mean, t = np.zeros(f), y
        if s.fit_intercept:
            for b in blocks:
                mean += v[b] @ _design(s, U[b]) / v.sum()
            t = y - v @ y / v.sum()
        G, q = np.zeros((f, f)), np.zeros(f)
        for b in blocks:
            M = _design(s, U[b])
            M -= mean
            M *= root[b, None]
            G += M.T @ M
            q += M.T @ (root[b] * t[b])
        yy, size = float(v @ (t * t)), 1e-14 * sqrt(v @ (y * y))
        return cls(
            G=G,
            q=q,
            yy=yy,
            lam=1.0 / s.gamma,
            norms=np.sqrt(np.diagonal(G)),
            unit=EPS * (16.0 + sqrt(len(y))),
            rounding=size * (sqrt(yy) + size),
            rules=Rules(s),
        )


def _fix(states: States, where: Any, value: int) -> None:
    if np.any(states[where] == -value):
        raise Empty
    states[where] = value


def _count(a: Any, b: Any) -> Any:
    """Return the product of zeros and ones in float32, in which counts are exact.

    Kernels of some BLAS raise the flag of invalid values for what lies beside a vector in memory.
    """
    with np.errstate(invalid="ignore"):
        return a @ b


class Rules:
    """Budgets, hierarchy, requirements and heredity over the monomials of a statement."""

    def __init__(self, s: Statement) -> None:
        place = {m: j for j, m in enumerate(s.monomials)}
        column = {i: a for a, i in enumerate(s.kept_inputs)}
        self.uses = np.zeros((len(place), len(column)), dtype=np.float32)
        for m, j in place.items():
            self.uses[j, [column[i] for i in m]] = 1.0
        self.max_terms, self.max_inputs, self.heredity = s.max_terms, s.max_inputs, s.heredity
        self.required_terms = np.array([place[m] for m in s.required_terms], dtype=np.intp)
        self.required_inputs = np.array([column[i] for i in s.required_inputs], dtype=np.intp)
        heirs = place.items() if s.heredity else ()
        pairs = [(j, place[a]) for m, j in heirs for a in _parents(m) if a in place]
        self.child, self.parent = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        self.n_parents = np.bincount(self.child, minlength=len(place))

    def root(self) -> Pair:
        """States of monomials and inputs where only what is required is fixed."""
        terms, inputs = (np.zeros(size, dtype=np.int8) for size in self.uses.shape)
        terms[self.required_terms], inputs[self.required_inputs] = IN, IN
        return terms, inputs

    def split(self, states: Pair, on_inputs: bool, chain: Indices, a: int) -> Pair | None:
        """States of child a of a chain; None where it has no support."""
        both = states[0].copy(), states[1].copy()
        try:
            _fix(both[on_inputs], chain[:a], IN)
            _fix(both[on_inputs], chain[a : a + 1], OUT)
        except Empty:
            return None
        return both

    def allows(self, support: Indices) -> bool:
        """Whether a support meets every rule."""
        terms, inputs = self.root()
        missing = np.setdiff1d(self.required_terms, support)
        terms[:] = OUT
        terms[support] = IN
        try:
            self.deduce(terms, inputs)
        except Empty:
            return False
        return not len(missing)

    def screen(self, terms: States, out: Indices, inn: Indices) -> None:
        """Fix monomials out and in."""
        _fix(terms, out, OUT)
        _fix(terms, inn, IN)

    def deduce(self, terms: States, inputs: States) -> None:
        """Fix in place what follows from the fixings; raise Empty where no support is left."""
        before, now = -1, 0
        while before != now:
            before = now
            self._apply_hierarchy(terms, inputs)
            if self.heredity is not None:
                self._apply_heredity(terms)
            count = int(np.count_nonzero(terms == IN))
            if count > self.max_terms:
                raise Empty
            if count == self.max_terms:
                terms[terms == FREE] = OUT
            now = 1 + int(np.count_nonzero(terms)) + int(np.count_nonzero(inputs))

    def _apply_hierarchy(self, terms: States, inputs: States) -> None:
        _fix(inputs, _count((terms == IN).astype(np.float32), self.uses) > 0.0, IN)
        left = self.max_inputs - int(np.count_nonzero(inputs == IN))
        if left < 0:
            raise Empty
        if left == 0:
            inputs[inputs == FREE] = OUT
        lost = _count(self.uses, (inputs == OUT).astype(np.float32)) > 0.0
        new = _count(self.uses, (inputs == FREE).astype(np.float32))
        _fix(terms, lost | (new > left), OUT)
        for i in self.required_inputs:
            users = np.flatnonzero((self.uses[:, i] > 0.0) & (terms != OUT))
            if not len(users):
                raise Empty
            if len(users) == 1:
                terms[users] = IN

    def _apply_heredity(self, terms: States) -> None:
        child, parent = self.child, self.parent
        gone = np.bincount(child, weights=terms[parent] == OUT, minlength=len(terms))
        if self.heredity == "strong":
            _fix(terms, gone > 0, OUT)
            _fix(terms, parent[terms[child] == IN], IN)
        else:
            _fix(terms, (self.n_parents > 0) & (gone == self.n_parents), OUT)
            last = (terms == IN) & (self.n_parents - gone == 1)
            _fix(terms, parent[last[child] & (terms[parent] != OUT)], IN)
