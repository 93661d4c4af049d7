"""All formulas that come close: how many there are, and what listing them takes.

    python benchmarks/rivals.py                    # planted, tables and growth; ten minutes
    python benchmarks/rivals.py --block planted    # one of them
    python benchmarks/rivals.py --page             # run nothing; write the tables and the picture

Blocks:

    planted   p = 25, r = 3 (f = 3275), l = 20, n = 400, sqrt(SNR) = 20, gamma = 1/sqrt(n),
              ten seeds
    tables    diabetes and concrete, and five tables that come with statsmodels and scikit-learn and
              were not used before; inputs centred, gamma 1
    growth    diabetes, degree 2: time and memory by ``within`` and by the number of terms

One thread, 60 s for the rivals of a model, 60 s for the model itself (not counted); seconds are
those of the processor, so that other work on the machine does not count.  Every run is a row of
benchmarks/results/rivals.csv, written when it finishes; runs that have a row are not run again.
Each is a process of its own, and its memory is what the search for rivals added to the
largest resident size.  The proof is checked against the rows where there is one.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from math import comb
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from real_tables import of_statsmodels, read
from sklearn.datasets import load_breast_cancer, load_wine

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parents[1] / "docs" / "_static" / "benchmarks"
LIMIT = 60.0
FIELDS = (
    *("block", "table", "degree", "terms", "within", "seed", "n", "monomials", "fit_seconds"),
    *("model_proved", "count", "complete", "bound_over_best", "seconds", "nodes", "megabytes"),
    *("needed_terms", "needed_inputs", "proof", "checked", "check_seconds"),
)
FRESH = {
    "copper": (
        "copper/copper", ",", "WORLDCONSUMPTION",
        "COPPERPRICE INCOMEINDEX ALUMPRICE INVENTORYINDEX TIME",
    ),
    "scotland": ("scotland/scotvote", ",", "YES", "COUTAX UNEMPF MOR ACT GDP AGE"),
    "longley": ("longley/longley", ",", "TOTEMP", "GNPDEFL GNP UNEMP ARMED POP YEAR"),
}  # fmt: skip
WITHINS = (0.001, 0.003, 0.01, 0.03, 0.1)
Table = tuple[np.ndarray, np.ndarray]


class Run(NamedTuple):
    """One search for rivals."""

    block: str
    table: str
    degree: int
    terms: int
    within: float
    seed: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies its row."""
        return tuple(str(value) for value in self)


def table_of(run: Run) -> Table | None:
    """Return X and y, None where the table cannot be found."""
    if run.block == "planted":
        from polysharp.synthetic import make_sparse_polynomial

        data = make_sparse_polynomial(400, 25, 3, None, 20, 20.0, random_state=run.seed)
        return data.X, data.y
    if run.table in FRESH:
        return of_statsmodels(*FRESH[run.table])
    if run.table == "wine":  # alcohol from what else was measured
        data = load_wine().data
        return data[:, 1:], data[:, 0]
    if run.table == "breast_cancer":  # the worst concave points from the means
        data = load_breast_cancer().data
        return data[:, :10], data[:, 27]
    return read(run.table)


def measured(run: Run) -> dict[str, object] | None:
    """Fit the model, list its rivals, check the proof."""
    from resource import RUSAGE_SELF, getrusage

    from sklearn.exceptions import ConvergenceWarning

    from polysharp import SparsePolynomialRegressor, rivals, verify

    table = table_of(run)
    if table is None:
        return None
    X, y = table
    warnings.simplefilter("ignore", ConvergenceWarning)
    planted = run.block == "planted"
    model = SparsePolynomialRegressor(
        run.degree, run.terms, gamma=len(y) ** -0.5 if planted else 1.0, n_candidates=None,
        center=not planted, engine="tree", time_limit=LIMIT,
    )  # fmt: skip
    began = process_time()
    model.fit(X, y)
    fitted, before = process_time() - began, getrusage(RUSAGE_SELF).ru_maxrss
    began = process_time()
    found = rivals(model, X, y, within=run.within, time_limit=LIMIT, max_count=20_000)
    seconds, after = process_time() - began, getrusage(RUSAGE_SELF).ru_maxrss
    began, verdict = process_time(), None
    if found.proof is not None and run.block != "growth":
        verdict = verify(found.proof, X, y)
    monomials = comb(X.shape[1] + run.degree, run.degree) - 1
    return {
        **run._asdict(), "n": len(y), "monomials": monomials,
        "fit_seconds": f"{fitted:.3f}",
        "model_proved": int(model.solution_.status == "optimal"), "count": found.count,
        "complete": int(found.complete),
        "bound_over_best": f"{found.bound / found.objectives[0]:.6f}",
        "seconds": f"{seconds:.3f}", "nodes": found.nodes,
        "megabytes": f"{(after - before) / 1024:.0f}",
        "needed_terms": len(found.indispensable.terms),
        "needed_inputs": len(found.indispensable.inputs),
        "proof": int(found.proof is not None),
        "checked": "" if verdict is None else int(verdict.valid),
        "check_seconds": f"{process_time() - began:.2f}" if verdict is not None else "",
    }  # fmt: skip


