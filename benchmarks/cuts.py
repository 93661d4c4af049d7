"""Cutting planes of Algorithm 2 beside the paper's table: root cuts and the pure form.

    python benchmarks/cuts.py                         # the table, n = 300..1000
    python benchmarks/cuts.py --n 500 1000 --seeds 3 --time-limit 60
    python benchmarks/cuts.py --hierarchy             # p=15, k=5, l=10, n=200
    python benchmarks/cuts.py --engine cutting-planes-multitree --share 0.03

Data: p=25 Gaussian inputs, degree 3 (3275 monomials beside the constant), l=20 planted terms,
sqrt(SNR)=20; inputs divided by their root mean square; free intercept; gamma = share / sqrt(n).
Every engine starts from the local search's answer; its time is not counted.  ``cuts`` counts all
tangents, ``lazy`` those added while branching, at binary points.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from polysharp.engines.base import Engine
from polysharp.engines.cutting_planes import (
    CuttingPlanes,
    CuttingPlanesGurobi,
    CuttingPlanesMultitree,
)
from polysharp.engines.local_search import LocalSearch
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.problem import Problem
from polysharp.synthetic import make_sparse_polynomial
from polysharp.time_budget import TimeBudget

PAPER = dict(
    zip(
        range(300, 1001, 100),
        (">300", ">300", "298", "200", "70", "59", "25", "31"),
        strict=True,
    )
)
ENGINES = {
    engine.name: engine for engine in (CuttingPlanes, CuttingPlanesMultitree, CuttingPlanesGurobi)
}


@dataclass(frozen=True)
class Case:
    """One planted instance."""

    n: int
    p: int
    max_inputs: int | None
    max_terms: int
    share: float
    seed: int

    def build(self) -> tuple[Problem, set[int]]:
        """Return the problem and the planted support."""
        data = make_sparse_polynomial(
            self.n, self.p, 3, self.max_inputs, self.max_terms, 20.0, self.seed
        )
        basis = Basis.full(self.p, 3, constant=False)
        X = data.X / np.sqrt((data.X**2).mean(axis=0))
        moments = accumulate(basis, X, data.y)
        structure = Structure.of_basis(basis, self.max_terms, self.max_inputs)
        lam = np.sqrt(self.n) / self.share
        problem = Problem.dense(
            moments.scatter, moments.cross, moments.spread, lam, structure, rank=moments.n_rows
        )
        return problem, {basis.index[m] for m in data.monomials}


def row(case: Case, engine: Engine, form: str, time_limit: float) -> str:
    """Solve one case and return its line of the table."""
    problem, planted = case.build()
    start = np.array(LocalSearch().solve(problem).support, dtype=np.intp)
    solution = engine.solve(problem, start=start, time=TimeBudget(time_limit))
    counters = solution.counters
    lazy = counters.cuts - counters.rounds if form == "root" else counters.cuts
    recovered = "yes" if set(solution.support) == planted else "no"
    return (
        f"{case.n:5d} {case.seed:4d}  {form:4s} {counters.cuts:6d} {lazy:6d} {counters.nodes:7d} "
        f"{solution.seconds:8.2f} {100 * solution.gap:9.4f} {recovered:>9s}  "
        f"{PAPER.get(case.n, '') if case.max_inputs is None else '':>5s}"
    )


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, nargs="+", default=list(PAPER))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.1, help="gamma = share / sqrt(n)")
    parser.add_argument("--forms", nargs="+", choices=["root", "pure"], default=["root", "pure"])
    parser.add_argument("--engine", choices=sorted(ENGINES), default="cutting-planes")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--hierarchy", action="store_true", help="p=15, k=5, l=10, n=200")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    options = arguments()
    sizes = [200] if options.hierarchy else options.n
    p, k, terms = (15, 5, 10) if options.hierarchy else (25, None, 20)
    print(f"{options.engine}, p={p}, degree 3, k={k}, l={terms}, gamma={options.share}/sqrt(n)")
    print("    n seed  form   cuts   lazy   nodes  seconds     gap % recovered  paper's cuts")
    for n in sizes:
        for seed in range(options.seeds):
            for form in options.forms:
                case = Case(n, p, k, terms, options.share, seed)
                engine = ENGINES[options.engine](root_cuts=form == "root")
                print(row(case, engine, form, options.time_limit), flush=True)


if __name__ == "__main__":
    main()
