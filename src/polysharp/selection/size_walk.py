"""The walk behind ``path``: one problem after another over the same moments.

Along l the support of one size is a start for the next, along k (largest first) the support of the
wider budget where it happens to use few enough inputs; ``growth`` adds a third start.  Each problem
is handed to the engine with the best of them and certified by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from time import perf_counter
from typing import Any, Self

import numpy as np

from polysharp.certificate.solution import Scope, Solution, Stop, certify
from polysharp.certificate.statement import with_statement
from polysharp.data.cluster import is_dask
from polysharp.data.place import as_host
from polysharp.data.rows import MemoryTable, Table, open_table
from polysharp.engines import make_engine
from polysharp.engines.base import Engine, Limits
from polysharp.engines.growth import System, parts_of, sizes
from polysharp.errors import InfeasibleError, InputError, TooLargeError
from polysharp.estimators.method import Answer
from polysharp.estimators.regressor import SparsePolynomialRegressor, _formula, _threads
from polysharp.moments.folds import Plan, cut, read_splits
from polysharp.moments.gram import DenseGram
from polysharp.monomials.basis import Basis
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.term_rules import TermRules
from polysharp.polynomial.polynomial import Polynomial
from polysharp.problem.problem import Problem
from polysharp.progress import open_progress
from polysharp.ranking.ranking import Ranking
from polysharp.ranking.triage import choose_inputs
from polysharp.selection import budgets
from polysharp.selection.grid_search import Grid, Scores, grid_search
from polysharp.selection.preselection import HIGHEST_PRICED, FoldedRows, capacity, make_coding
from polysharp.typing import Array, Indices
from polysharp.validation import check_parameters, check_rules, check_seed


@dataclass(frozen=True, eq=False)
class Settings:
    """The estimator of the largest budgets, and the budgets."""

    model: SparsePolynomialRegressor
    max_terms: tuple[int, ...]
    max_inputs: tuple[int | None, ...]  # widest first
    seed: int
    began: float = field(default_factory=perf_counter)

    @classmethod
    def read(cls, *, max_terms: Any, max_inputs: Any, **parameters: Any) -> Self:
        """Check the parameters."""
        budgets.check_values("max_terms", "max_terms", max_terms)
        budgets.check_values("max_inputs", "max_inputs", max_inputs)
        terms = budgets.sizes(max_terms)
        inputs = sorted(set(budgets.values(max_inputs)), key=lambda k: -(k or np.inf))
        model = SparsePolynomialRegressor(max_terms=terms[-1], max_inputs=inputs[0], **parameters)
        check_parameters(model.get_params(deep=False))
        return cls(model, terms, tuple(inputs), check_seed(model.random_state))


@dataclass(frozen=True, eq=False)
class Certified:
    """One size with its certificate."""

    max_terms: int
    max_inputs: int | None
    polynomial: Polynomial
    solution: Solution
    training_error: float


@dataclass(frozen=True, eq=False)
class Found:
    """All sizes, the inputs they were chosen from, and the gamma that "auto" stood for."""

    sizes: tuple[Certified, ...]
    kept: Indices
    gamma: float


def certified_sizes(
    settings: Settings, X: Any, y: Any, sample_weight: Any, *, share: float
) -> Found:
    """Solve every size in turn, within a share of the time limit."""
    model = settings.model
    with open_progress(model.verbose) as progress, _threads(model.n_jobs) as threads:
        table = open_table(model, X, y, sample_weight, progress)
        rules = check_rules(model.get_params(deep=False), table.names)
        gamma = table.total_weight**-0.5 if model.gamma == "auto" else float(model.gamma)
        scaling = table.scaling(scale=model.scale, center=model.center)
        rows = table.coded(scaling)
        kept, ranking = choose_inputs(
            model.n_candidates,
            rules,
            rows,
            gamma=gamma,
            fit_intercept=model.fit_intercept,
            on_block=progress.on_block("ranking inputs"),
        )
        basis = rules.basis(kept)
        assembled = rows.assemble(
            basis,
            rules.structure(basis),
            lam=1.0 / gamma,
            fit_intercept=model.fit_intercept,
            on_block=progress.on_block("moments"),
        )
        engine = make_engine(model.engine) if isinstance(model.engine, str) else model.engine
        walk = SizeWalk(settings, engine, assembled.problem, basis, ranking, threads, share)
        tell = progress.on_block("sizes")
        found = []
        for size, k, solution in walk:
            own = replace(rules, max_terms=size, max_inputs=k)
            answer = Answer(solution, basis, assembled, kept, ranking, 0.0)
            found.append(_certified(answer, own, scaling, table, gamma))
            if tell is not None:
                tell(len(found), len(settings.max_terms) * len(settings.max_inputs))
    if not found:
        raise InfeasibleError("no polynomial within the budgets satisfies all the rules")
    return Found(tuple(found), kept, gamma)


def _certified(
    answer: Answer, rules: TermRules, scaling: Scaling, table: Table, gamma: float
) -> Certified:
    """Write the formula, complete the proof's statement, measure the error."""
    solution, basis = answer.solution, answer.basis
    structure = rules.structure(basis)
    squares = (
        2.0 * solution.objective - float(solution.coefficients @ solution.coefficients) / gamma
    )
    return Certified(
        rules.max_terms,
        rules.max_inputs,
        _formula(answer, scaling, table),
        with_statement(solution, rules, basis, structure, scaling),
        float(np.sqrt(max(0.0, squares) / table.total_weight)),
    )


