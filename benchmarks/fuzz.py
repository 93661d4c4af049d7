"""Hostile problems and forged proofs against a referee that tries every support.

    python benchmarks/fuzz.py solves --seeds 0 1000000 --processes 16 --seconds 600
    python benchmarks/fuzz.py solves --seeds 0 1000 --engine tree
    python benchmarks/fuzz.py proofs --engine ends       # no short way for few supports
    python benchmarks/fuzz.py proofs --seeds 0 10000      # honest ones, and 10 forgeries of each
    python benchmarks/fuzz.py boxes  --seeds 0 10000      # bounded coefficients, engine by engine
    python benchmarks/fuzz.py files  --seeds 0 10000      # damaged files

``hostile`` draws the problems, ``referee`` settles them (in long double, and in rationals where it
matters), ``forgeries`` changes proofs, ``campaign`` goes through the seeds and keeps the counts in
benchmarks/results/fuzz-<what>.json.  A run may be ended at any time and started again: it goes on
where it was.  Every finding is printed, and its seed reproduces it:

    python benchmarks/fuzz.py solves --seeds 4711 4712 --again
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: processes are many, problems small
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from campaign import Campaign, Tally
from forgeries import forge
from hostile import Case, make_case
from referee import Referee, TooManyError
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from polysharp import Proof, SparsePolynomialRegressor, verify
from polysharp.certificate.statement import state, with_statement
from polysharp.checker import ProofError, Statement
from polysharp.checker import all_supports as checked_supports
from polysharp.data.checks import open_rows
from polysharp.engines import make_engine
from polysharp.engines.columns.priced_run import PricedRun, Sizes
from polysharp.engines.columns.priced_search import search_all_inputs
from polysharp.engines.tree import Tree
from polysharp.engines.tree import leaf_enumeration as searched_supports
from polysharp.errors import InfeasibleError, InputError
from polysharp.estimators.fitted_model import FittedModel
from polysharp.estimators.fitting import code_table
from polysharp.estimators.preparation import CodedTable, FitContext
from polysharp.pricing.design import Design
from polysharp.time_budget import TimeBudget

RESULTS = Path(__file__).parent / "results"
FORGERIES = 10  # of each proof
STALLED = 20.0  # seconds after which a checker is said to hang
SMALL = Sizes(first=5, added=4, listed=25, pool=12, subproblem=12)  # of priced searches
OVERRUN = 1.0  # seconds beyond the time limit


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
        if case.options["engine"] == "priced":
            return priced(case)
        named = {"branching": branching_tree(case.seed), "ends": "tree"}
        own = {"engine": named.get(case.options["engine"], case.options["engine"])}
        model = SparsePolynomialRegressor(**(case.options | own))
        return model.fit(case.X, case.y, sample_weight=case.weight)


def branching_tree(seed: int) -> Tree:
    """Return the tree engine with settings that take it through all it has for large problems."""
    rng = np.random.default_rng([41, seed])
    return Tree(
        leaf_worth=0.0,
        late_share=0.0,
        outright_share=0.0,
        diagonal_shifts=bool(rng.random() < 0.7),
        diagonal_tol=float(rng.choice([0.1, 0.5, 1.0])),
        longest_chain=int(rng.integers(1, 5)),
        explore_after=int(rng.choice([0, 4])),
        shrink=float(rng.choice([0.5, 0.9, 1.0])),
        smallest=int(rng.choice([0, 3, 40])),
        pairwise_shifts=bool(rng.random() < 0.8),
        pairwise_worth=float(rng.choice([0.0, 1.0])),
    )


def coded_table(model: Any, case: Case) -> CodedTable:
    """Check and code the rows of a case."""
    with FitContext.of(model) as context:
        tables = [open_rows(model, case.X, case.y, case.weight, context.progress)]
        return code_table(model, tables, context)[0]


def priced(case: Case) -> Any:
    """PricedRun over monomials that are priced, with a pool that is much too small."""
    model = SparsePolynomialRegressor(**(case.options | {"engine": "tree", "n_candidates": None}))
    opened = coded_table(model, case)
    rules, intercept = opened.rules, case.options["fit_intercept"]
    search = PricedRun(
        Design(opened.rows, opened.allowed, rules.degree, fit_intercept=intercept),
        rules,
        lam=1.0 / opened.gamma,
        engine=make_engine("tree"),
        time=TimeBudget(case.options["time_limit"]),
        gap_tol=case.options["gap_tol"],
        seed=case.seed,
        sizes=SMALL,
    )
    found = search_all_inputs(search)
    structure = found.assembled.problem.structure
    solution = with_statement(
        found.solution, rules, found.basis, structure, opened.scaling, opened.tables[0]
    )
    model.fitted_, model.basis_ = FittedModel((), solution, opened.allowed, None), found.basis
    return model


def stated(case: Case, model: Any) -> Statement:
    """Return what the certificate of a fit is about, whether or not it has a proof."""
    proof = model.solution_.proof
    if proof is not None:
        return proof.statement
    opened = coded_table(clone(model), case)
    basis, solution = opened.rules.basis(model.kept_inputs_), model.solution_
    if hasattr(model, "basis_"):  # positions are those of the model's own monomials
        place = tuple(basis.index[model.basis_.monomials[j]] for j in solution.support)
        solution = replace(solution, support=place, proof=None)
    structure = opened.rules.structure(basis)
    return state(solution, opened.rules, basis, structure, opened.scaling, opened.tables[0])


def attempt(case: Case, tally: Tally) -> Any:
    """Fit a case, or say how it failed."""
    began = time.process_time()  # of a process of its own, whoever else is busy
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
    beyond = time.process_time() - began - case.options["time_limit"]
    if beyond > OVERRUN:
        tally.find("overrun", case.label, f"{beyond:.1f} s")
    return model


def check_solve(seed: int, options: argparse.Namespace, tally: Tally) -> None:
    """Fit one hostile problem and compare its certificate with the referee's."""
    case = make_case(seed, options.engine)
    model = attempt(case, tally)
    if model is None:
        return
    try:
        solution, statement = model.solution_, stated(case, model)
        referee = Referee(statement, case.X, case.y, case.weight)
    except InfeasibleError:
        tally.count("no monomial to choose")
        return
    except TooManyError:
        tally.count("too many supports")
        return
    tally.count(f"{case.options['engine']}: {solution.status}")
    S = tuple(sorted(referee.place[m] for m in statement.support))
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


