"""Which supports a statement speaks of, and what follows once some monomials are in or out.

The monomials are listed from the rules afresh, so that no candidate can be left out in silence.
Where they are too many to list, the statement names some of them and the rest stays implicit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.evidence import Positions, Statement, Term

Fixed = NDArray[np.int8]  # 1 in, 0 free, -1 out
IN, FREE, OUT = 1, 0, -1

MOST_LISTED = 100_000  # monomials; their Gram matrix would take 80 GB
MOST_DEGREE = 100


class Rejected(Exception):
    """The first thing that is wrong with a proof."""


class Empty(Exception):
    """The fixings leave no allowed support."""


def demand(holds: bool | np.bool_, otherwise: str) -> None:
    """Reject the proof unless something holds; a comparison with NaN does not."""
    if not holds:
        raise Rejected(otherwise)


def read_positions(given: Any, size: int, what: str) -> Positions:
    """Return positions below ``size``, all different."""
    index = np.array(given, dtype=np.intp)
    demand(index.ndim == 1, f"{what} is no list")
    demand(np.all((index >= 0) & (index < size)), f"{what} leaves the problem")
    demand(np.all(np.diff(np.sort(index)) > 0), f"{what} repeats itself")
    return index


@dataclass(eq=False)
class Fixings:
    """What is in, free or out at a node; ``rest`` says whether unlisted monomials are alive."""

    terms: Fixed
    inputs: Fixed
    rest: bool

    def copy(self) -> Fixings:
        """Return an independent copy."""
        return Fixings(self.terms.copy(), self.inputs.copy(), self.rest)


def check_statement(s: Statement) -> None:
    """Reject a statement that is not sound or whose monomials are not all that it allows."""
    demand(isinstance(s, Statement), "the proof has no statement")
    p, kept = len(s.names), list(s.kept_inputs)
    demand(kept == sorted(set(kept)), "kept_inputs are not inputs in order")
    demand(not kept or (kept[0] >= 0 and kept[-1] < p), "kept_inputs are not inputs of the table")
    demand(all(0 <= i < p for i, _ in s.functions), "a function is not one of an input")
    demand(len(set(s.functions)) == len(s.functions), "a function is named twice")
    width = p + len(s.functions)
    demand(np.shape(s.shift) == np.shape(s.scale) == (width,), "shift or scale has a wrong length")
    demand(not np.any(s.shift[p:]), "a function is shifted")
    demand(np.isfinite(s.shift).all() and np.isfinite(s.scale).all(), "shift or scale is no number")
    demand(np.all(s.scale > 0.0), "scale is not positive")
    demand(isfinite(s.gamma) and 1e-100 <= s.gamma <= 1e100, "gamma is not within 1e-100 and 1e100")
    demand(min(s.degree, s.max_terms, s.max_inputs) >= 1, "degree or a budget is below 1")
    most = max(len(s.monomials), 1) if s.listed else MOST_LISTED
    demand(s.max_terms <= most and s.max_inputs <= max(p, 1), "a budget is larger than the problem")
    demand(s.degree <= MOST_DEGREE, "the degree is too high")
    demand(s.heredity in {None, "weak", "strong"}, "heredity is unknown")
    demand(set(s.required_inputs) <= set(kept), "a required input is not kept")
    if s.listed:
        whole = list(s.monomials) == list(all_monomials(s))
        demand(whole, "the monomials are not all that the rules allow")
    else:
        demand(_are_allowed(s), "a monomial is named twice or not one that the rules allow")
    demand(set(s.required_terms) <= set(s.monomials), "a required term is not a candidate")
    ridge = s.refit_gamma
    demand(ridge is None or (isfinite(ridge) and ridge > 0.0), "refit_gamma is no ridge")
    everywhere, inputs, terms = s.coefficients
    limits = [everywhere, *(interval for _, interval in (*inputs, *terms))]
    demand(all(low <= 0.0 <= high for low, high in limits), "an interval of coefficients lacks 0")
    inside = all(0 <= i < p for i, _ in inputs) and all(0 <= c < width for m, _ in terms for c in m)
    demand(inside, "an interval of coefficients names no input of the table")
    once = len(dict(inputs)) == len(inputs) and len(dict(terms)) == len(terms)
    demand(once, "an interval is stated twice")


def owner(c: int, s: Statement) -> int:
    """The input of a column: itself, or what it is a function of."""
    return c if c < len(s.names) else s.functions[c - len(s.names)][0]


def columns_of(inputs: Iterable[int], s: Statement) -> dict[int, list[int]]:
    """The columns of some inputs: each itself, then functions of it."""
    columns = {i: [i] for i in inputs}
    for c, (i, _) in enumerate(s.functions, start=len(s.names)):
        if i in columns:
            columns[i].append(c)
    return columns


def is_trivial(m: Term, s: Statement) -> bool:
    """Whether it holds an input and its inverse, a square root or an input of two values twice."""
    p, owners = len(s.names), [owner(c, s) for c in m]
    if any(owners.count(i) > 1 for i in s.two_valued):
        return True
    kinds = [(i, "" if c < p else s.functions[c - p][1]) for c, i in zip(m, owners, strict=True)]
    return bool(s.functions) and any(
        a[0] == b[0] and {a[1], b[1]} in ({"", "inverse"}, {"square-root"})
        for a, b in combinations(kinds, 2)
    )


def shape_allowed(m: Term, s: Statement) -> bool:
    """Whether a monomial has the degree and the interactions of the statement's kind."""
    distinct = len({owner(c, s) for c in m})
    mixed = distinct < 2 or len(m) <= s.interaction_degree
    within = len(m) <= s.degree and distinct <= s.max_interaction and mixed
    return within and not is_trivial(m, s)