@dataclass(eq=False)
class SizeWalk:
    """Sizes in turn, each started from the best support at hand."""

    settings: Settings
    engine: Engine
    problem: Problem
    basis: Basis
    ranking: Ranking | None
    threads: int
    share: float

    def __iter__(self) -> Iterator[tuple[int, int | None, Solution]]:
        """Yield (max_terms, max_inputs, solution)."""
        left = len(self.settings.max_terms) * len(self.settings.max_inputs)
        wider: dict[int, Indices] = {}
        for k in self.settings.max_inputs:
            grown = self._grown(k)
            support: Indices | None = None
            for size in self.settings.max_terms:
                problem = self._sized(size, k)
                starts = [s for s in (support, grown.get(size), wider.get(size)) if s is not None]
                try:
                    solution = self._solve(problem, starts, left)
                except InfeasibleError:
                    left -= 1
                    continue
                left -= 1
                yield size, k, solution
                if solution.stop is Stop.INTERRUPTED:
                    return
                support = wider[size] = np.array(solution.support, dtype=np.intp)

    def _sized(self, size: int, k: int | None) -> Problem:
        structure = self.problem.structure
        return replace(
            self.problem,
            structure=replace(
                structure,
                max_terms=min(size, self.problem.size),
                max_inputs=structure.n_inputs if k is None else min(k, structure.n_inputs),
            ),
        )

    def _solve(self, problem: Problem, starts: list[Indices], left: int) -> Solution:
        allowed = [start for start in starts if problem.structure.allows(start)]
        start = min(allowed, key=lambda s: problem.refit(s).objective, default=None)
        limits = Limits(self._seconds(left), float(self.settings.model.gap_tol))
        scope: Scope = "all-inputs" if self.ranking is None else "kept-inputs"
        if limits.time_limit == 0.0 and start is not None:
            # The time is up: what local search found, with the bound that its residual proves.
            return certify(
                problem, start, 0.0, gap_tol=limits.gap_tol, stop=Stop.TIME,
                engine=self.engine.name, scope=scope,
            )  # fmt: skip
        return self.engine.solve(
            problem,
            start=start,
            limits=limits,
            seed=self.settings.seed,
            threads=self.threads,
            scope=scope,
        )

    def _seconds(self, left: int) -> float | None:
        """An equal share of the time that is left."""
        limit = self.settings.model.time_limit
        if limit is None:
            return None
        spent = perf_counter() - self.settings.began
        return max(0.0, self.share * float(limit) - spent) / left

    def _grown(self, k: int | None) -> dict[int, Indices]:
        """Supports of local search for every size, where budgets are all there is."""
        gram, structure = self.problem.gram, self.problem.structure
        if not isinstance(gram, DenseGram) or not structure.plain:
            return {}
        f = self.problem.size
        system = System(
            gram.G,
            self.problem.q,
            self.problem.yy,
            np.full(f, self.problem.lam),
            np.arange(f),
            parts_of(self.basis),
            self.basis.n_inputs,
        )
        return dict(enumerate(sizes(system, max(self.settings.max_terms), k), start=1))