def check_boxes(seed: int, options: argparse.Namespace, tally: Tally) -> None:
    """Fit one problem with bounded coefficients by several engines: no bound beats a model."""
    plain = make_case(seed)
    rng = np.random.default_rng([37, seed])
    size = float(10.0 ** rng.uniform(-4, 4))
    low, high = [(0.0, np.inf), (-size, size), (-np.inf, 0.0), (0.0, size), (-size, np.inf)][
        int(rng.integers(5))
    ]
    solved = {}
    for engine in (
        (options.engine,)
        if options.engine
        else ("tree", "branching", "priced", "enumeration", "local-search")
    ):
        own = plain.options | {"engine": engine, "coefficient_bounds": (low, high)}
        own["n_candidates"] = "auto"  # one problem for all of them
        case = replace(plain, options=own, label=f"{plain.label} in {low, high} by {engine}")
        model = attempt(case, tally)
        if model is not None:
            solved[engine] = model.solution_
            tally.count(f"{engine}: {model.solution_.status}")
            if model.solution_.proof is not None:
                accepted(model.solution_.proof, case, tally)
    for engine, solution in solved.items():
        for other, model in solved.items():
            if solution.bound > model.objective:
                text = f"{solution.bound!r} of {engine} above {model.objective!r} of {other}"
                tally.find("wrong bound", case.label, text)


def honest_proof(seed: int, options: argparse.Namespace, tally: Tally) -> tuple[Case, Any] | None:
    """Fit with the tree engine and check its proof."""
    kind = ("tree", "branching", "branching", "priced")[seed % 4]
    case = make_case(seed, options.engine or kind)
    model = attempt(case, tally)
    proof = None if model is None else model.solution_.proof
    if proof is None:
        tally.count("no proof")
        return None
    exact = options.exact and proof.statement.listed
    return (case, proof) if accepted(proof, case, tally, exact=exact) else None


def accepted(proof: Proof, case: Case, tally: Tally, **how: Any) -> bool:
    """Check an honest proof; return whether there was a verdict at all."""
    verdict = judged(proof, case, tally, **how)
    tally.count("honest proofs checked")
    if verdict is not None and not verdict:
        tally.find("honest proof rejected", case.label, verdict.reason)
    return verdict is not None


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
    tally.count(f"honest proofs, {'listed' if proof.statement.listed else 'priced'}")
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
        same = forged.statement is proof.statement and not forged.exceptions
        rows = case.X, case.y, case.weight
        try:
            own = referee if same else Referee(forged.statement, *rows, forged.exceptions)
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
        except ProofError:
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


CHECKS = {
    "solves": check_solve,
    "boxes": check_boxes,
    "proofs": check_proofs,
    "files": check_files,
}


def load_kernels(only: str | None) -> None:
    """Load what is compiled, so that no fit is said to overrun for that.

    Of "ends" few supports are tried as many are, by the tree and by the checker.
    """
    if only == "ends":
        vars(searched_supports)["is_small"], vars(checked_supports)["FEW"] = lambda *_: False, 0
    for seed in range(3):
        for engine in ("tree", "branching", "priced", "enumeration", "local-search"):
            attempt(make_case(seed, engine), Tally())


def main() -> int:
    """Run what is not finished yet, and print the counts of all."""
    options = _options()
    what, (first, last) = options.what, options.seeds
    name = what if options.engine is None else f"{what}-{options.engine}"
    load = partial(load_kernels, options.engine)
    campaign = Campaign(name, CHECKS[what], options, options.output, load)
    return campaign.run(first, last, options.processes, options.seconds, store=not options.again)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=CHECKS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 1000), metavar=("FIRST", "END"))
    parser.add_argument("--engine", help="one engine instead of all")
    parser.add_argument("--exact", action="store_true", help="check honest proofs exactly")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    parser.add_argument("--again", action="store_true", help="run and store nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
