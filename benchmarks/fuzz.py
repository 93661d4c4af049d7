"""Hostile problems and forged proofs against a referee that tries every support.

    python benchmarks/fuzz.py solves --seeds 0 100000 --processes 2
    python benchmarks/fuzz.py solves --seeds 0 1000 --engine tree
    python benchmarks/fuzz.py proofs --seeds 0 10000      # honest ones, and 10 forgeries of each
    python benchmarks/fuzz.py files  --seeds 0 10000      # damaged files

``hostile`` draws the problems, ``referee`` settles them (in long double, and in rationals where it
matters), ``forgeries`` changes proofs.  Seeds are taken in groups; each finished group is a line of
benchmarks/results/fuzz-<what>.jsonl, and a run that is started again leaves out the groups that
stand there.  Counts are printed at the end, with every finding: the seed reproduces it,

    python benchmarks/fuzz.py solves --seeds 4711 4712 --again
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from forgeries import forge
from hostile import Case, make_case
from referee import Referee, TooManyError
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import polysharp
from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.certificate.statement import Statement
from polysharp.errors import InputError
from polysharp.estimators.prepare import open_fit
from polysharp.progress import open_progress

RESULTS = Path(__file__).parent / "results"
GROUP = 50  # seeds
FORGERIES = 10  # of each proof
STALLED = 30.0  # seconds after which a checker is said to hang
OVERRUN = 1.0  # seconds beyond the time limit


@dataclass
class Tally:
    """Counts by outcome, and what is wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        """Count an outcome."""
        self.counts[what] += 1

    def find(self, what: str, where: str, text: str = "") -> None:
        """Count a fault and say where."""
        self.counts[f"FAULT {what}"] += 1
        self.findings.append(f"{what}: {where}: {text}")


