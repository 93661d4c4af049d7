"""Cross-validation on Dask collections: every row belongs to a fold, every block adds to all folds.

The moments of the folds are all that a validation without cut predictions needs (``judges``), so a
block returns one set of moments per fold, and the sets add over blocks as one does:

    rows of block b, in an order drawn from (seed, b)  ->  folds 0, 1, ..., K - 1, 0, 1, ...

The folds of a block differ by at most one row, and depend on the seed and on how the collection is
cut, not on the scheduler.  All degrees whose monomials fit into the capacity are compared; larger
ones are left out, since naming monomials split by split would read the rows again for each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polysharp.data.cluster import sum_over_blocks
from polysharp.data.dask_table import Coding as Reading
from polysharp.data.dask_table import DaskTable, open_collections
from polysharp.errors import InputError, TooLargeError
from polysharp.moments.folds import Plan, chosen_cv
from polysharp.moments.moments import Moments, accumulate
from polysharp.monomials.basis import Basis
from polysharp.monomials.term_rules import TermRules
from polysharp.progress import Progress
from polysharp.selection.grid_search import Coding
from polysharp.typing import Indices


@dataclass(frozen=True, eq=False)
class FoldMoments:
    """Moments of every fold, None where it has no rows yet; ``a + b`` merges fold by fold."""

    folds: tuple[Moments | None, ...]

    def __add__(self, other: FoldMoments) -> FoldMoments:
        """Return the moments of both sets of rows."""
        return FoldMoments(
            tuple(
                a if b is None else b if a is None else a + b
                for a, b in zip(self.folds, other.folds, strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class DaskFolds:
    """A table in blocks whose rows are dealt to folds."""

    table: DaskTable
    plan: Plan
    rules: TermRules  # of the largest degree
    scale: bool
    seed: int

    @classmethod
    def open(
        cls,
        model: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        seed: int,
        read_rules: Callable[[tuple[str, ...]], TermRules],
        progress: Progress,
    ) -> DaskFolds:
        """Check the collections and the folds asked for."""
        cv = chosen_cv(model.cv, np.inf, np.inf)  # a collection is not small
        if groups is not None or isinstance(cv, bool) or not isinstance(cv, (int, np.integer)):
            raise InputError(
                "cv must be a number of folds, without groups, for Dask collections, got "
                f"{cv!r}{'' if groups is None else ' and groups'}"
            )
        if cv < 2:
            raise InputError(f"cv must be at least 2 folds, got {cv}")
        table = open_collections(model, X, y, sample_weight, progress)
        rules = read_rules(table.names)
        return cls(table, Plan.k_fold(int(cv)), rules, bool(model.scale), seed)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.table.total_weight

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all inputs."""
        return self.table.names

    @property
    def response(self) -> str:
        """Name of the response."""
        return self.table.response

    @property
    def inputs(self) -> Indices:
        """Inputs that are not excluded."""
        return np.setdiff1d(np.arange(len(self.table.names)), self.rules.exclude_inputs)

    def reachable(
        self, degrees: Sequence[int], limit: int, n_codings: int, time_limit: float | None
    ) -> tuple[int, ...]:
        """Return the degrees whose monomials can be listed."""
        del n_codings, time_limit
        counts = {r: replace(self.rules, degree=r).count(len(self.inputs)) for r in degrees}
        found = tuple(r for r in degrees if counts[r] <= limit)
        if not found:
            raise TooLargeError(
                f"degrees must have at most {limit:,} monomials to be compared on Dask collections,"
                f" and degree {min(degrees)} of {len(self.inputs)} inputs has "
                f"{counts[min(degrees)]:,}"
            )
        return found

    def coding(
        self,
        center: bool,
        limit: int,
        max_terms: int,
        gamma: float,
        *,
        progress: Progress,
        seconds: float | None = None,
    ) -> Coding:
        """Return the moments of the folds in raw or centred variables, in one pass."""
        del limit, max_terms, gamma, seconds
        basis = self.rules.basis(self.inputs)
        scaling = self.table.scaling(scale=self.scale, center=center)
        reading = Reading(self.table.names, scaling)
        stage = f"moments of the folds, {'centred' if center else 'raw'} inputs"
        found: FoldMoments = sum_over_blocks(
            "folds",
            fold_moments_of_block,
            self.table.blocks,
            reading,
            basis,
            self.plan.n_parts,
            self.seed,
            on_block=progress.on_block(stage),
        )
        parts = [moments for moments in found.folds if moments is not None]
        if len(parts) < self.plan.n_parts:
            raise InputError(
                f"cv must leave rows of positive weight in every fold, got {self.plan.n_parts} "
                f"folds for {self.table.summary.n_rows} rows"
            )
        return Coding(center, basis, scaling, parts, basis.degree)


def fold_moments_of_block(
    number: int,
    x: Any,
    y: Any,
    weights: Any,
    reading: Reading,
    basis: Basis,
    n_folds: int,
    seed: int,
) -> FoldMoments | None:
    """Deal the rows of one block to the folds and return the moments of each."""
    block = reading.read(x, y, weights)
    found = []
    for rows in deal(len(block), n_folds, seed, number):
        v = None if block.weights is None else block.weights[rows]
        found.append(accumulate(basis, block.X[rows], block.y[rows], v) if len(rows) else None)
    return FoldMoments(tuple(found))


def deal(n: int, n_folds: int, seed: int, number: int) -> list[Indices]:
    """Return the rows of each fold in one block.

    Examples
    --------
    >>> [len(rows) for rows in deal(7, 3, seed=0, number=5)]
    [3, 2, 2]
    """
    rng = np.random.default_rng([seed, number])
    order, first = rng.permutation(n), int(rng.integers(n_folds))
    return [np.sort(order[(fold - first) % n_folds :: n_folds]) for fold in range(n_folds)]
