"""Two versions of the library in turns: what is slower, what is faster than it was.

    git worktree add /tmp/old v0.1.0                       # or any other commit
    python benchmarks/turns.py --old /tmp/old              # every part, medians of five
    python benchmarks/turns.py --old /tmp/old --part pricing --rounds 3

One process per version is asked for the same case again and again, old and new by turns, so that
a busy machine slows both alike; what is compared is processor time, not the clock.  The parts are
those of the other benchmarks, from which each version takes its own instances:
``cross_validation``, ``moments``, ``pricing`` and ``first_use`` (import, first fit with an empty
compile cache, warm fits with gamma given and chosen).  Every case is a row of
benchmarks/results/turns.csv; objectives stand beside the times.  Searches are compared by
benchmarks/golden.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "turns.csv"

Answer = dict[str, Any]


def cases(part: str) -> list[str]:
    """Return the cases of a part, in the order of the table."""
    return {
        "cross_validation": ["cross_validation 1500", "cross_validation 300"],
        "moments": ["moments 20000 25", "moments 200000 10"],
        "pricing": ["pricing 2000 200"],
        "first_use": ["import", "first", "warm given", "warm auto"],
    }[part]


PARTS = ("cross_validation", "moments", "pricing", "first_use")


def measured(work: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """Return the processor seconds of one call, and what it returned."""
    began = process_time()
    for _ in range(times):
        result = work()
    return (process_time() - began) / times, result


def prepared(case: str) -> Callable[[], Answer]:
    """Return what runs a case once; imports are those of the version asked."""
    name, *rest = case.split()
    numbers = [int(word) for word in rest if word.isdigit()]
    return {
        "cross_validation": _cross_validation,
        "moments": _moments,
        "pricing": _pricing,
        "warm": lambda *_: _warm(rest[0]),
    }[name](*numbers)


def _cross_validation(n: int) -> Callable[[], Answer]:
    from cross_validation import smooth

    from polysharp import SparsePolynomialRegressorCV

    X, y = smooth(n, 5, 0)
    model = SparsePolynomialRegressorCV(
        (1, 2, 3), 20, None, (1.0, 100.0), cv=5, rule="best", time_limit=None,
        n_jobs=1, random_state=0, refit=False,
    )  # fmt: skip

    def run() -> Answer:
        seconds, found = measured(lambda: model.fit(X, y))
        return {"seconds": seconds, "objective": float(found.best_score_)}

    return run


def _moments(n: int, p: int) -> Callable[[], Answer]:
    import numpy as np
    from moments import Basis, accumulate

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, p)), rng.standard_normal(n)
    basis = Basis.full(p, 3)

    def run() -> Answer:
        seconds, found = measured(lambda: accumulate(basis, X, y))
        return {"seconds": seconds, "objective": float(found.spread)}

    return run


def _pricing(n: int, p: int) -> Callable[[], Answer]:
    from pricing import Pricer, make_sparse_polynomial

    data = make_sparse_polynomial(n, p, 3, 20, 40, 20.0, random_state=0)
    pricer = Pricer(data.X, 3)

    def run() -> Answer:
        seconds, found = measured(lambda: pricer.price(data.y, 1000))
        return {"seconds": seconds, "objective": float(abs(found.correlations[0]))}

    return run


def _warm(how: str) -> Callable[[], Answer]:
    import numpy as np

    from polysharp import SparsePolynomialRegressor

    X = np.random.default_rng(0).normal(size=(200, 5))
    y = X[:, 0] * X[:, 1] + 0.1 * X[:, 2]
    chosen = {"gamma": 1.0} if how == "given" else {}
    model = SparsePolynomialRegressor(degree=2, max_terms=3, **chosen)

    def run() -> Answer:
        seconds, found = measured(lambda: model.fit(X, y), 10)
        return {"seconds": seconds, "objective": found.polynomial_.degree}

    return run


IMPORT = "import polysharp"
FIRST = """
import numpy as np
from polysharp import SparsePolynomialRegressor
X = np.random.default_rng(0).normal(size=(200, 5))
SparsePolynomialRegressor(degree=2, max_terms=3).fit(X, X[:, 0] * X[:, 1] + 0.1 * X[:, 2])
"""


class Version:
    """A checkout, and a process that runs its code."""

    def __init__(self, root: Path, script: Path = HERE) -> None:
        paths = [root.resolve() / "src", root.resolve() / "benchmarks"]
        if script != HERE:  # instances of its own, which are the same for all checkouts
            paths[1] = script.parent
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # -P: modules are those of the checkout, not those beside this file.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(script), "--serve"],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, case: str) -> Answer:
        """Run a case once."""
        if case in ("import", "first"):
            return {"seconds": self._afresh(IMPORT if case == "import" else FIRST)}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the case '{case}' has ended its process")
        answer: Answer = json.loads(line)
        return answer

    def _afresh(self, code: str) -> float:
        """Return the processor seconds of code in a new process with an empty compile cache."""
        with tempfile.TemporaryDirectory() as cache:
            before = os.times()
            environment = self.environment | {"NUMBA_CACHE_DIR": cache}
            subprocess.run([sys.executable, "-c", code], env=environment, check=True)
            after = os.times()
        used = after.children_user - before.children_user
        return used + after.children_system - before.children_system

    def end(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait()


@contextmanager
def versions(*roots: Path, script: Path = HERE) -> Iterator[list[Version]]:
    """Start a process per checkout."""
    started = [Version(root, script) for root in roots]
    try:
        yield started
    finally:
        for version in started:
            version.end()


def serve() -> None:
    """Answer the cases that come in, one per line."""
    runs: dict[str, Callable[[], Answer]] = {}
    for line in sys.stdin:
        case = line.strip()
        if case not in runs:
            runs.clear()
            runs[case] = prepared(case)
            runs[case]()  # compiles what has to be compiled
        print(json.dumps(runs[case]()), flush=True)


def compare(pair: list[Version], case: str, rounds: int) -> Answer:
    """Run a case by turns and return its row."""
    answers: list[list[Answer]] = [[], []]
    for _ in range(rounds):
        for version, answer in zip(pair, answers, strict=True):
            answer.append(version.ask(case))
    old, new = (median(answer["seconds"] for answer in side) for side in answers)
    spread = max(answer["seconds"] for answer in answers[0]) / old
    row = {"case": case, "old": old, "new": new, "ratio": new / old, "noise": spread}
    for name, side in zip(("old", "new"), answers, strict=True):
        row[f"{name}_objective"] = side[-1].get("objective", "")
    return row


def keep(path: Path, case: str, row: dict[str, Any]) -> None:
    """Put the row of a case in the place of its old one; all others stay."""
    rows = {}
    if path.exists():
        with path.open(newline="") as stream:
            rows = {old["case"]: old for old in csv.DictReader(stream)}
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(row))
        writer.writeheader()
        writer.writerows((rows | {case: row}).values())


def main() -> None:
    """Compare two checkouts and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, help="checkout of the version to compare with")
    parser.add_argument("--new", type=Path, default=HERE.parent.parent)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.old is None:
        parser.error("--old names the checkout to compare with")
    with versions(options.old, options.new) as pair:
        print(f"{'case':<24}{'old s':>10}{'new s':>10}{'ratio':>8}{'noise':>8}")
        for case in (case for part in options.part for case in cases(part)):
            row = compare(pair, case, options.rounds)
            keep(options.output, case, row)
            print(
                f"{case:<24}{row['old']:>10.4f}{row['new']:>10.4f}{row['ratio']:>8.2f}"
                f"{row['noise']:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