class StalledError(Exception):
    """Something takes longer than anyone would wait."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise after so many seconds."""

    def ring(*_: Any) -> None:
        raise StalledError(f"still at it after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def fitted(case: Case) -> Any:
    """Fit; any warning but that of an open gap is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SparsePolynomialRegressor(**case.options)
        return model.fit(case.X, case.y, sample_weight=case.weight)


def stated(case: Case, model: Any) -> Statement:
    """Return what the certificate of a fit is about, whether or not it has a proof."""
    with open_progress(0) as progress:
        opened = open_fit(clone(model), case.X, case.y, case.weight, progress)
    basis = opened.rules.basis(model.kept_inputs_)
    structure = opened.rules.structure(basis)
    return Statement.of(
        opened.rules, basis, structure, opened.scaling, opened.table, model.solution_
    )


def attempt(case: Case, tally: Tally) -> Any:
    """Fit a case, or say how it failed."""
    began = time.perf_counter()
    try:
        with patience(STALLED + case.options["time_limit"]):
            model = fitted(case)
    except InputError:
        tally.count("refused in a sentence")
        return None
    except StalledError as error:
        tally.find("stalled", case.label, str(error))
        return None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, ValueError) and "sklearn" in last.filename:
            tally.count("refused in a sentence")
            return None
        where = f"{Path(last.filename).name}:{last.lineno}"
        tally.find("crash", case.label, f"{type(error).__name__} {error} at {where}")
        return None
    beyond = time.perf_counter() - began - case.options["time_limit"]
    if beyond > OVERRUN:
        tally.find("overrun", case.label, f"{beyond:.1f} s")
    return model


def check_solve(seed: int, options: argparse.Namespace, tally: Tally) -> None:
    """Fit one hostile problem and compare its certificate with the referee's."""
    case = make_case(seed, options.engine)
    model = attempt(case, tally)
    if model is None:
        return
    solution, statement = model.solution_, stated(case, model)
    try:
        referee = Referee(statement, case.X, case.y, case.weight)
    except TooManyError:
        tally.count("too many supports")
        return
    tally.count(f"solved by {solution.engine}")
    tally.count(f"{solution.status}")
    S = tuple(sorted(statement.monomials.index(m) for m in statement.support))
    better = referee.refutes(solution.bound)
    if better is not None:
        cost = float(referee.exact(better))
        tally.find("wrong bound", case.label, f"{solution.bound!r} above {cost!r}")
    if not referee.allowed(S):
        tally.find("rule broken", case.label, str(statement.support))
    elif seed % 10 == 0 or referee.costs[referee.supports.index(S)] > solution.objective:
        tally.count("objective compared in rationals")
        exact = referee.exact(S)
        if exact > Fraction(solution.objective):
            off = f"{solution.objective!r} below {float(exact)!r}"
            tally.find("objective too low", case.label, off)


def honest_proof(seed: int, options: argparse.Namespace, tally: Tally) -> tuple[Case, Any] | None:
    """Fit with the tree engine and check its proof."""
    case = make_case(seed, "tree")
    model = attempt(case, tally)
    proof = None if model is None else model.solution_.proof
    if proof is None:
        tally.count("no proof")
        return None
    verdict = judged(proof, case, tally, exact=options.exact)
    if verdict is None:
        return None
    if not verdict:
        tally.find("honest proof rejected", case.label, verdict.reason)
    return case, proof


def judged(proof: Proof, case: Case, tally: Tally, **how: Any) -> Any:
    """Check a proof; it may neither crash nor hang."""
    try:
        with patience(STALLED), warnings.catch_warnings():
            warnings.simplefilter("error")
            return verify(proof, case.X, case.y, case.weight, **how)
    except StalledError as error:
        tally.find("checker stalled", case.label, str(error))
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        tally.find("checker crash", case.label, f"{type(error).__name__} {error} at {where}")
    return None


def check_proofs(seed: int, options: argparse.Namespace, tally: Tally) -> None:
    """Check one honest proof and some forgeries of it."""
    found = honest_proof(seed, options, tally)
    if found is None:
        return
    case, proof = found
    tally.count("honest proofs")
    tally.counts.update(f"nodes of kind {kind}" for kind in {node.kind for node in proof.nodes})
    try:
        referee = Referee(proof.statement, case.X, case.y, case.weight)
    except TooManyError:
        tally.count("too many supports")
        return
    best = float(referee.costs.min())
    rng = np.random.default_rng([29, seed])
    for number in range(FORGERIES):
        forged = forge(proof, rng, best)
        verdict = judged(forged, case, tally)
        tally.count("forgeries")
        if not verdict:
            continue
        tally.count("forgeries that are true")
        same = forged.statement is proof.statement
        try:
            own = referee if same else Referee(forged.statement, case.X, case.y, case.weight)
        except TooManyError:
            tally.count("too many supports")
            continue
        if own.refutes(max(verdict.bound, forged.bound)) is not None:
            tally.find("forgery accepted", f"{case.label} forgery {number}", str(verdict))


def check_files(seed: int, options: argparse.Namespace, tally: Tally) -> None:
    """Damage the bytes of a proof's file."""
    found = honest_proof(seed // 20, options, Tally())
    if found is None:
        return
    case, proof = found
    rng = np.random.default_rng([31, seed])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.proof"
        proof.save(path)
        path.write_bytes(damaged(bytearray(path.read_bytes()), rng))
        tally.count("files")
        try:
            with patience(STALLED):
                again = Proof.load(path)
        except InputError:
            tally.count("refused in a sentence")
            return
        except BaseException as error:
            tally.find("load crash", f"{case.label} file {seed}", repr(error))
            return
    verdict = judged(again, case, tally)
    if verdict and again.bound > proof.bound:
        tally.find("damaged file accepted", f"{case.label} file {seed}", str(verdict))


def damaged(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Change, cut out or double some bytes."""
    for _ in range(int(rng.integers(1, 12))):
        where = int(rng.integers(len(data))) if data else 0
        length, how = int(rng.integers(1, 60)), int(rng.integers(4))
        if how == 0:
            data[where : where + 1] = bytes([int(rng.integers(256))])
        elif how == 1:
            del data[where : where + length]
        elif how == 2:
            data[where:where] = data[where // 2 : where // 2 + length]
        else:
            data[where:where] = rng.bytes(length)
    return data


CHECKS = {"solves": check_solve, "proofs": check_proofs, "files": check_files}


def run_group(what: str, first: int, last: int, options: argparse.Namespace) -> dict[str, Any]:
    """Go through some seeds; return what a line of the results says."""
    tally = Tally()
    for seed in range(first, last):
        CHECKS[what](seed, options, tally)
    return {"first": first, "last": last, "counts": dict(tally.counts), "found": tally.findings}


def main() -> int:
    """Run the groups that are not finished yet, and print the counts of all."""
    options = _options()
    path = options.output / f"fuzz-{options.what}.jsonl"
    options.output.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    first, last = options.seeds
    groups = [(a, min(a + GROUP, last)) for a in range(first, last, GROUP)]
    finished = set() if options.again else {(group["first"], group["last"]) for group in done}
    waiting = [group for group in groups if group not in finished]
    fresh: list[dict[str, Any]] = []
    with path.open("a") as stream, ProcessPoolExecutor(options.processes) as pool:
        futures = [pool.submit(run_group, options.what, a, b, options) for a, b in waiting]
        for future in futures:
            fresh.append(future.result())
            if not options.again:
                stream.write(json.dumps(fresh[-1]) + "\n")
                stream.flush()
            for finding in fresh[-1]["found"]:
                print(finding, flush=True)
    return _summary(options, fresh if options.again else [*done, *fresh])


def _summary(options: argparse.Namespace, groups: list[dict[str, Any]]) -> int:
    total: Counter[str] = Counter()
    for group in groups:
        total.update(group["counts"])
    seeds = sum(group["last"] - group["first"] for group in groups)
    print(f"polysharp {polysharp.__version__}, {options.what}: {seeds:,} seeds")
    for what, count in sorted(total.items()):
        print(f"  {count:>9,}  {what}")
    return 1 if any(what.startswith("FAULT") for what in total) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=CHECKS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 1000), metavar=("FIRST", "END"))
    parser.add_argument("--engine", help="one engine instead of all")
    parser.add_argument("--exact", action="store_true", help="check honest proofs exactly")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="run and store nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
