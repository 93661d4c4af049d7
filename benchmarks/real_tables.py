"""What is proved on tables that people bring.

    python benchmarks/real_tables.py --jobs 2             # the 160 cells: 30 s, one thread each
    python benchmarks/real_tables.py --tables concrete --degrees 3 --terms 5 8
    python benchmarks/real_tables.py --set unseen         # tables that nothing was tuned on
    python benchmarks/real_tables.py --page               # only write the tables of the page

The cells: the UCI tables (where POLYSHARP_DATA or the cache has them) and diabetes, of degree 2
and 3 (music: 2), with 3, 5, 8, 12, 20 terms, gamma 1/sqrt(n) and 1, inputs centred, a free
intercept, no input left out.  The unseen tables come with statsmodels and scikit-learn: cubic, 5
and 8 terms, 20 s.  statsmodels need not be imported, only its folder must be found.

Every cell is a row of benchmarks/results/real-tables.csv (or real-tables-unseen.csv), written when
it finishes; cells that have a row are not run again.  Times are those of the fit on one thread, so
``--jobs`` should not exceed the cores.
"""

from __future__ import annotations

import argparse
import csv
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from math import comb
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes, load_iris

RESULTS = Path(__file__).parent / "results"
FIELDS = (
    *("table", "n", "p", "degree", "monomials", "terms", "gamma", "objective", "bound", "gap"),
    *("proved", "seconds", "nodes", "stopped", "proof"),
)
UCI = (
    *("airfoil", "concrete", "energy_1", "energy_2", "wine_red", "wine_white"),
    *("music_1", "music_2"),
)
# Of statsmodels: folder and file, separator, response, inputs.
UNSEEN = {
    "anes96": ("anes96/anes96", "\t", "PID", "popul TVnews selfLR ClinLR DoleLR age educ income"),
    "ccard": ("ccard/ccard", ",", "AVGEXP", "AGE INCOME INCOMESQ OWNRENT"),
    "fair": (
        "fair/fair", ",", "affairs",
        "rate_marriage age yrs_married children religious educ occupation occupation_husb",
    ),
    "grunfeld": ("grunfeld/grunfeld", ",", "invest", "value capital year"),
    "macrodata": (
        "macrodata/macrodata", ",", "infl",
        "realgdp realcons realinv realgovt realdpi m1 tbilrate unemp",
    ),
    "modechoice": ("modechoice/modechoice", ";", "gc", "ttme invc invt hinc psize"),
    "randhie": (
        "randhie/randhie", ",", "mdvis", "lncoins idp lpi fmde physlm disea hlthg hlthf hlthp"
    ),
    "star98": (
        "star98/star98", ",", "LOWINC",
        "PERASIAN PERBLACK PERHISP PERMINTE AVYRSEXP AVSALK PERSPENK PTRATIO",
    ),
    "statecrime": ("statecrime/statecrime", ",", "violent", "hs_grad poverty single white urban"),
    "danish": ("danish_data/data", ",", "lrm", "lry lpy ibo ide"),
    "elnino": ("elnino/elnino", ",", "DEC", "JUN JUL AUG SEP OCT NOV"),
}  # fmt: skip

Table = tuple[np.ndarray, np.ndarray]


class Cell(NamedTuple):
    """One fit."""

    table: str
    degree: int
    terms: int
    gamma: str  # "1/sqrt(n)" or a number

    def strength(self, n: int) -> float:
        """Return gamma as a number."""
        return 1.0 / np.sqrt(n) if self.gamma == "1/sqrt(n)" else float(self.gamma)


def read(name: str) -> Table | None:
    """Return X and y of a table; None where it cannot be found."""
    if name == "diabetes":
        data = load_diabetes(scaled=False)
        return data.data, data.target
    if name == "iris":
        data = load_iris().data
        return data[:, :3], data[:, 3]
    if name in UNSEEN:
        return of_statsmodels(*UNSEEN[name])
    from polysharp.datasets import load_uci
    from polysharp.errors import DataError

    try:
        data = load_uci(name, download=False)
    except DataError:
        return None
    return data.X, data.y


def of_statsmodels(file: str, separator: str, response: str, inputs: str) -> Table | None:
    """Return X and y of a table that comes with statsmodels; None where that cannot be found."""
    spec = find_spec("statsmodels")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(next(iter(spec.submodule_search_locations))) / "datasets" / f"{file}.csv"
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream, delimiter=separator))
    rows = [{key.strip("'\" "): value for key, value in row.items()} for row in rows]
    y = np.array([float(row[response]) for row in rows])
    return np.array([[float(row[i]) for i in inputs.split()] for row in rows]), y


