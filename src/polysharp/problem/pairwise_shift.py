"""The pairwise shift: curvature between pairs that supports of few terms do not feel.

A diagonal moved into the ridge must leave H - diag(delta) positive semidefinite in all directions.
On real tables it is held back by directions in which dozens of collinear monomials cancel each
other, and no support of L terms has such a direction.  So take any reach a_j >= 0 and any ratios
-1 <= t_ij = t_ji <= 1, and let

    K_jj = (L - 1) a_j^2,      K_ij = a_i a_j t_ij.

For every v with at most L entries other than zero, v'Kv >= 0: of the (L - 1) a_j^2 v_j^2 of a term,
a_j^2 v_j^2 goes to each of the L - 1 pairs that it is part of, and a_i^2 v_i^2 + a_j^2 v_j^2 makes
up for 2 a_i a_j t_ij v_i v_j.  Hence v'Hv >= v'(H - K)v for the supports of a node, and whatever is
proved with H - K in place of H holds for them: no L free monomials gain more than

    1/2 p'R^-1 p + top_L((b_j - p_j)^2 / (2 delta_j)),     R = H - diag(delta) - K >= 0.

Nothing has to be proved about K itself; ``definiteness.semidefinite`` proves R >= 0.  A ratio is
a whole number of steps of 2^-15, so that K is stored in two bytes for each pair.  One byte is not
enough: if monomials are nearly collinear, R has eigenvalues of a millionth, and steps of 1/128
undo a part of what the shift has gained.

``pairwise_shift_method`` looks for K; the nodes below go on from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polysharp.typing import Array, Indices

RATIO_STEPS = 32768.0  # ratios are whole numbers of such steps
MOST_STEPS = 32767  # that a ratio may have: one less than 1
LEAST_REACH, MOST_REACH = 1e-90, 1e90  # beyond these the squares leave the floats


@dataclass(frozen=True, eq=False)
class PairwiseMatrix:
    """K over the sorted monomials ``index``: reach a, and the ratios t_ij in steps of 2^-15."""

    index: Indices
    reach: Array
    ratios: NDArray[np.int16]

    @classmethod
    def rounded(cls, index: Indices, mu: Array, ratios: Array) -> PairwiseMatrix:
        """Return K with a^2 = mu and about these ratios, of which the upper ones count."""
        whole = np.clip(np.rint(RATIO_STEPS * ratios), -MOST_STEPS, MOST_STEPS)
        steps = np.triu(whole.astype(np.int16), 1)
        steps += steps.T
        reach = np.sqrt(mu)
        sound = (reach > LEAST_REACH) & (reach < MOST_REACH)
        return cls(index, np.where(sound, reach, 0.0), steps)

    def matrix(self, monomials: Indices, free: Any, terms: int) -> Array:
        """Return K over sorted monomials, acting on those that are ``free`` alone.

        At most ``terms`` of these join.
        """
        place = np.minimum(np.searchsorted(self.index, monomials), len(self.index) - 1)
        known = (self.index[place] == monomials) & free
        reach = np.where(known, self.reach[place], 0.0)
        K: Array = self.ratios[place[:, None], place] / RATIO_STEPS
        K *= reach
        K *= reach[:, None]
        K.ravel()[:: len(place) + 1] = (terms - 1.0) * reach * reach
        return K

    def times(self, factor: float) -> PairwiseMatrix:
        """Return a multiple of K."""
        return replace(self, reach=np.sqrt(factor) * self.reach)
