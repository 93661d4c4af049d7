"""Rows, wherever they live, and the only questions the method asks of them.

A ``Table`` is what the door has checked: names, the total weight, the scaling.  Coded, it becomes
``CodedRows``, which answer three things and keep their numbers to themselves:

    rank        scores of the inputs                              (Algorithm 1)
    assemble    q, y'y and a way to ask about G for a list of monomials
    design      the same for monomials generated on demand, and their prices

Tables in memory are answered here, by NumPy or PyTorch (``place``); Dask collections, which
nothing ever gathers, in ``dask_table``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from polysharp.data.checks import Data, check_data
from polysharp.data.cluster import is_dask
from polysharp.data.place import Place, as_host
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.monomials.scaling import Scaling
from polysharp.monomials.structure import Structure
from polysharp.pricing.design import Design, TableDesign
from polysharp.pricing.pricer import Pricer
from polysharp.problem.assemble import MAX_DENSE, Assembled, assemble
from polysharp.progress import Progress
from polysharp.ranking.blocks import WHOLE_ROWS, rank_rows
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array, Indices, OnBlock


class Table(Protocol):
    """Checked data as the user gave them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""

    @property
    def response(self) -> str:
        """Name of the response."""

    @property
    def total_weight(self) -> float:
        """What n is when a row of weight two counts as two rows."""

    def scaling(self, *, scale: bool, center: bool) -> Scaling:
        """Return shift and unit of every input."""

    def coded(self, scaling: Scaling) -> CodedRows:
        """Return the rows in coded variables."""


class CodedRows(Protocol):
    """Coded inputs, response and weights, for those who need not see them."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""

    @property
    def on_gpu(self) -> bool:
        """Whether matrix products are those of a GPU."""

    def rank(
        self,
        inputs: Indices,
        degree: int,
        gamma: float,
        *,
        fit_intercept: bool,
        on_block: OnBlock | None,
    ) -> Ranking:
        """Rank some inputs."""

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

    def design(self, inputs: Indices, degree: int, *, fit_intercept: bool) -> Design:
        """Return all monomials of some inputs, none of them formed."""


@dataclass(frozen=True, eq=False)
class MemoryTable:
    """A table in memory."""

    data: Data
    place: Place

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.data.names

    @property
    def response(self) -> str:
        """Name of the response."""
        return self.data.response

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.data.total_weight

    def scaling(self, *, scale: bool, center: bool) -> Scaling:
        """Measure the inputs."""
        return Scaling.of(self.data.X, self.data.weights, scale=scale, center=center)

    def coded(self, scaling: Scaling) -> MemoryRows:
        """Code the inputs."""
        data = self.data
        return MemoryRows(scaling.apply(data.X), data.y, data.sample_weight, self.place)


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Coded rows in memory."""

    X: Array
    y: Array
    sample_weight: Array | None
    place: Place

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs."""
        n, p = self.X.shape
        return n, p

    @property
    def on_gpu(self) -> bool:
        """Whether matrix products are those of a GPU."""
        return self.place.on_gpu

    def rank(
        self,
        inputs: Indices,
        degree: int,
        gamma: float,
        *,
        fit_intercept: bool,
        on_block: OnBlock | None,
    ) -> Ranking:
        """Rank some inputs where the data are; by row blocks where one kernel is too large."""
        n, X = len(self.y), self._of(inputs)
        if n <= WHOLE_ROWS or count_monomials(len(inputs), degree) <= MAX_DENSE:
            return self.place.rank_inputs(
                X,
                self.y,
                degree,
                gamma,
                sample_weight=self.sample_weight,
                fit_intercept=fit_intercept,
                on_block=on_block,
            )
        weight = float(n if self.sample_weight is None else self.sample_weight.sum())
        averaged = rank_rows(
            X,
            self.y,
            self.sample_weight,
            degree,
            gamma * weight,
            fit_intercept,
            rank=partial(self.place.rank_inputs, on_block=None),
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
        """Accumulate moments where the data are."""
        return assemble(
            basis,
            structure,
            self.X,
            self.y,
            self.sample_weight,
            lam=lam,
            fit_intercept=fit_intercept,
            accumulate=self.place.accumulate,
            on_block=on_block,
        )

    def design(self, inputs: Indices, degree: int, *, fit_intercept: bool) -> Design:
        """Put the table where it will be priced."""
        pricer = Pricer(
            self.X,
            degree,
            inputs=inputs,
            sample_weight=self.sample_weight,
            fit_intercept=fit_intercept,
            arrays=self.place.arrays(),
        )
        return TableDesign(pricer, self.y)

    def _of(self, inputs: Indices) -> Array:
        return self.X if len(inputs) == self.X.shape[1] else self.X[:, np.sort(inputs)]


def open_table(model: Any, X: Any, y: Any, sample_weight: Any, progress: Progress) -> Table:
    """Check the training data; sets ``n_features_in_`` and ``feature_names_in_`` on the model."""
    if is_dask(X):
        from polysharp.data.dask_table import open_collections

        return open_collections(model, X, y, sample_weight, progress)
    place = Place.find(X, model.device)
    return MemoryTable(check_data(model, as_host(X), as_host(y), as_host(sample_weight)), place)
