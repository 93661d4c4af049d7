"""The golden instances: what the library proves, in how many nodes and seconds, old and new.

    python benchmarks/golden.py --write                # rows of this checkout: results/golden.csv
    python benchmarks/golden.py --old /tmp/old         # another checkout and this one in turns
    python benchmarks/golden.py --old /tmp/old --case main --rounds 7

Every instance goes through the public estimators alone, with gamma given, seeds fixed and one
thread, so that this file runs on any checkout whatever its inner modules are called.  All end by
proof or by a fixed amount of work, none by the clock, so that bounds, objectives and nodes can be
compared as numbers.  Seconds are processor seconds of the whole fit, the median of the rounds; a
first fit that is not counted compiles.

``--old`` asks one process of each checkout for the same case, old and new by turns, as
``benchmarks/turns.py`` does, and prints every bound that is looser than rounding explains.  The
real tables are read from the folder POLYSHARP_DATA, or from ``shared/data`` beside this checkout;
their cases are left out where neither is there.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from turns import Answer, Version, measured, versions

from polysharp import MultiTaskSparsePolynomialRegressor, SparsePolynomialRegressor, rivals
from polysharp.datasets import cycling, diabetes
from polysharp.synthetic import make_sparse_polynomial

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "golden.csv"
DATA = Path(os.environ.get("POLYSHARP_DATA", HERE.parents[2] / "shared" / "data"))
SAME = 1e-9  # relative difference of objectives that is rounding
GAP_TOL = 1e-6  # the relative gap at which an instance is proved; bounds differ by as much
NO_LIMIT = 600.0  # seconds; every instance ends long before
LEAST = 0.1  # processor seconds that are worth measuring: shorter fits are repeated
SETTINGS = {
    "n_candidates": None, "gap_tol": GAP_TOL, "time_limit": NO_LIMIT, "n_jobs": 1,
    "random_state": 0,
}  # fmt: skip
MAIN_ROWS = (300, 400, 500, 600, 800, 1000)

Table = tuple[Any, Any]


@dataclass(frozen=True)
class Case:
    """An instance: a table, the settings of the estimator, and whether its rivals are wanted."""

    name: str
    table: Callable[[], Table]
    settings: dict[str, Any] = field(default_factory=dict)
    within: float | None = None  # rivals that cost at most this share more; None for a fit

    def ready(self) -> Callable[[], Answer]:
        """Read or draw the table, compile, and return the function that solves the instance."""
        X, y = self.table()
        kind = MultiTaskSparsePolynomialRegressor if y.ndim > 1 else SparsePolynomialRegressor
        model = kind(**(SETTINGS | self.settings))
        _fit(model, X, y, 1)
        run = partial(_fit, model, X, y)
        if self.within is not None:
            run = partial(_rivals, model, X, y, self.within)
            run(1)
        return partial(run, max(1, round(LEAST / max(run(1)["seconds"], 1e-4))))


def _fit(model: Any, X: Any, y: Any, times: int) -> Answer:
    seconds, _ = measured(lambda: model.fit(X, y), times)
    found = model.solution_
    return {
        "objective": float(found.objective),
        "bound": float(found.bound),
        "status": str(found.status),
        "nodes": int(found.counters.nodes),
        "count": len(found.support),
        "seconds": seconds,
    }


def _rivals(model: Any, X: Any, y: Any, within: float, times: int) -> Answer:
    """List the rivals; their bound is about all other formulas."""
    seconds, found = measured(
        lambda: rivals(model, X, y, within=within, max_count=10_000, time_limit=NO_LIMIT), times
    )
    return {
        "objective": float(found.objectives[0]),
        "bound": float(found.bound),
        "status": "complete" if found.complete else "incomplete",
        "nodes": int(found.nodes),
        "count": int(found.count),
        "seconds": seconds,
    }


def planted(
    n: int,
    p: int = 25,
    degree: int = 3,
    terms: int = 20,
    inputs: int | None = None,
    snr: float = 20.0,
    rho: float = 0.0,
    seed: int = 100,
) -> Table:
    """Draw a planted polynomial."""
    data = make_sparse_polynomial(n, p, degree, inputs, terms, snr, seed, rho=rho)
    return data.X, data.y


def planted_twice(n: int, p: int, degree: int, terms: int) -> Table:
    """Draw two responses with the same terms and other coefficients."""
    data = make_sparse_polynomial(n, p, degree, None, terms, np.inf, 100)
    rng = np.random.default_rng(1)
    columns = [np.prod(data.X[:, list(monomial)], axis=1) for monomial in data.monomials]
    Y = np.column_stack(columns) @ rng.standard_normal((terms, 2))
    return data.X, Y + 0.1 * Y.std(axis=0) * rng.standard_normal(Y.shape)


def bundled(make: Callable[[], Any]) -> Table:
    """Read a table that comes with the package."""
    table = make()
    return table.X, table.y


def real(name: str, responses: int = 1) -> Table:
    """Read a table of the data folder; the last columns are the responses."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as stream:
        values = np.array(list(csv.reader(stream))[1:], dtype=np.float64)
    y = values[:, -responses:]
    return values[:, :-responses], y[:, 0] if responses == 1 else y