def runs(block: str) -> Iterator[Run]:
    """Return the runs of a block."""
    if block == "planted":
        for seed in range(100, 110):
            for within in (0.001, 0.01, 0.1):
                yield Run(block, "planted", 3, 20, within, seed)
    elif block == "tables":
        yield Run(block, "diabetes", 2, 6, 0.01)
        yield Run(block, "concrete", 2, 6, 0.01)
        yield Run(block, "concrete", 3, 6, 0.01)
        for name in (*FRESH, "wine", "breast_cancer"):
            yield Run(block, name, 2, 5, 0.01)
    else:
        for terms in (2, 4, 6, 8, 10):
            for within in WITHINS:
                yield Run(block, "diabetes", 2, terms, within)


def main() -> None:
    """Run what has no row yet, and write the tables of the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    blocks = ("planted", "tables", "growth")
    parser.add_argument("--block", choices=blocks, action="append")
    parser.add_argument("--page", action="store_true", help="run nothing")
    options = parser.parse_args()
    path = RESULTS / "rivals.csv"
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    done = {tuple(row[name] for name in Run._fields) for row in rows}
    wanted = [run for block in options.block or blocks for run in runs(block)]
    left = [] if options.page else [run for run in wanted if run.key not in done]
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if not rows:
            writer.writeheader()
        for run in left:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # its own memory
                row = pool.submit(measured, run).result()
            if row is None:
                print(f"{run.table}: not found")
                continue
            writer.writerow(row)
            stream.flush()
            print(*row.values(), flush=True)
    rows = list(csv.DictReader(path.open()))
    path.with_suffix(".md").write_text(page(rows))
    draw([row for row in rows if row["block"] == "growth"], FIGURES / "rivals.svg")


def page(rows: list[dict[str, str]]) -> str:
    """Return the tables of the page."""
    planted = [row for row in rows if row["block"] == "planted"]
    lines = ["| within | complete | rivals (median, most) | median s | largest s |"]
    lines.append("|---|---|---|---|---|")
    for within in sorted({float(row["within"]) for row in planted}):
        some = [row for row in planted if float(row["within"]) == within]
        seconds = [float(row["seconds"]) for row in some]
        counts = [int(row["count"]) for row in some]
        lines.append(
            f"| {100 * within:g} % | {sum(int(row['complete']) for row in some)}/{len(some)} | "
            f"{np.median(counts):g}, {max(counts)} | {np.median(seconds):.2f} | "
            f"{max(seconds):.2f} |"
        )
    head = ("table", "n", "monomials", "terms", "rivals within 1 %", "complete", "terms in all")
    head += ("s", "proof checked")
    lines += ["", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        if row["block"] == "tables":
            whole = "yes" if int(row["complete"]) else f"no, others from {_excess(row)} on"
            checked = {"1": f"{float(row['check_seconds'] or 0):.1f} s", "0": "no"}
            lines.append(
                f"| {row['table']}, degree {row['degree']} | {row['n']} | {row['monomials']} | "
                f"{row['terms']} | {int(row['count']):,} | {whole} | {row['needed_terms']} | "
                f"{float(row['seconds']):.2f} | {checked.get(row['checked'], 'no proof')} |"
            )
    return "\n".join([*lines, ""])


def _excess(row: dict[str, str]) -> str:
    """Return by how much an unlisted formula exceeds the best one at least."""
    return f"{100 * (float(row['bound_over_best']) - 1):+.2g} %"


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw time, number and memory by ``within``, a line for each number of terms."""
    if not rows:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(9.0, 3.0), layout="constrained")
    shown = (("seconds", "seconds"), ("count", "rivals"), ("megabytes", "MiB added"))
    sizes = sorted({int(row["terms"]) for row in rows})
    colours = plt.cm.viridis(np.linspace(0.0, 0.85, len(sizes)))
    for ax, (field, label) in zip(axes, shown, strict=True):
        for size, colour in zip(sizes, colours, strict=True):
            some = sorted(
                (row for row in rows if int(row["terms"]) == size),
                key=lambda row: float(row["within"]),
            )
            x = [100 * float(row["within"]) for row in some]
            y = [max(float(row[field]), 0.5 if field == "megabytes" else 0.0) for row in some]
            whole = np.array([int(row["complete"]) for row in some], dtype=bool)
            ax.plot(x, y, color=colour, label=f"{size} terms")
            for full in (True, False):
                where = np.flatnonzero(whole == full)
                ax.plot(np.array(x)[where], np.array(y)[where], "o", color=colour,
                        markerfacecolor=colour if full else "white", markersize=4)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="within, %", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