def all_monomials(s: Statement, most: int = MOST_LISTED) -> Iterator[Term]:
    """All monomials of the statement's kind, degree by degree."""
    level: list[Term] = [()]
    count, lives = 0, living(s)
    if not s.fit_intercept:
        yield from filter(lives, level)
    columns = columns_of(s.kept_inputs, s)
    every = sorted(c for own in columns.values() for c in own)
    for _ in range(s.degree):
        shorter, level = level, list[Term]()
        for m in shorter:
            inputs, among = {owner(c, s) for c in m}, every
            if m and (len(inputs) == s.max_interaction or len(m) >= s.interaction_degree):
                among = sorted(c for i in inputs for c in columns[i])  # no other input may join
            longer = ((*m, c) for c in among if not m or c >= m[-1])
            new = [one for one in longer if shape_allowed(one, s)]
            count += len(new)
            demand(count <= most, f"it has more than {most} monomials to list")
            yield from filter(lives, new)
            level += new


def alive_part(s: Statement, at: Fixings) -> Statement:
    """Return the statement about the inputs that are not out, and the degrees that fit in."""
    alive = tuple(i for i, mark in zip(s.kept_inputs, at.inputs, strict=True) if mark != OUT)
    # With heredity, ancestors down to degree one are terms too.
    degree = s.degree if s.heredity is None else min(s.degree, s.max_terms)
    return replace(s, kept_inputs=alive, degree=degree)


def _parents(m: Term) -> set[Term]:
    """The monomials with one factor less; those of one factor have none."""
    return {m[:a] + m[a + 1 :] for a in range(len(m))} if len(m) > 1 else set()


def living(s: Statement) -> Callable[[Term], bool]:
    """Return what says whether a monomial is not excluded, nor orphaned by what is."""
    excluded, enough = set(s.excluded_terms), all if s.heredity == "strong" else any

    @cache
    def lives(m: Term) -> bool:
        parents = _parents(m) if s.heredity is not None and excluded else ()
        return m not in excluded and (not parents or enough(map(lives, parents)))

    return lives


def _are_allowed(s: Statement) -> bool:
    """Whether the monomials of an incomplete list are of the kind, with the parents they need."""
    # With heredity every parent that may be in a model must be named as well: then what follows for
    # the named ones needs no knowledge of the others.
    named, kept, lives = set(s.monomials), set(s.kept_inputs), living(s)

    def is_sound(m: Term) -> bool:
        known = all(0 <= c < len(s.names) + len(s.functions) for c in m)
        shaped = known and m == tuple(sorted(m)) and shape_allowed(m, s)
        within = shaped and {owner(c, s) for c in m} <= kept and bool(m or not s.fit_intercept)
        parents = _parents(m) if s.heredity is not None and within else ()
        return within and lives(m) and all(a in named or not lives(a) for a in parents)

    return len(named) == len(s.monomials) <= MOST_LISTED and all(map(is_sound, s.monomials))


def _fix(states: Fixed, where: Any, value: int) -> None:
    if np.any(states[where] == -value):
        raise Empty
    states[where] = value


def _times(a: Any, b: Any) -> Any:
    """Return the product of zeros and ones in float32, in which counts are exact."""
    # Kernels of some BLAS raise the flag of invalid values for what lies beside a vector in memory.
    with np.errstate(invalid="ignore"):
        return np.asarray(a, np.float32) @ np.asarray(b, np.float32)


