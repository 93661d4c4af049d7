"""Dask collections as a table: checked in one pass, then asked for sums over their blocks.

    first pass     checks, ranges, means and mean squares        (``block_summary``)
    moments        G, q, y'y of the monomials, one set per block, added in a tree
    ranking        from those moments where the monomials are few; else Algorithm 1 on row blocks,
                   scores averaged                               (``block_ranking``)
    pricing        partial products, added in tiles              (``dask_design``)

X stays where it is: a block is coded, used and forgotten by the task that reads it, and what moves
is O(f^2) numbers per worker for the moments and O(p) for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polysharp.data.checks import check_magnitudes, check_powers, input_names
from polysharp.data.cluster import sum_over_blocks
from polysharp.data.dask_blocks import Piece, check_columns, cut_into_blocks, is_frame
from polysharp.data.summary import Block, Summary, read_block, summarise
from polysharp.errors import InputError, TooLargeError
from polysharp.moments.moments import Moments, accumulate
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.structure import Structure
from polysharp.pricing.dask_design import DaskDesign
from polysharp.problem.assemble import MAX_DENSE, Assembled, assemble_moments
from polysharp.progress import Progress
from polysharp.ranking.blocks import AveragedScores, rank_rows
from polysharp.ranking.ranking import Ranking, scores_from_moments
from polysharp.typing import Indices, OnBlock


def open_collections(
    model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress
) -> DaskTable:
    """Check Dask collections; sets ``n_features_in_`` and ``feature_names_in_`` on the model."""
    if model.device not in (None, "cpu"):
        raise InputError(f"device must be None or 'cpu' for Dask collections, got {model.device!r}")
    check_columns(model, X, reset=True)
    names = input_names(model)
    blocks = cut_into_blocks(X, y, sample_weight)
    summary = _summary(blocks, names, progress)
    _check_whole(summary, int(model.degree), names, sample_weight is not None)
    response = y.name if is_frame(y) else None
    return DaskTable(blocks, summary, names, response if isinstance(response, str) else "y")


def _summary(blocks: Sequence[Piece], names: tuple[str, ...], progress: Progress) -> Summary:
    """Go over the blocks once; what the user's own graph raises is told in one sentence."""
    tell = progress.on_block("checking rows")
    try:
        summary: Summary = sum_over_blocks("check", summarise, blocks, names, on_block=tell)
    except (ValueError, TypeError, KeyError) as failed:
        first = (str(failed).splitlines() or [type(failed).__name__])[0]
        raise InputError(f"X and y: a block cannot be read: {first}") from failed
    return summary


def _check_whole(summary: Summary, degree: int, names: tuple[str, ...], weighted: bool) -> None:
    """Refuse what a block refused, and what only all of them together show."""
    if summary.refusal is not None:
        number, sentence = summary.refusal
        raise InputError(f"block {number}: {sentence}")
    if weighted and summary.n_rows == 0 and summary.n_given:
        raise InputError("sample_weight must have a positive value, got only zeros")
    if summary.n_rows < 2:
        raise InputError(f"X must have at least 2 rows of positive weight, got {summary.n_rows}")
    check_powers(np.array([summary.low, summary.high]), degree, names)
    check_magnitudes(np.array([summary.y_low, summary.y_high]), summary.weight)


@dataclass(frozen=True, eq=False)
class DaskTable:
    """Blocks of rows that have passed the checks."""

    blocks: Sequence[Piece]
    summary: Summary
    names: tuple[str, ...]
    response: str

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.summary.weight

    def scaling(self, *, scale: bool, center: bool) -> Scaling:
        """Return shift and unit of every input, as the first pass measured them."""
        s = self.summary
        variance = s.scatter / s.weight
        return Scaling.measured(s.low, s.high, s.mean, variance, scale=scale, center=center)

    def coded(self, scaling: Scaling) -> DaskRows:
        """Return the rows in coded variables, coded when they are read."""
        return DaskRows(self.blocks, Coding(self.names, scaling), self.summary)