def measured(cell: Cell, time_limit: float, threads: int = 1) -> dict[str, object] | None:
    """Run one cell."""
    from sklearn.exceptions import ConvergenceWarning

    from polysharp import SparsePolynomialRegressor

    table = read(cell.table)
    if table is None:
        return None
    X, y = table
    warnings.simplefilter("ignore", ConvergenceWarning)
    rng = np.random.default_rng(0)
    small = SparsePolynomialRegressor(2, 3, engine="tree", gamma=1.0)
    small.fit(rng.standard_normal((40, 8)), rng.standard_normal(40))  # kernels are loaded
    model = SparsePolynomialRegressor(
        cell.degree, cell.terms, gamma=float(cell.strength(len(y))), n_candidates=None,
        center=True, engine="tree", time_limit=time_limit, n_jobs=threads,
    )  # fmt: skip
    s = model.fit(X, y).solution_
    return {
        **cell._asdict(), "n": len(y), "p": X.shape[1],
        "monomials": comb(X.shape[1] + cell.degree, cell.degree) - 1,
        "objective": repr(s.objective), "bound": repr(s.bound), "gap": f"{s.gap:.6f}",
        "proved": int(s.status == "optimal"), "seconds": f"{s.seconds:.3f}",
        "nodes": s.counters.nodes, "stopped": s.stop.name, "proof": int(s.proof is not None),
    }  # fmt: skip


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Return the cells that are asked for, easy ones first."""
    unseen = options.set == "unseen"
    names = (*UNSEEN, "iris") if unseen else (*UCI, "diabetes")
    terms = options.terms or ((5, 8) if unseen else (3, 5, 8, 12, 20))
    for count in terms:
        for degree in options.degrees or ((3,) if unseen else (2, 3)):
            for name in options.tables or names:
                if not (name.startswith("music") and degree > 2):
                    for gamma in ("1/sqrt(n)", "1"):
                        yield Cell(name, degree, count, gamma)


def key(row: dict[str, str] | Cell) -> tuple[str, ...]:
    """Return what identifies a cell."""
    values = row._asdict() if isinstance(row, Cell) else row
    return tuple(str(values[name]) for name in Cell._fields)


def main() -> None:
    """Run the cells that have no row yet, and write the tables of the page."""
    options = _options()
    name = "real-tables-unseen" if options.set == "unseen" else "real-tables"
    path = options.output or RESULTS / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    done = {key(row) for row in rows}
    limit = options.time_limit or (20.0 if options.set == "unseen" else 30.0)
    left = [] if options.page else [cell for cell in cells(options) if key(cell) not in done]
    # Before workers load a BLAS: one thread each.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    with (
        ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool,
        path.open("a", newline="") as stream,
    ):
        writer = csv.DictWriter(stream, FIELDS)
        if not rows:
            writer.writeheader()
        for future in as_completed(
            [pool.submit(measured, cell, limit, options.threads) for cell in left]
        ):
            row = future.result()
            if row is not None:
                writer.writerow(row)
                stream.flush()
                print(*(row[name] for name in FIELDS), flush=True)
    rows = list(csv.DictReader(path.open()))
    page = path.with_suffix(".md")
    page.write_text(table_of(rows))
    print(f"{sum(int(row['proved']) for row in rows)} of {len(rows)} proved; {page}")


def table_of(rows: list[dict[str, str]]) -> str:
    """Return a table with a line for each table, degree and gamma: seconds, or gaps in per cent."""
    sizes = sorted({int(row["terms"]) for row in rows})
    lines = [
        "| table | n | monomials | gamma | " + " | ".join(f"{size} terms" for size in sizes) + " |",
        "|---|---|---|---|" + "---|" * len(sizes),
    ]
    found = {(*key(row)[:2], row["gamma"], int(row["terms"])): row for row in rows}
    heads = dict.fromkeys(
        (row["table"], row["degree"], row["gamma"], row["n"], row["monomials"])
        for row in sorted(rows, key=lambda row: (int(row["degree"]), row["table"], row["gamma"]))
    )
    for name, degree, gamma, n, monomials in heads:
        entries = []
        for size in sizes:
            row = found.get((name, degree, gamma, size))
            if row is None:
                entries.append("")
            elif int(row["proved"]):
                entries.append(f"{float(row['seconds']):.2g} s")
            else:
                entries.append(f"gap {100 * float(row['gap']):.2g} %")
        lines.append(f"| {name}, degree {degree} | {n} | {monomials} | {gamma} | "
                     + " | ".join(entries) + " |")  # fmt: skip
    proved = sum(int(row["proved"]) for row in rows)
    return "\n".join([*lines, "", f"{proved} of {len(rows)} proved.", ""])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", choices=["main", "unseen"], default="main")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--degrees", nargs="+", type=int)
    parser.add_argument("--terms", nargs="+", type=int)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of each fit")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--page", action="store_true", help="run nothing, only write the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
