"""Random small problems shared by the tests, drawn so that the awkward cases all occur.

``make_instance(seed)`` cycles through kinds of data (plain, correlated, duplicate columns,
ill-scaled columns, a large mean), kinds of rules (none, k binding, required terms and inputs,
strong and weak heredity), with and without a free intercept, and ridges from tiny to huge.
Enumeration solves every one in a few milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from support import Basis, Boxes, Heredity, Moments, Problem, Structure, accumulate, count_monomials

from polysharp import Solution
from polysharp.engines import make_engine

DATA = ("plain", "correlated", "duplicate", "ill-scaled", "large-mean")
RULES = ("budget", "inputs", "required", "strong", "weak", "inputs-and-heredity")
TINY = 1e-6
RIDGES = (1.0, 0.1, 30.0, TINY, 1e6)
SHAPES = ((5, 1), (2, 2), (3, 2), (4, 2), (2, 3), (2, 4))  # (p, r) with 5 to 15 monomials


@dataclass(frozen=True)
class Instance:
    """A problem with what it was made of."""

    label: str
    ridge: float
    basis: Basis
    X: np.ndarray
    y: np.ndarray
    problem: Problem


def make_inputs(rng: np.random.Generator, n: int, p: int, r: int, data: str) -> np.ndarray:
    X = rng.standard_normal((n, p))
    if data == "correlated":
        X = 0.95 * X[:, [0]] + 0.3 * X
    elif data == "duplicate":
        X[:, -1] = X[:, 0]
    elif data == "ill-scaled":
        X *= 10.0 ** rng.uniform(-4 / r, 4 / r, size=p)
    elif data == "large-mean":
        X += 10.0
    return X


def problem_of(moments: Moments, intercept: bool, lam: float, structure: Structure) -> Problem:
    if intercept:
        return Problem.dense(moments.scatter, moments.cross, moments.spread, lam, structure)
    return Problem.dense(*moments.uncentred(), lam, structure)


def make_rules(rng: np.random.Generator, basis: Basis, terms: int, rules: str) -> Structure:
    p = basis.n_inputs
    heredity: Heredity = {"strong": "strong", "weak": "weak", "inputs-and-heredity": "strong"}.get(
        rules
    )  # type: ignore[assignment]
    inputs = int(rng.integers(1, p)) if rules in {"inputs", "inputs-and-heredity"} else None
    required_terms: tuple[tuple[int, ...], ...] = ()
    required_inputs: tuple[int, ...] = ()
    if rules == "required":
        required_terms = (basis.monomials[int(rng.integers(len(basis)))],)
        required_inputs = (int(rng.integers(p)),)
        terms = max(terms, 2)
    return Structure.of_basis(
        basis,
        terms,
        inputs,
        required_terms=required_terms,
        required_inputs=required_inputs,
        heredity=heredity,
    )


def monomials_of(seed: int) -> int:
    """Return how many monomials an instance has, without making it."""
    p, r = SHAPES[(seed // 4) % len(SHAPES)]
    return count_monomials(p, r) - (seed // 3) % 2  # the constant, where the intercept is free


def make_instance(seed: int) -> Instance:
    rng = np.random.default_rng([20, seed])
    data, rules = DATA[seed % len(DATA)], RULES[seed % len(RULES)]
    ridge = RIDGES[(seed // 2) % len(RIDGES)]
    intercept = bool((seed // 3) % 2)
    p, r = SHAPES[(seed // 4) % len(SHAPES)]
    n = int(rng.integers(8, 40))
    basis = Basis.full(p, r, constant=not intercept)
    terms = int(rng.integers(1, 6 if len(basis) <= 10 else 5))  # the referee's time
    X = make_inputs(rng, n, p, r, data)
    M = basis.evaluate(X)
    law = rng.standard_normal(len(basis)) * (rng.random(len(basis)) < 0.4)
    signal = M @ law
    y = signal + (0.3 * np.linalg.norm(signal) / np.sqrt(n) + 0.1) * rng.standard_normal(n)
    lam = ridge * float(np.median((M * M).sum(axis=0))) / n
    structure = make_rules(rng, basis, terms, rules)
    problem = problem_of(accumulate(basis, X, y), intercept, lam, structure)
    label = f"{seed}-{data}-{rules}-ridge{ridge:g}-p{p}r{r}l{structure.max_terms}"
    return Instance(label, ridge, basis, X, y, problem)


def optimum(problem: Problem) -> Solution:
    """The referee's answer."""
    return make_engine("enumeration").solve(problem)


BOXES = ("positive", "symmetric", "mixed", "one-sided")


def with_boxes(instance: Instance, seed: int) -> Instance:
    """Bound the coefficients of an instance, so that the bounds matter as a rule."""
    rng, problem, f = np.random.default_rng([21, seed]), instance.problem, instance.problem.size
    kind, every = BOXES[seed % len(BOXES)], np.arange(instance.problem.size)
    size = np.abs(problem.refit(every).w[0]) + 1e-3 * np.sqrt(
        problem.yy / problem.gram.diagonal.max()
    )
    end = size * 10.0 ** rng.uniform(-1.5, 0.5, size=f)
    if kind == "symmetric":
        end[:] = np.median(end)
    low, high = -end, end.copy()
    if kind == "positive":
        low, high = np.zeros(f), np.full(f, np.inf)
    elif kind == "mixed":
        low[rng.random(f) < 0.3], high[rng.random(f) < 0.3] = -np.inf, np.inf
        low[rng.random(f) < 0.3] = 0.0
    elif kind == "one-sided":
        low[:], high[rng.random(f) < 0.5] = -np.inf, 0.0
    structure = replace(problem.structure, boxes=Boxes(low, high))
    problem = replace(problem, structure=structure)
    return replace(instance, label=f"{instance.label}-{kind}", problem=problem)


def while_it_gains(gain: float, aim: float, brought: float, seconds: float) -> bool:
    """Go on with a coupling that has lately come closer by a thousandth of the way to go."""
    del seconds
    return brought > 1e-3 * (gain - aim)
