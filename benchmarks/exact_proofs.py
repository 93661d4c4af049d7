"""The proofs of the tree's main block, checked in floats and in exact integers.

    python benchmarks/exact_proofs.py                     # 7 sizes, 20 data sets each
    python benchmarks/exact_proofs.py --page              # only write the table

Every proof is saved, read again and checked against the rows; a row of
benchmarks/results/exact-proofs.csv has its size and the seconds that both checkers take of one
core.  Data sets that have a row are not run again.  Needs the extra ``exact``.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from instances import Setting, make_instance

from polysharp import Proof, SparsePolynomialRegressor, verify

RESULTS = Path(__file__).parent / "results"
ROWS = (200, 300, 400, 500, 600, 800, 1000)
FIELDS = ("n", "seed", "nodes", "bytes", "valid", "seconds", "exact_valid", "exact_seconds")

Row = dict[str, str]


def measured(n: int, seed: int) -> dict[str, object]:
    """Fit one data set and check its proof in both ways."""
    setting = Setting(n)
    data = make_instance(setting, seed)
    model = SparsePolynomialRegressor(
        setting.degree,
        setting.max_terms,
        gamma=setting.gamma,
        n_candidates=setting.p,
        engine="tree",
    ).fit(data.X, data.y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.proof"
        model.solution_.proof.save(path)
        size, proof = path.stat().st_size, Proof.load(path)
    began = process_time()
    plain = verify(proof, data.X, data.y)
    between = process_time()
    exact = verify(proof, data.X, data.y, exact=True)
    values = (
        n, seed, len(proof.nodes), size, int(plain.valid), f"{between - began:.2f}",
        int(exact.valid), f"{process_time() - between:.2f}",
    )  # fmt: skip
    return dict(zip(FIELDS, values, strict=True))


def table_of(rows: list[Row]) -> str:
    """Return one line for each number of rows."""
    lines = [
        "| n | proofs | valid | valid in exact arithmetic | floats, median (largest) s | "
        "exact, median (largest) s | kB, median (largest) |",
        "|---|---|---|---|---|---|---|",
    ]
    for n in sorted({int(row["n"]) for row in rows}):
        of = [row for row in rows if int(row["n"]) == n]
        spans = [
            f"{median(values):.3g} ({max(values):.3g})"
            for values in (
                [float(row["seconds"]) for row in of],
                [float(row["exact_seconds"]) for row in of],
                [float(row["bytes"]) / 1000.0 for row in of],
            )
        ]
        valid, exact = (sum(int(row[name]) for row in of) for name in ("valid", "exact_valid"))
        lines.append(f"| {n} | {len(of)} | {valid} | {exact} | {' | '.join(spans)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Check the proofs that have no row yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=ROWS)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--output", type=Path, default=RESULTS / "exact-proofs.csv")
    parser.add_argument("--page", action="store_true", help="run nothing, only write the table")
    options = parser.parse_args()
    rows = list(csv.DictReader(options.output.open())) if options.output.exists() else []
    done = {(int(row["n"]), int(row["seed"])) for row in rows}
    with options.output.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if not rows:
            writer.writeheader()
        for seed in [] if options.page else range(100, 100 + options.seeds):
            for n in options.n:
                if (n, seed) not in done:
                    writer.writerow(measured(n, seed))
                    stream.flush()
    rows = list(csv.DictReader(options.output.open()))
    options.output.with_suffix(".md").write_text(table_of(rows))
    print(table_of(rows))


if __name__ == "__main__":
    main()