class Rules:
    """Budgets, hierarchy, requirements and heredity over the monomials of a statement."""

    def __init__(self, s: Statement) -> None:
        place = {m: j for j, m in enumerate(s.monomials)}
        column = {i: a for a, i in enumerate(s.kept_inputs)}
        self.uses = np.zeros((len(place), len(column)), dtype=np.float32)
        for m, j in place.items():
            self.uses[j, [column[owner(c, s)] for c in m]] = 1.0
        self.max_terms, self.max_inputs, self.heredity = s.max_terms, s.max_inputs, s.heredity
        self.listed, self.exact_size = s.listed, s.exact_size
        self.required_terms = np.array([place[m] for m in s.required_terms], dtype=np.intp)
        self.required_inputs = np.array([column[i] for i in s.required_inputs], dtype=np.intp)
        heirs = place.items() if s.heredity else ()
        pairs = [(j, place[a]) for m, j in heirs for a in _parents(m) if a in place]
        self.child, self.parent = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        self.n_parents = np.bincount(self.child, minlength=len(place))

    def root(self) -> Fixings:
        """Fixings where only what is required is in."""
        terms, inputs = (np.zeros(size, dtype=np.int8) for size in self.uses.shape)
        terms[self.required_terms], inputs[self.required_inputs] = IN, IN
        return Fixings(terms, inputs, not self.listed)

    def split(self, at: Fixings, on_inputs: bool, chain: Positions, a: int) -> Fixings | None:
        """Fixings of child a of a chain; None where it has no support."""
        child = at.copy()
        states = child.inputs if on_inputs else child.terms
        try:
            _fix(states, chain[:a], IN)
            _fix(states, chain[a : a + 1], OUT)
        except Empty:
            return None
        return child

    def allows(self, support: Positions) -> bool:
        """Whether a support meets every rule."""
        at = self.root()
        at.terms[:], at.rest = OUT, False
        at.terms[support] = IN
        try:
            self.deduce(at)
        except Empty:
            return False
        return bool((at.terms[self.required_terms] == IN).all())

    def room(self, at: Fixings) -> int:
        """Return L, how many monomials may still be chosen."""
        return self.max_terms - int(np.count_nonzero(at.terms == IN))

    def input_room(self, at: Fixings) -> int:
        """Return how many inputs may still be chosen."""
        return self.max_inputs - int(np.count_nonzero(at.inputs == IN))

    def screen(self, at: Fixings, out: Positions, inn: Positions) -> None:
        """Fix monomials out and in, and what follows from it."""
        _fix(at.terms, out, OUT)
        _fix(at.terms, inn, IN)
        self.deduce(at)

    def deduce(self, at: Fixings) -> None:
        """Fix in place what follows from the fixings; raise Empty where no support is left."""
        before, now = -1, 0
        while before != now:
            before = now
            self._apply_hierarchy(at)
            if self.heredity is not None:
                self._apply_heredity(at.terms)
            left = self.room(at)
            if left < 0:
                raise Empty
            if left == 0:
                at.terms[at.terms == FREE], at.rest = OUT, False
            elif self.exact_size and not at.rest:
                free = np.flatnonzero(at.terms == FREE)
                if len(free) < left:
                    raise Empty
                if len(free) == left:
                    at.terms[free] = IN
            now = 1 + int(np.count_nonzero(at.terms)) + int(np.count_nonzero(at.inputs))

    def _apply_hierarchy(self, at: Fixings) -> None:
        terms, inputs = at.terms, at.inputs
        _fix(inputs, _times(terms == IN, self.uses) > 0.0, IN)
        left = self.input_room(at)
        if left < 0:
            raise Empty
        free = inputs == FREE
        if left == 0:
            inputs[free] = OUT
        elif np.count_nonzero(free) <= left:  # no support is lost: an input that is in may be idle
            inputs[free] = IN
        lost = _times(self.uses, inputs == OUT) > 0.0
        new = _times(self.uses, inputs == FREE)
        _fix(terms, lost | (new > left), OUT)
        for i in self.required_inputs if not at.rest else ():
            users = np.flatnonzero((self.uses[:, i] > 0.0) & (terms != OUT))
            if not len(users):
                raise Empty
            if len(users) == 1:
                terms[users] = IN

    def _apply_heredity(self, terms: Fixed) -> None:
        child, parent = self.child, self.parent
        gone = np.bincount(child, weights=terms[parent] == OUT, minlength=len(terms))
        if self.heredity == "strong":
            _fix(terms, gone > 0, OUT)
            _fix(terms, parent[terms[child] == IN], IN)
        else:
            _fix(terms, (self.n_parents > 0) & (gone == self.n_parents), OUT)
            last = (terms == IN) & (self.n_parents - gone == 1)
            _fix(terms, parent[last[child] & (terms[parent] != OUT)], IN)