def law(n: int) -> Table:
    """Return an exact law with a quotient in it: a case for functions of inputs."""
    X = np.random.default_rng(5).uniform(0.5, 2.0, (n, 4))
    return X, 2.0 * X[:, 0] / X[:, 1] + X[:, 2] * np.log(X[:, 3]) - 1.0


def cases() -> list[Case]:
    """Return all instances, in the order of the table."""

    def root(n: int, factor: float = 1.0) -> dict[str, Any]:
        return {"degree": 3, "max_terms": 20, "gamma": factor / n**0.5}

    def coded(degree: int, terms: int, gamma: float = 1.0) -> dict[str, Any]:
        return {"degree": degree, "max_terms": terms, "gamma": gamma, "center": True}

    small, sugar = partial(planted, 200, 8, 2, 5, snr=3.0), partial(bundled, diabetes)
    wine, concrete = partial(real, "wine_quality_red"), partial(real, "concrete")
    square = {"degree": 2, "max_terms": 5, "gamma": 0.1}
    found = [
        *(Case(f"main n={n}", partial(planted, n), {**root(n), "gap_tol": 1e-4})
          for n in MAIN_ROWS),
        Case("planted n=200", partial(planted, 200), root(200)),
        Case("strong ridge n=500", partial(planted, 500), root(500, 0.1)),
        Case("ar1 0.5 n=500", partial(planted, 500, rho=0.5), root(500)),
        Case("ar1 0.9 n=1000", partial(planted, 1000, rho=0.9), root(1000)),
        Case("noisy n=1000", partial(planted, 1000, snr=3.0), root(1000, 0.2)),
        Case("fewer rows than monomials", partial(planted, 40, 8, 2, 4), coded(2, 4, 0.1)),
        Case("no noise", partial(planted, 100, 6, 3, 6, snr=np.inf), coded(3, 6, 1e4)),
        Case("diabetes r=2 l=8", sugar, coded(2, 8)),
        Case("diabetes r=2 l=14", sugar, coded(2, 14)),
        Case("diabetes r=3 l=5", sugar, coded(3, 5)),
        Case("cycling r=3 l=5", partial(bundled, cycling), coded(3, 5)),
        Case("concrete r=3 l=8", concrete, coded(3, 8, 1030**-0.5)),
        Case("airfoil r=3 l=10", partial(real, "airfoil"), coded(3, 10)),
        Case("wine red r=3 l=3", wine, coded(3, 3)),
        Case("wine red r=2 l=12", wine, coded(2, 12)),
        Case("pollution r=2 l=5", partial(real, "srbench/542_pollution"), coded(2, 5, 0.1)),
        Case("friedman r=3 l=8", partial(real, "srbench/606_fri_c2_1000_10"), coded(3, 8, 0.1)),
        Case("k binds, 5 of 15", partial(planted, 200, 15, 3, 10, 8),
             {**root(200), "max_terms": 10, "max_inputs": 5}),
        Case("k binds, diabetes", sugar, {**coded(3, 6), "max_inputs": 4}),
        Case("strong heredity", sugar, {**coded(2, 10), "heredity": "strong"}),
        Case("weak heredity", small, {**square, "heredity": "weak"}),
        Case("required terms", sugar, {**coded(2, 8), "include_terms": [(0, 1), (3,)]}),
        Case("interactions of two", sugar, {**coded(3, 4), "max_interaction": 2}),
        Case("positive", sugar, {**coded(2, 10), "positive": True}),
        Case("box", sugar, {**coded(2, 8, 100.0), "coefficient_bounds": (-20, 20)}),
        Case("box, weak ridge", small, {**square, "gamma": 10.0, "coefficient_bounds": (-1, 1)}),
        Case("no intercept", small, {**square, "fit_intercept": False}),
        Case("functions", partial(law, 200),
             {"degree": 2, "max_terms": 3, "gamma": 10.0, "functions": ("inverse", "log")}),
        Case("two responses", partial(planted_twice, 300, 10, 3, 8), {**root(300), "max_terms": 8}),
        Case("energy, two responses", partial(real, "energy_efficiency", 2), coded(2, 8)),
        Case("priced p=60 l=10", partial(planted, 500, 60, 3, 10), {**root(500), "max_terms": 10}),
        Case("priced p=120 k=6", partial(planted, 600, 120, 3, 8, 6),
             {**root(600), "max_terms": 8, "max_inputs": 6}),
        Case("triage p=60", partial(planted, 600, 60, 3, 8, 6),
             {**root(600), "max_terms": 8, "n_candidates": 12}),
        Case("cutting planes", small, {**square, "engine": "cutting-planes-multitree"}),
        Case("enumeration", partial(planted, 100, 4, 2, 3, snr=3.0),
             {**square, "max_terms": 3, "engine": "enumeration"}),
        Case("local search", partial(planted, 300), {**root(300), "engine": "local-search"}),
        Case("rivals, planted", partial(planted, 300, 10, 3, 8, snr=5.0),
             {**root(300), "max_terms": 8}, 0.05),
        Case("rivals, diabetes", sugar, coded(2, 8), 0.03),
        Case("rivals, strong heredity", sugar, {**coded(2, 4), "heredity": "strong"}, 0.02),
    ]  # fmt: skip
    there = DATA.is_dir()
    return [c for c in found if there or getattr(c.table, "func", None) is not real]


