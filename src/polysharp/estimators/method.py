"""From coded data to a certified support, in one of two ways.

    two steps     rank the inputs, keep p' of them, form their monomials, search (the paper)
    all inputs    no triage and no list of monomials: columns are generated on demand

The second way is taken when the monomials are too many to list and pricing can reach them all:
``triage.prices_all`` states the rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from polysharp.certificate.solution import Solution
from polysharp.data.rows import CodedRows
from polysharp.engines import make_engine
from polysharp.engines.base import Engine, Limits
from polysharp.engines.search import search
from polysharp.monomials.basis import Basis
from polysharp.monomials.term_rules import TermRules
from polysharp.problem.assemble import Assembled
from polysharp.progress import Progress
from polysharp.ranking.ranking import Ranking
from polysharp.ranking.triage import NCandidates, choose_inputs, prices_all
from polysharp.typing import Indices


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Coded rows, rules and settings of one fit."""

    rows: CodedRows
    rules: TermRules
    gamma: float
    fit_intercept: bool
    n_candidates: NCandidates
    engine: str | Engine
    time_limit: float | None
    gap_tol: float
    seed: int
    threads: int
    progress: Progress
    began: float  # on the clock of perf_counter

    @property
    def allowed(self) -> Indices:
        """Inputs that are not excluded."""
        return np.setdiff1d(np.arange(self.rows.shape[1]), self.rules.exclude_inputs)

    def limits(self) -> Limits:
        """What is left of the time limit."""
        if self.time_limit is None:
            return Limits(None, self.gap_tol)
        spent = perf_counter() - self.began
        return Limits(max(0.0, self.time_limit - spent), self.gap_tol)


@dataclass(frozen=True, eq=False)
class Answer:
    """A certified solution and what its indices mean."""

    solution: Solution
    basis: Basis
    assembled: Assembled
    kept: Indices  # inputs the search was given
    ranking: Ranking | None
    prepared: float  # seconds before the search began


def solve(task: Task) -> Answer:
    """Choose the way and go it."""
    everything = prices_all(
        task.n_candidates,
        task.rules,
        task.rows.shape[0],
        len(task.allowed),
        engine=task.engine if isinstance(task.engine, str) else task.engine.name,
        time_limit=task.time_limit,
        on_gpu=task.rows.on_gpu,
    )
    return all_inputs(task) if everything else two_steps(task)


def two_steps(task: Task) -> Answer:
    """Triage, list the monomials, search."""
    engine = make_engine(task.engine) if isinstance(task.engine, str) else task.engine
    kept, ranking = choose_inputs(
        task.n_candidates,
        task.rules,
        task.rows,
        gamma=task.gamma,
        fit_intercept=task.fit_intercept,
        on_block=task.progress.on_block("ranking inputs"),
    )
    basis = task.rules.basis(kept)
    assembled = task.rows.assemble(
        basis,
        task.rules.structure(basis),
        lam=1.0 / task.gamma,
        fit_intercept=task.fit_intercept,
        on_block=task.progress.on_block("moments"),
    )
    prepared = perf_counter() - task.began
    solution = search(
        engine,
        assembled.problem,
        task.limits(),
        listener=task.progress.listener,
        seed=task.seed,
        threads=task.threads,
        scope="all-inputs" if ranking is None else "kept-inputs",
    )
    return Answer(solution, basis, assembled, kept, ranking, prepared)


def all_inputs(task: Task) -> Answer:
    """Generate columns on demand; the certificate covers every input."""
    from polysharp.engines.columns.column_generation import search_all_inputs
    from polysharp.engines.columns.generation import Search

    name = "tree" if task.engine == "auto" else task.engine
    design = task.rows.design(task.allowed, task.rules.degree, fit_intercept=task.fit_intercept)
    prepared = perf_counter() - task.began
    found = search_all_inputs(
        Search(
            design,
            task.rules,
            lam=1.0 / task.gamma,
            engine=make_engine(name) if isinstance(name, str) else name,
            limits=task.limits(),
            listener=task.progress.listener,
            seed=task.seed,
            threads=task.threads,
        )
    )
    return Answer(found.solution, found.basis, found.assembled, task.allowed, None, prepared)