@dataclass(frozen=True, eq=False)
class Judged:
    """Validation errors by budgets."""

    scores: Scores
    n_splits: int
    mean: Array
    std_error: Array
    place: dict[tuple[int | None, int], int]

    @classmethod
    def of(cls, scores: Scores) -> Self:
        """Index the scores of one case."""
        place = {(c.max_inputs, c.max_terms): a for a, c in enumerate(scores.candidates)}
        return cls(scores, scores.errors.shape[1], scores.mean, scores.std_error, place)

    def at(self, max_inputs: int | None, max_terms: int) -> tuple[float | None, float | None]:
        """Return mean and standard error, None where there is none."""
        a = self.place[max_inputs, max_terms]
        if np.isnan(self.mean[a]):
            return None, None
        return float(self.mean[a]), float(self.std_error[a])


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Checked rows, cut into the parts that the splits treat alike."""

    table: MemoryTable
    parts: list[Indices]
    plan: Plan

    @classmethod
    def read(cls, settings: Settings, cv: Any, X: Any, y: Any, sample_weight: Any) -> Self:
        """Check rows and splits: before the search, whose results a refusal would cost."""
        if is_dask(X):
            raise InputError(f"cv must be None for Dask collections, got {cv!r}")
        with open_progress(0) as progress:
            table = open_table(settings.model, X, y, sample_weight, progress)
        assert isinstance(table, MemoryTable)
        splits = read_splits(
            cv, as_host(X), as_host(y), sample_weight=as_host(sample_weight), seed=settings.seed
        )
        rows = cls(table, *cut(splits, len(table.data.y)))
        rows._check_size(settings.model)
        return rows

    def _check_size(self, model: SparsePolynomialRegressor) -> None:
        """Refuse what could be searched but not validated."""
        most = capacity(self.plan, 1)
        rules = check_rules(model.get_params(deep=False), self.table.names)
        p = len(self.table.names) - len(rules.exclude_inputs)
        if isinstance(model.n_candidates, Integral):
            p = min(p, int(model.n_candidates))
        # Up to degree 4 only the linear monomials must be held; others are preselected.
        held = rules.count(p) if rules.degree > HIGHEST_PRICED else p + 1
        if held > most:
            raise TooLargeError(
                f"cv must be None, or n_candidates smaller, for degree={rules.degree} and {p} "
                f"inputs: validation holds {held:,} monomials there, and may hold {most:,}"
            )


def validated_sizes(settings: Settings, rows: HeldOut, found: Found) -> Judged:
    """Judge every size on held-out rows, by local search on the training moments.

    The inputs are those that the search had; a triage has seen all rows when it kept them.
    """
    model, table, plan = settings.model, rows.table, rows.plan
    with open_progress(model.verbose) as progress, _threads(model.n_jobs):
        rules = check_rules(model.get_params(deep=False), table.names)
        left_out = np.setdiff1d(np.arange(len(table.names)), found.kept)
        rules = replace(rules, exclude_inputs=tuple(left_out.tolist()))
        folded = FoldedRows(table.data, rows.parts, plan, rules, table.place, bool(model.scale))
        grid = Grid((int(model.degree),), (found.gamma,), settings.max_terms, settings.max_inputs)
        coding = make_coding(
            folded, bool(model.center), capacity(plan, 1), max(grid.max_terms), found.gamma,
            progress=progress,
        )  # fmt: skip
        scores = grid_search([coding], plan, grid, rules, n_jobs=model.n_jobs)
    return Judged.of(scores)
