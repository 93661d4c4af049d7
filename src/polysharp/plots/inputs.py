"""Which inputs matter: to the kernel ranking before the search, and in the model after it.

The ranking scores every input by Algorithm 1, whatever the model became; the importance is that
of ``polynomial.importance``, the share of the model's variance that an input takes part in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from polysharp.errors import InputError
from polysharp.estimators.fitted import fitted_polynomial, inputs_of, ranking_of, rows_of
from polysharp.plots.display import INK, MODEL, QUIET, Display, tidy
from polysharp.polynomial.importance import measure_importance
from polysharp.ranking.ranking import Ranking
from polysharp.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BarsDisplay(Display):
    """One bar per input, the longest on top; inputs of the formula are coloured.

    Parameters
    ----------
    values : array (p,)
        Lengths of the bars.
    names : tuple of str
        Names of the inputs.
    used : tuple of int
        Inputs that the formula uses.
    """

    label = ""

    def __init__(self, *, values: Array, names: tuple[str, ...], used: tuple[int, ...]) -> None:
        self.values = values
        self.names = names
        self.used = used

    def plot(self, ax: Axes | None = None, *, max_bars: int = 20) -> Self:
        """Draw the ``max_bars`` longest, none for inputs at zero; returns the display."""
        order = np.argsort(-self.values, kind="stable")[:max_bars][::-1]
        order = order[self.values[order] > 0.0]
        ax = self._begin(ax, (4.5, 1.2 + 0.26 * len(order)))
        colors = [MODEL if i in self.used else QUIET for i in order]
        ax.barh(np.arange(len(order)), self.values[order], height=0.66, color=colors)
        ax.set_yticks(np.arange(len(order)))
        ax.set_yticklabels([self.names[i] for i in order], color=INK, parse_math=False)
        ax.tick_params(axis="y", length=0)
        tidy(ax, self.label, "")
        return self


class RankingDisplay(BarsDisplay):
    """Scores of the inputs by Algorithm 1; the parameters are those of ``BarsDisplay``."""

    label = "score of the input (Algorithm 1)"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, ax: Axes | None = None
    ) -> Self:
        """Draw the ranking of the fit; where the fit needed none, that of X and y.

        A fit that keeps every input ranks nothing; X and y are then scaled as in the fit and
        ranked with its degree and gamma.
        """
        polynomial = fitted_polynomial(estimator)
        ranking = estimator.ranking_
        if ranking is None and (X is None or y is None):
            raise InputError(
                "X and y must be given where the fit kept every input and ranked none, got None"
            )
        if ranking is None:
            ranking = ranking_of(estimator, rows_of(estimator, X, y))
        return cls.from_ranking(ranking, polynomial.names, used=polynomial.inputs, ax=ax)

    @classmethod
    def from_ranking(
        cls,
        ranking: Ranking,
        names: tuple[str, ...] | None = None,
        *,
        used: tuple[int, ...] = (),
        ax: Axes | None = None,
    ) -> Self:
        """Draw what ``rank_inputs`` returned."""
        if names is None:
            names = tuple(f"x{i}" for i in range(len(ranking.scores)))
        return cls(values=ranking.scores, names=names, used=used).plot(ax)


class ImportanceDisplay(BarsDisplay):
    """Share of the model's variance that each input takes part in, ``Importance.inputs``.

    The values are total Sobol indices, between 0 and 1; the parameters are those of
    ``BarsDisplay``.
    """

    label = "share of the predictions' variance"

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Axes | None = None) -> Self:
        """Measure the importance over the rows of X and draw it."""
        polynomial = fitted_polynomial(estimator)
        shares = measure_importance(polynomial, inputs_of(estimator, X)).inputs
        return cls(values=shares, names=polynomial.names, used=polynomial.inputs).plot(ax)
