"""Small problems made to break things: data, weights, rules and settings drawn from a seed.

``make_case(seed)`` cycles through the families of data below, so that each meets every kind of
rule, ridge, weight and engine sooner or later.  All are so small that a referee can try every
support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Options = dict[str, Any]
Rng = np.random.Generator

# Shares in per cent.  Integer programmes take ten times as long as all others.  "branching" is the
# tree engine that tries no supports all at once, as it would with problems so small.
SHARES = {"tree": 27, "branching": 25, "priced": 18, "enumeration": 15, "local-search": 12,
          "cutting-planes": 1, "cutting-planes-multitree": 1, "big-m": 1}  # fmt: skip
ENGINES = tuple(engine for engine, share in SHARES.items() for _ in range(share))
SHAPES = ((1, 1), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (4, 2), (5, 1), (8, 1))


@dataclass(frozen=True, eq=False)
class Case:
    """Rows, weights and the parameters of an estimator."""

    seed: int
    label: str
    X: Any
    y: Array
    weight: Array | None
    options: Options


def _plain(rng: Rng, n: int, p: int) -> Array:
    return rng.standard_normal((n, p))


def _duplicates(rng: Rng, n: int, p: int) -> Array:
    return np.repeat(rng.standard_normal((n, 1)), p, axis=1)


def _near_duplicates(rng: Rng, n: int, p: int) -> Array:
    noise = 10.0 ** rng.uniform(-16, -3)
    return rng.standard_normal((n, 1)) + noise * rng.standard_normal((n, p))


def _scales(rng: Rng, n: int, p: int) -> Array:
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-150, 150, p)


def _some_scales(rng: Rng, n: int, p: int) -> Array:
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-10, 10, p)


def _constants(rng: Rng, n: int, p: int) -> Array:
    X = rng.standard_normal((n, p))
    X[:, rng.random(p) < 0.5] = rng.choice([0.0, 1.0, -7.3, 1e5])
    return X


def _binary(rng: Rng, n: int, p: int) -> Array:
    return rng.integers(0, 2, (n, p)).astype(float)


def _ties(rng: Rng, n: int, p: int) -> Array:
    return rng.integers(-2, 3, (n, p)).astype(float)


def _large_mean(rng: Rng, n: int, p: int) -> Array:
    return rng.standard_normal((n, p)) + 10.0 ** rng.uniform(0, 8)


def _heavy_tails(rng: Rng, n: int, p: int) -> Array:
    return np.clip(rng.standard_cauchy((n, p)), -1e6, 1e6)


def _repeated_rows(rng: Rng, n: int, p: int) -> Array:
    rows = rng.standard_normal((max(1, n // 4), p))
    return rows[rng.integers(0, len(rows), n)]


def _single(rng: Rng, n: int, p: int) -> Any:
    return (rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-3, 3)).astype(np.float32)


FAMILIES: dict[str, Callable[[Rng, int, int], Any]] = {
    "plain": _plain,
    "duplicates": _duplicates,
    "near duplicates": _near_duplicates,
    "scales": _scales,
    "some scales": _some_scales,
    "constants": _constants,
    "binary": _binary,
    "ties": _ties,
    "large mean": _large_mean,
    "heavy tails": _heavy_tails,
    "repeated rows": _repeated_rows,
    "float32": _single,
}


def make_case(seed: int, engine: str | None = None) -> Case:
    """Draw a problem; ``engine`` overrides the one that the seed chooses."""
    rng = np.random.default_rng([1717, seed])
    family = list(FAMILIES)[seed % len(FAMILIES)]
    p, degree = SHAPES[int(rng.integers(len(SHAPES)))]
    n = int(rng.choice([1, 2, 3, 4, 6, 10, 20, 40, 100], p=[0.02, 0.06, 0.06, *[0.86 / 6] * 6]))
    X = FAMILIES[family](rng, n, p)
    drawn = ENGINES[int(rng.integers(len(ENGINES)))]
    options = _rules(rng, p, degree) | {
        "degree": degree,
        "max_terms": int(rng.integers(1, 5)),
        "gamma": float(10.0 ** rng.uniform(-12, 12)) if rng.random() < 0.9 else 1.0 / np.sqrt(n),
        "fit_intercept": bool(rng.random() < 0.6),
        "scale": bool(rng.random() < 0.75),
        "center": bool(rng.random() < 0.3),
        "gap_tol": float(rng.choice([1e-4, 1e-7, 0.0, 0.05])),
        "engine": engine or drawn,
        "time_limit": 3.0,
        "random_state": seed,
    }
    y = _response(rng, np.asarray(X, dtype=float))
    label = f"{seed} {family} n={n} p={p} r={degree} {options['engine']}"
    return Case(seed, label, X, y, _weights(rng, n), options)


def _response(rng: Rng, X: Array) -> Array:
    n, p = X.shape
    size = np.abs(X).max(axis=0, initial=0.0)
    U = X / np.where(size > 0.0, size, 1.0)
    law = U @ rng.standard_normal(p) + U[:, 0] * U[:, -1]
    kind = rng.integers(6)
    y = {
        0: law,  # in the span, or nearly
        1: rng.standard_normal(n),
        2: np.full(n, float(rng.choice([0.0, 0.1, 1e6]))),
        3: law + 1e-9 * rng.standard_normal(n),
        4: np.round(2.0 * law),
    }.get(int(kind), law + 0.3 * rng.standard_normal(n))
    if rng.random() < 0.2:
        y = y * 10.0 ** rng.uniform(-30, 30)
    return y + 10.0 ** rng.uniform(0, 8) if rng.random() < 0.1 else y


def _weights(rng: Rng, n: int) -> Array | None:
    kind = int(rng.integers(6))
    if kind == 0:
        return rng.integers(0, 3, n).astype(float)
    if kind == 1:
        return 10.0 ** rng.uniform(-9, 9, n)
    if kind == 2:
        return np.full(n, 10.0 ** rng.uniform(-12, 12))
    return None


def _rules(rng: Rng, p: int, degree: int) -> Options:
    """Draw some rules about terms, which may contradict each other."""
    rules: Options = {}
    if rng.random() < 0.3:
        rules["max_inputs"] = int(rng.integers(1, p + 1))
    if rng.random() < 0.3 and degree > 1:
        rules["heredity"] = str(rng.choice(["weak", "strong"]))
    if rng.random() < 0.15:
        rules["include_inputs"] = [int(rng.integers(p))]
    if rng.random() < 0.15:
        rules["include_terms"] = [_term(rng, p, degree)]
    if rng.random() < 0.2:
        rules["exclude_terms"] = [_term(rng, p, degree)]
    if rng.random() < 0.1 and p > 2:
        rules["exclude_inputs"] = [p - 1]
    if rng.random() < 0.15:
        rules["max_interaction"] = int(rng.integers(1, degree + 1))
    if rng.random() < 0.15:
        rules["interaction_degree"] = int(rng.integers(1, degree + 1))
    if rng.random() < 0.1 and p > 2:
        rules["n_candidates"] = 2
    return rules


def _term(rng: Rng, p: int, degree: int) -> tuple[int, ...]:
    return tuple(sorted(int(i) for i in rng.integers(0, p, int(rng.integers(1, degree + 1)))))
