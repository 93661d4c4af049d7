"""Experiment 4: the size p' that a triage needs to lose no input (the paper's tab:heuristic).

    python -m experiments.input_ranking --quick
    python -m experiments.input_ranking --jobs 16

(k, l) = (20, 40), r = 3, sqrt(SNR) = 20, p = 200 to 1000, n = 2000 to 10,000.  With the inputs in
some order, p' is the place of the last of the 20 true ones.  Two orders:

    ranking   Algorithm 1, by the coefficients of polynomial kernel regression
    pricing   by the largest |m_j'y| over the monomials that contain the input, all f of them

gamma enters the ranking only; at n = 2000 it is varied to show how little it matters.  With the
environment variable POLYSHARP_DEVICE=cuda both run on the GPU, which turns hours into minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from statistics import mean, stdev
from time import perf_counter
from typing import Any

from experiments import paper
from experiments.data import Planted, planted
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, distinct, groups, markdown, numbers, where
from polysharp.data.arrays import Place
from polysharp.data.rows import MemoryRows
from polysharp.pricing.pricer import Pricer
from polysharp.ranking.kernel_system import KernelSettings
from polysharp.ranking.ranking import Ranking, scores_of

DEVICE_VARIABLE = "POLYSHARP_DEVICE"
GAMMA = 1e-3
OTHER_GAMMAS = (1e-7, 1e-5, 1e-1)
INPUTS, TERMS, DEGREE = 20, 40, 3
FIRST_TOP = 2000  # monomials priced at first; more when they leave a true input out


def cells(plan: Plan) -> Iterator[Cell]:
    """List both orders in all cells of the table, the longest runs first."""
    sizes = (200, 400) if plan.quick else sorted(paper.RANKING, reverse=True)
    for n in (2000,) if plan.quick else sorted(paper.RANKING[200], reverse=True):
        for p in sizes:
            for seed in plan.seeds:
                yield Cell("pricing", seed, {"n": n, "p": p, "gamma": ""})
                yield Cell("ranking", seed, {"n": n, "p": p, "gamma": GAMMA})
                if n == 2000:
                    for gamma in OTHER_GAMMAS:
                        yield Cell("ranking", seed, {"n": n, "p": p, "gamma": gamma})


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Order the inputs of one data set and find the last true one."""
    data = planted(cell.data["n"], cell.seed, p=cell.data["p"], k=INPUTS, terms=TERMS)
    place = Place.find(data.X, os.environ.get(DEVICE_VARIABLE))
    started = perf_counter()
    if cell.method == "ranking":
        rows = MemoryRows(data.X, data.y, place=place)
        gamma = cell.data["gamma"]
        scores = scores_of(rows, None, KernelSettings(DEGREE, gamma, True))
        order = Ranking(scores, DEGREE, gamma).order.tolist()
    else:
        order = priced_order(data, place)
    seconds = perf_counter() - started
    device = os.environ.get(DEVICE_VARIABLE, "cpu")
    return {"needed": needed(order, data.inputs), "seconds": seconds, "device": device}


def priced_order(data: Planted, place: Place) -> list[int]:
    """Order inputs by their best monomial, as far as it takes to meet every true one."""
    pricer = Pricer(data.X, data.degree, fit_intercept=True, arrays=place.arrays())
    top = FIRST_TOP
    while True:
        priced = pricer.price(data.response, min(top, pricer.n_monomials))
        order = list(dict.fromkeys(i for monomial in priced.monomials for i in monomial))
        if data.inputs <= set(order):
            return order
        top *= 10


def needed(order: Sequence[int], inputs: set[int]) -> int:
    """Return p': how many inputs of the order hold all the true ones."""
    return max(order.index(i) for i in inputs) + 1


def size_table(rows: list[Row]) -> str:
    """Return p' by p and n: mean ± standard error (smallest to largest)."""
    rows = [row for row in rows if row["method"] == "pricing" or float(row["gamma"]) == GAMMA]
    sizes = distinct(rows, "n")
    lines = []
    for p in distinct(rows, "p"):
        theirs = [str(paper.RANKING.get(p, {}).get(n, NOTHING)) for n in sizes]
        lines.append([str(p), "the paper", *theirs])
        for method in ("ranking", "pricing"):
            mine = [where(rows, p=p, n=n, method=method) for n in sizes]
            lines.append(["", method, *map(_entry, mine)])
    return markdown(["p", "order", *(f"n = {n}" for n in sizes)], lines)


def gamma_table(rows: list[Row]) -> str:
    """Mean p' of the ranking at n = 2000 by gamma."""
    ranked = where(rows, n=2000, method="ranking")
    gammas = sorted({row["gamma"] for row in ranked}, key=float)
    lines = [
        [str(p), *(_entry(where(ranked, p=p, gamma=gamma)) for gamma in gammas)]
        for p in distinct(ranked, "p")
    ]
    return markdown(["p", *(f"gamma = {gamma}" for gamma in gammas)], lines)


def better_table(rows: list[Row]) -> str:
    """In how many data sets each order needs fewer inputs than the other."""
    wins = {"pricing": 0, "ranking": 0, "equal": 0}
    for pair in groups(rows, "p", "n", "seed").values():
        ranked = [r for r in where(pair, method="ranking") if float(r["gamma"]) == GAMMA]
        priced = where(pair, method="pricing")
        if ranked and priced:
            difference = int(ranked[0]["needed"]) - int(priced[0]["needed"])
            wins["equal" if difference == 0 else "pricing" if difference > 0 else "ranking"] += 1
    header = ["pricing needs fewer inputs", "ranking needs fewer", "equal"]
    return markdown(header, [[str(wins[name]) for name in ("pricing", "ranking", "equal")]])


def _entry(rows: list[Row]) -> str:
    values = numbers(rows, "needed")
    if not values:
        return NOTHING
    error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"{mean(values):.0f} ± {error:.0f} ({min(values):.0f} to {max(values):.0f})"


def opening(rows: list[Row]) -> str:
    """How widely the number of inputs to keep varies at the largest p."""
    p = max(distinct(rows, "p"))
    mine = where(rows, p=p, method="ranking", gamma=GAMMA)
    needed = [int(v) for v in numbers(mine, "needed")]
    return (
        f"The number of inputs that a triage must keep varies widely between data sets: "
        f"{min(needed)} to {max(needed)} of {p}. No fixed number is safe; pricing needs no triage "
        "([Benchmarks](benchmarks.md#every-input-not-only-the-kept-ones))."
    )


EXPERIMENT = Experiment(
    name="input_ranking",
    parameters=("n", "p", "gamma"),
    measures=("needed", "seconds"),
    cells=cells,
    run=run,
    seeds=10,
    opening=opening,
    tables={
        "sizes": size_table,
        "gamma": gamma_table,
        "comparison": better_table,
    },
)

if __name__ == "__main__":
    main(EXPERIMENT)
