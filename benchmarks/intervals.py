"""How often prediction intervals hold, and how wide they are, beside conformal boosting.

    python benchmarks/intervals.py                 # 20 splits of 13 tables: a few minutes, one core
    python benchmarks/intervals.py --tables concrete --splits 3
    python benchmarks/intervals.py --page          # only write the table of the page

The eight UCI rows (where POLYSHARP_DATA or the cache has them), diabetes and four tables of
statsmodels (``real_tables``).  Every split holds a random fifth of the rows out to count on; the
others are for fit and calibration, intervals of 90 %:

    polysharp, folds       fitted to all of them, calibrated by CV+ over five folds
    polysharp, held-out    fitted to three quarters, calibrated on the rest (split conformal)
    boosting, held-out     HistGradientBoostingRegressor as it comes, in the same two parts
    polysharp, MAPIE       MAPIE's CV+ around the same estimator, five folds, where it is installed

Formulas have degree 2 (music: 1) and at most ten terms, inputs centred, gamma 1, found by a short
local search: nothing is tuned to a table.  Each split of a table is a row for each method in
benchmarks/results/intervals.csv: share of the held-out rows that lie inside, and mean width in
standard deviations of the response.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from real_tables import UCI, read
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold, train_test_split

from polysharp import SparsePolynomialRegressor
from polysharp.engines.local_search import LocalSearch

RESULTS = Path(__file__).parent / "results"
FIELDS = ("table", "n", "p", "split", "method", "coverage", "width")
OTHERS = ("diabetes", "anes96", "fair", "modechoice", "star98")
METHODS = ("polysharp, folds", "polysharp, held-out", "boosting, held-out", "polysharp, MAPIE")
COVERAGE = 0.9


def intervals(
    name: str, X: np.ndarray, y: np.ndarray, split: int
) -> Iterator[tuple[str, float, float]]:
    """Yield the method, its share of rows inside, and its mean width."""
    rest, new, y_rest, y_new = train_test_split(X, y, test_size=0.2, random_state=split)
    fit, aside, y_fit, y_aside = train_test_split(rest, y_rest, test_size=0.25, random_state=split)
    model = SparsePolynomialRegressor(
        1 if name.startswith("music") else 2, 10, gamma=1.0, center=True,
        engine=LocalSearch(patience=2), random_state=split,
    )  # fmt: skip

    def judged(method: str, ends: np.ndarray) -> tuple[str, float, float]:
        inside = (ends[:, 0] <= y_new) & (y_new <= ends[:, 1])
        return method, float(inside.mean()), float(np.diff(ends).mean() / y.std())

    folds = clone(model).fit(rest, y_rest).calibrate(rest, y_rest, cv=5)
    yield judged(METHODS[0], folds.predict_interval(new, COVERAGE))
    held_out = clone(model).fit(fit, y_fit).calibrate(aside, y_aside)
    yield judged(METHODS[1], held_out.predict_interval(new, COVERAGE))
    boosting = HistGradientBoostingRegressor(random_state=split).fit(fit, y_fit)
    errors = np.sort(np.abs(y_aside - boosting.predict(aside)))
    q = errors[int(np.ceil((len(errors) + 1) * COVERAGE)) - 1]
    yield judged(METHODS[2], boosting.predict(new)[:, None] + [-q, q])
    if find_spec("mapie"):
        from mapie.regression import CrossConformalRegressor

        cv = KFold(5, shuffle=True, random_state=split)
        peer = CrossConformalRegressor(model, confidence_level=COVERAGE, method="plus", cv=cv)
        peer.fit_conformalize(rest, y_rest)
        yield judged(METHODS[3], peer.predict_interval(new)[1][:, :, 0])


def main() -> None:
    """Run what has no row yet, and write the table of the page."""
    options = _options()
    path = RESULTS / "intervals.csv"
    rows = list(csv.DictReader(path.open())) if path.exists() else []
    done = {(row["table"], int(row["split"])) for row in rows}
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if not rows:
            writer.writeheader()
        for name in () if options.page else options.tables or (*UCI, *OTHERS):
            table = read(name)
            if table is None:
                print(f"{name} is not there")
                continue
            X, y = table
            for split in range(options.splits):
                if (name, split) in done:
                    continue
                for method, coverage, width in intervals(name, X, y, split):
                    shown = (f"{coverage:.4f}", f"{width:.4f}")
                    cell = (name, len(y), X.shape[1], split, method, *shown)
                    writer.writerow(dict(zip(FIELDS, cell, strict=True)))
                stream.flush()
            print(name, flush=True)
    page = path.with_suffix(".md")
    page.write_text(table_of(list(csv.DictReader(path.open()))))
    print(page.read_text())


def table_of(rows: list[dict[str, str]]) -> str:
    """Return a table with a line for each table: coverage in per cent, and width, by method."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        found[row["table"], row["method"]].append((float(row["coverage"]), float(row["width"])))
    heads = dict.fromkeys((row["table"], row["n"], row["p"]) for row in rows)
    lines = [
        "| table | n | p | " + " | ".join(METHODS) + " |",
        "|---|---|---|" + "---|" * len(METHODS),
    ]
    means: dict[str, list[np.ndarray]] = defaultdict(list)
    for name, n, p in heads:
        entries = []
        for method in METHODS:
            each = found.get((name, method))
            if not each:
                entries.append("")
                continue
            mean = np.mean(each, axis=0)
            means[method].append(mean)
            entries.append(f"{100 * mean[0]:.1f} %, {mean[1]:.2f}")
        lines.append(f"| {name} | {n} | {p} | " + " | ".join(entries) + " |")
    whole = [np.mean(means[method], axis=0) for method in METHODS if means[method]]
    entries = [f"**{100 * mean[0]:.1f} %, {mean[1]:.2f}**" for mean in whole]
    entries += [""] * (len(METHODS) - len(entries))
    return "\n".join([*lines, "| mean of the tables | | | " + " | ".join(entries) + " |", ""])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--page", action="store_true", help="run nothing, only write the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