def serve() -> None:
    """Answer the cases that come in, one name per line."""
    by_name = {case.name: case for case in cases()}
    name, run = "", None
    for line in sys.stdin:
        if line.strip() != name:
            name = line.strip()
            run = by_name[name].ready()
        assert run is not None
        print(json.dumps(run()), flush=True)


def summed_up(answers: list[Answer]) -> Answer:
    """Return the worst bound and objective, and medians of nodes and seconds.

    The search weighs its steps by measured times, so that nodes may differ from run to run.
    """
    middle = {what: median(a[what] for a in answers) for what in ("nodes", "seconds")}
    bound = min(answer["bound"] for answer in answers)
    objective = max(answer["objective"] for answer in answers)
    return answers[-1] | middle | {"bound": bound, "objective": objective}


def write(chosen: Iterable[Case], rounds: int, path: Path) -> None:
    """Solve the instances with this checkout and write their rows."""
    rows = []
    for case in chosen:
        run = case.ready()
        rows.append({"case": case.name} | summed_up([run() for _ in range(rounds)]))
        print(*rows[-1].values(), flush=True)
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def compare(pair: list[Version], chosen: list[Case], rounds: int) -> int:
    """Solve the instances by turns; print a row for each, then the summary; return the faults."""
    lines, faults = [], 0
    print(f"{'case':<28}{'old s':>9}{'new s':>9}{'ratio':>7}{'nodes':>16}{'ratio':>7}")
    for case in chosen:
        answers: list[list[Answer]] = [[], []]
        for _ in range(rounds):
            for version, own in zip(pair, answers, strict=True):
                own.append(version.ask(case.name))
        old, new = map(summed_up, answers)
        nodes = max(new["nodes"], 1) / max(old["nodes"], 1)
        lines.append((case.name, new["seconds"] / old["seconds"], nodes))
        print(
            f"{case.name:<28}{old['seconds']:>9.3f}{new['seconds']:>9.3f}{lines[-1][1]:>7.2f}"
            f"{old['nodes']:>8g}{new['nodes']:>8g}{nodes:>7.2f}",
            flush=True,
        )
        for fault in differences(old, new):
            faults += 1
            print(f"  {fault}", flush=True)
    _print_ratios("main block", [line for line in lines if line[0].startswith("main")])
    _print_ratios("all", lines)
    print(f"{faults} differences" if faults else "no bound is looser, no objective higher")
    return faults


def differences(old: Answer, new: Answer) -> list[str]:
    """Say what is worse than it was beyond rounding, or beyond the gap that both were asked for.

    Formulas that are no rivals may be proved to cost more or less above the limit, so that only
    incomplete lists are compared by their bounds.
    """
    room, found = abs(old["objective"]), []
    if new["status"] != "complete" and not new["bound"] >= old["bound"] - GAP_TOL * room:
        found.append("bound")
    if not new["objective"] <= old["objective"] + SAME * room:
        found.append("objective")
    found += [what for what in ("status", "count") if new[what] != old[what]]
    return [f"{what} {new[what]!r}, was {old[what]!r}" for what in found]


def _print_ratios(title: str, lines: list[tuple[str, float, float]]) -> None:
    for index, what in ((1, "seconds"), (2, "nodes")):
        if lines:
            worst = max(lines, key=lambda line: line[index])
            middle = median(line[index] for line in lines)
            print(
                f"{title}: {what} new / old, median {middle:.2f}, "
                f"worst {worst[index]:.2f} ({worst[0]})"
            )


def main() -> None:
    """Write the rows of this checkout, or compare it with another one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the rows of this checkout")
    parser.add_argument("--old", type=Path, help="checkout to compare with")
    parser.add_argument("--new", type=Path, default=HERE.parents[1])
    parser.add_argument("--case", nargs="+", help="keep the cases with one of these in their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    chosen = [
        case for case in cases() if not options.case or any(c in case.name for c in options.case)
    ]
    if options.serve:
        serve()
    elif options.write:
        write(chosen, options.rounds, options.output)
    elif options.old is not None:
        with versions(options.old, options.new, script=HERE) as pair:
            sys.exit(bool(compare(pair, chosen, options.rounds)))
    else:
        parser.error("say --write, or --old with the checkout to compare with")


if __name__ == "__main__":
    main()
