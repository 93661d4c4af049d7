"""Equations of motion from one noisy trajectory: the systems of the MIOSR paper, and pysindy's own.

    python -m experiments.dynamics --quick
    python -m experiments.dynamics --jobs 2

Hopf's normal form and the Lorenz equations (polynomials of degree up to 5 of the state) and the six
equations of a flow with a magnetic field (degree up to 3, 84 functions), as Bertsimas and Gurnee
have them: a step of 0.002, noise of 0.2 % of the state's root mean square, the longest of their
training trajectories (16, 10.6 and 16 time units), half as long again to choose settings on,
pysindy's smoothed finite differences.  Every method chooses among its settings on the second part:
STLSQ and SSR by the corrected AIC as in the paper; ours the number of terms of each equation, 1 to
5, by the Bayesian criterion, with two seconds for the search of each.  pysindy's own optimizers are
given the first trajectories only, and STLSQ every second threshold of the paper's grid, with
three ridges.

A run counts as right when all equations have exactly the terms of the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from polysharp.typing import Array

STEP, NOISE = 0.002, 0.002
ALPHAS = (0.0, 1e-3, 0.05)
LARGEST = 5  # terms of an equation
SECONDS = 2.0  # for the search of an equation of one size
BESIDE = 5  # trajectories that the other methods are given
PUBLISHED = {"Hopf": 0.88, "Lorenz": 0.32, "MHD": 0.70}  # exact support of MIOSR


@dataclass(frozen=True)
class System:
    """Slopes, how starts are drawn, and what the methods are given."""

    slope: Callable[[float, Array], list[float]]
    start: Callable[[np.random.Generator], Array]
    time: float
    degree: int
    terms: tuple[frozenset[str], ...]  # of every equation, as pysindy writes them
    thresholds: Array

    def trajectory(self, seed: int) -> Array:
        """Return noisy states, training rows first, then a part half as long."""
        rng = np.random.default_rng(seed)
        at = np.arange(0.0, 1.5 * self.time, STEP)
        run = solve_ivp(
            self.slope, (0.0, at[-1]), self.start(rng), "LSODA", at, rtol=1e-10, atol=1e-10
        ).y.T
        size = float(np.sqrt(np.mean(run**2)))
        return np.asarray(run + NOISE * size * rng.standard_normal(run.shape))


def _terms(*equations: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(text.split(", ")) for text in equations)


def _on_a_ring(rng: np.random.Generator) -> Array:
    angle = rng.uniform(0.0, 2.0 * np.pi)
    return rng.uniform(0.75, 1.25) * np.array([np.cos(angle), np.sin(angle)])


SYSTEMS = {
    "Hopf": System(
        lambda _, v: [
            -0.05 * v[0] - v[1] - v[0] * (v[0] ** 2 + v[1] ** 2),
            v[0] - 0.05 * v[1] - v[1] * (v[0] ** 2 + v[1] ** 2),
        ],
        _on_a_ring,
        16.0,
        5,
        _terms("x0, x1, x0^3, x0 x1^2", "x0, x1, x0^2 x1, x1^3"),
        10.0 ** np.linspace(-3, 0, 25),
    ),
    "Lorenz": System(
        lambda _, v: [10 * (v[1] - v[0]), v[0] * (28 - v[2]) - v[1], v[0] * v[1] - 8 / 3 * v[2]],
        lambda rng: rng.uniform([-5.0, -5.0, 10.0], [5.0, 5.0, 40.0]),
        2.0**3.4,
        5,
        _terms("x0, x1", "x0, x1, x0 x2", "x2, x0 x1"),
        10.0 ** np.linspace(-2, 1, 25),
    ),
    "MHD": System(
        lambda _, v: [
            4.0 * (v[1] * v[2] - v[4] * v[5]),
            -7.0 * (v[0] * v[2] - v[3] * v[5]),
            3.0 * (v[0] * v[1] - v[3] * v[4]),
            2.0 * (v[5] * v[1] - v[2] * v[4]),
            5.0 * (v[2] * v[3] - v[0] * v[5]),
            9.0 * (v[4] * v[0] - v[1] * v[3]),
        ],
        lambda rng: rng.uniform(-1.5, 1.5, 6),
        16.0,
        3,
        _terms(
            "x1 x2, x4 x5",
            "x0 x2, x3 x5",
            "x0 x1, x3 x4",
            "x1 x5, x2 x4",
            "x2 x3, x0 x5",
            "x0 x4, x1 x3",
        ),
        10.0 ** np.linspace(-1.5, 1.5, 25),
    ),
}
METHODS = ("exact", "STLSQ", "SSR")


def cells(plan: Plan) -> Iterator[Cell]:
    """List every system with every method."""
    for a, seed in enumerate(plan.seeds):
        for system in ("Hopf",) if plan.quick else SYSTEMS:
            for method in METHODS if a < BESIDE else METHODS[:1]:
                yield Cell(method, seed, {"system": system})


def run(cell: Cell, limit: float | None) -> dict[str, Any]:
    """Fit with every setting, choose on the second part, compare the terms."""
    from pysindy import PolynomialLibrary
    from pysindy.differentiation import SmoothedFiniteDifference

    system = SYSTEMS[str(cell.data["system"])]
    states = system.trajectory(cell.seed)
    cut = int(system.time / STEP)
    library = PolynomialLibrary(degree=system.degree).fit(states)
    difference = SmoothedFiniteDifference(smoother_kws={"window_length": 9})
    rows = [
        (np.asarray(library.transform(part)), np.asarray(difference(part, STEP)))
        for part in (states[:cut], states[cut:])
    ]
    names = library.get_feature_names()
    began = perf_counter()
    coefficients, facts = {"exact": _exact, "STLSQ": _thresholds, "SSR": _stepwise}[cell.method](
        system, *rows, limit
    )
    seconds = perf_counter() - began
    found = [frozenset(names[j] for j in np.flatnonzero(row)) for row in coefficients]
    hits = sum(len(a & b) for a, b in zip(found, system.terms, strict=True))
    union = sum(len(a | b) for a, b in zip(found, system.terms, strict=True))
    return {
        "right": int(tuple(found) == system.terms), "agreement": hits / max(1, union),
        "functions": len(names), "seconds": round(seconds, 3), **facts,
    }  # fmt: skip


Part = tuple[Array, Array]  # the library's functions at the rows, and the slopes
Chosen = tuple[Array, dict[str, Any]]


def _exact(system: System, train: Part, test: Part, limit: float | None) -> Chosen:
    """Choose the size of every equation by the Bayesian criterion on the second part."""
    from polysharp.pysindy import ExactOptimizer

    del system
    chosen, proved, m = [], 0, len(test[1])
    for t in range(train[1].shape[1]):
        least, best = np.inf, None
        for size in range(1, LARGEST + 1):
            model = ExactOptimizer(max_terms=size, time_limit=SECONDS)
            model.fit(train[0], train[1][:, [t]])
            left = float(np.sum((test[1][:, t] - test[0] @ model.coef_[0]) ** 2))
            value = np.log(m) * size + m * np.log(left / m)
            if value < least:
                least, best = value, model
        assert best is not None, "one term is always tried"
        proved += best.solutions_[0].status == "optimal"
        chosen.append(best.coef_[0])
    # All equations at once, with the sizes chosen: what a user pays who knows them.
    sizes = [int(np.count_nonzero(row)) for row in chosen]
    began = perf_counter()
    again = ExactOptimizer(max_terms=sizes, time_limit=limit).fit(*train)
    assert np.array_equal(again.coef_ != 0, np.array(chosen) != 0), "one search, one answer"
    return np.array(chosen), {"proved": proved, "once": round(perf_counter() - began, 3)}


def _criterion(test: Part, coefficients: Array, terms: int) -> Array:
    """Return the corrected AIC of every equation on the second part."""
    left, m = ((test[1] - test[0] @ coefficients.T) ** 2).sum(axis=0), len(test[1])
    return np.asarray(
        2 * terms + m * np.log(left / m) + 2 * (terms + 1) * (terms + 2) / max(m - terms - 2, 1)
    )


def _thresholds(system: System, train: Part, test: Part, limit: float | None) -> Chosen:
    """One threshold for all equations."""
    from pysindy.optimizers import STLSQ

    del limit
    best, least = np.zeros((train[1].shape[1], train[0].shape[1])), np.inf
    for threshold in system.thresholds:
        for alpha in ALPHAS:
            found = STLSQ(threshold=threshold, alpha=alpha).fit(*train).coef_
            value = _criterion(test, found, np.count_nonzero(found)).sum()
            if value < least:
                best, least = found, value
    return best, {}


def _stepwise(system: System, train: Part, test: Part, limit: float | None) -> Chosen:
    """The best of all sizes along the way, by equation."""
    from pysindy.optimizers import SSR

    del system, limit
    every: list[Array] = []
    for alpha in ALPHAS:
        every += list(SSR(max_iter=train[0].shape[1] - 1, alpha=alpha).fit(*train).history_)
    values = np.array([_criterion(test, found, np.count_nonzero(found)) for found in every])
    best = values.argmin(axis=0)
    return np.array([every[place][t] for t, place in enumerate(best)]), {}


def table(rows: Sequence[Row]) -> str:
    """Return the share of systems found by method, proofs and seconds."""
    lines = [
        "| system | functions | method | exact support | equations proved | median seconds "
        "| with the sizes known |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, system in SYSTEMS.items():
        for method in METHODS:
            here = [r for r in rows if r["system"] == name and r["method"] == method]
            if not here:
                continue
            share = sum(r["right"] == "1" for r in here) / len(here)
            seconds = float(np.median([float(r["seconds"]) for r in here]))
            proved, once = "-", "-"
            if method == "exact":
                count = sum(int(r["proved"]) for r in here)
                proved = f"{count} of {len(here) * len(system.terms)}"
                once = f"{float(np.median([float(r['once']) for r in here])):.2f}"
            words = "`ExactOptimizer`" if method == "exact" else f"`{method}`"
            lines.append(
                f"| {name} | {here[0]['functions']} | {words} | {100 * share:.0f} % of {len(here)} "
                f"| {proved} | {seconds:.1f} | {once} |"
            )
        lines.append(
            f"| {name} | | MIOSR, published | {100 * PUBLISHED[name]:.0f} % of 50 | - | | |"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="dynamics",
    parameters=("system",),
    measures=("right", "agreement", "functions", "proved", "seconds", "once"),
    cells=cells,
    run=run,
    seeds=25,
    needs=dict.fromkeys(METHODS, "pysindy"),
    tables={"systems": table},
)

if __name__ == "__main__":
    main(EXPERIMENT)