@dataclass(frozen=True, eq=False)
class Coding:
    """How a task reads a block."""

    names: tuple[str, ...]
    scaling: Scaling

    def read(self, x: Any, y: Any, weights: Any) -> Block:
        """Return the rows of a block in coded variables."""
        block, _ = read_block(x, y, weights, self.names)
        return Block(self.scaling.apply(block.X), block.y, block.weights)


@dataclass(frozen=True, eq=False)
class DaskRows:
    """Coded rows that live in blocks on a cluster or on disk."""

    blocks: Sequence[Piece]
    coding: Coding
    summary: Summary

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        return self.summary.n_rows, len(self.coding.names)

    @property
    def on_gpu(self) -> bool:
        """Workers compute on their CPUs."""
        return False

    def moments(self, basis: Basis, y_shift: float, on_block: OnBlock | None = None) -> Moments:
        """Return the moments of the monomials and of y - ``y_shift``."""
        moments: Moments = sum_over_blocks(
            "moments",
            block_moments,
            self.blocks,
            self.coding,
            basis,
            y_shift,
            on_block=on_block,
        )
        return moments

    def rank(
        self,
        inputs: Indices,
        degree: int,
        gamma: float,
        *,
        fit_intercept: bool,
        on_block: OnBlock | None,
    ) -> Ranking:
        """Rank some inputs: exactly from moments where they are few, else by row blocks."""
        if count_monomials(len(inputs), degree) <= MAX_DENSE:
            basis = Basis.full(inputs.tolist(), degree)
            moments = self.moments(basis, self._y_mean(fit_intercept), on_block)
            scores = scores_from_moments(basis, moments, gamma, fit_intercept)
            return Ranking.of_scores(scores, degree, gamma)
        averaged: AveragedScores = sum_over_blocks(
            "ranking",
            block_scores,
            self.blocks,
            self.coding,
            inputs,
            degree,
            gamma * self.summary.weight,
            fit_intercept,
            on_block=on_block,
        )
        return Ranking.of_scores(averaged.scores, degree, gamma)

    def assemble(
        self,
        basis: Basis,
        structure: Structure,
        *,
        lam: float,
        fit_intercept: bool,
        on_block: OnBlock | None,
    ) -> Assembled:
        """Return the problem over a list of monomials."""
        if len(basis) > MAX_DENSE:
            raise TooLargeError(
                f"n_candidates must leave at most {MAX_DENSE} monomials for Dask collections, and "
                f"the {basis.n_inputs} inputs kept have {len(basis):,}; lower n_candidates or "
                "degree"
            )
        y_mean = self._y_mean(fit_intercept)
        moments = self.moments(basis, y_mean, on_block)
        return assemble_moments(
            moments, structure, lam=lam, fit_intercept=fit_intercept, y_mean=y_mean
        )

    def _y_mean(self, fit_intercept: bool) -> float:
        return self.summary.y_center if fit_intercept else 0.0

    def design(self, inputs: Indices, degree: int, *, fit_intercept: bool) -> DaskDesign:
        """Return all monomials of some inputs, priced by partial products per block."""
        return DaskDesign(self.blocks, self.coding, self.summary, inputs, degree, fit_intercept)


def block_moments(
    number: int,
    x: Any,
    y: Any,
    weights: Any,
    coding: Coding,
    basis: Basis,
    y_shift: float,
) -> Moments | None:
    """Return the moments of one block, None where it is empty."""
    del number
    block = coding.read(x, y, weights)
    if not len(block):
        return None
    return accumulate(basis, block.X, block.y - y_shift, block.weights)


def block_scores(
    number: int,
    x: Any,
    y: Any,
    weights: Any,
    coding: Coding,
    inputs: Indices,
    degree: int,
    gamma_weight: float,
    fit_intercept: bool,
) -> AveragedScores | None:
    """Return the scores of one block, None where it is empty."""
    del number
    block = coding.read(x, y, weights)
    if not len(block):
        return None
    return rank_rows(
        block.X[:, inputs], block.y, block.weights, degree, gamma_weight, fit_intercept
    )
