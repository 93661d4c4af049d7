"""Experiment 15: the paper's two steps together, by the number p' of inputs that the triage keeps.

    python -m experiments.two_steps --quick
    python -m experiments.two_steps --seeds 3

(k, l) = (20, 40), r = 3, sqrt(SNR) = 20.  Algorithm 1 ranks the inputs and keeps p' of them; the
search over their monomials is one fit with ``n_candidates``.  "all" keeps every input and prices
their monomials.  gamma = 0.1/sqrt(n).  A % and F % are those of the monomials; a triage that loses
an input of the law cannot reach A = 100 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from experiments import paper
from experiments.data import planted
from experiments.input_ranking import DEGREE, INPUTS, TERMS
from experiments.methods import Found
from experiments.metrics import MEASURES, measure
from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import averaged, distinct, groups, markdown, proved, share, typical, where
from polysharp import SparsePolynomialRegressor

KEPT = (30, 60, 120, "all")
SHARE = 0.1  # gamma times sqrt(n)


def cells(plan: Plan) -> Iterator[Cell]:
    """List every number of kept inputs on every data set."""
    for n in (2000,) if plan.quick else (2000, 4000):
        for p in (200,) if plan.quick else (200, 1000):
            for seed in plan.seeds:
                for kept in (30, "all") if plan.quick else KEPT:
                    limit = 5.0 if plan.quick else paper.TIME_LIMIT
                    yield Cell("exact", seed, {"n": n, "p": p, "kept": kept}, limit)


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Rank, keep, search."""
    n, kept = cell.data["n"], cell.data["kept"]
    data = planted(n, cell.seed, p=cell.data["p"], k=INPUTS, terms=TERMS)
    model = SparsePolynomialRegressor(
        degree=DEGREE,
        max_terms=TERMS,
        max_inputs=INPUTS,
        gamma=SHARE / n**0.5,
        n_candidates=None if kept == "all" else kept,
        time_limit=time_limit,
    )
    started = perf_counter()
    model.fit(data.X, data.y)
    seconds, solution = perf_counter() - started, model.solution_
    status = str(solution.status)
    return measure(
        data,
        Found(
            model.polynomial_.monomials,
            seconds,
            model.gamma_,
            solution.objective,
            solution.gap,
            status,
        ),
    )


def steps_table(rows: list[Row]) -> str:
    """A %, F %, seconds and proofs by n, p and p'."""
    lines = []
    for n in distinct(rows, "n"):
        for p in distinct(rows, "p"):
            for (kept,), mine in groups(where(rows, n=n, p=p), "kept").items():
                entries = [averaged(mine, "A"), averaged(mine, "F"), typical(mine, "seconds")]
                lines.append([str(n), str(p), kept, *entries, share(mine, proved)])
    header = ["n", "p", "p'", "A %", "F %", "seconds, median (longest)", "proved, over the kept"]
    return markdown(header, lines)


EXPERIMENT = Experiment(
    name="two_steps",
    parameters=("n", "p", "kept"),
    measures=MEASURES,
    cells=cells,
    run=run,
    seeds=5,
    tables={"steps": steps_table},
)

if __name__ == "__main__":
    main(EXPERIMENT)
