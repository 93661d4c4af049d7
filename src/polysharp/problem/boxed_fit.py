"""Coefficients of one support within their boxes: a small quadratic programme.

    minimise  1/2 w'Hw - q'w     over    low <= w <= high,        H = G + ridge > 0.

Where the solution without boxes keeps to them it is the answer.  Otherwise an active-set method:
members are free or stand at an end of their box; the free ones move towards their own optimum, as
far as all boxes allow, and whichever meets an end stays there; once all have arrived, the one at an
end that would gain most by moving inwards is set free.  The objective falls with every round, and
the method ends when no member gains anything by moving.
"""

from __future__ import annotations

import numpy as np

from polysharp.moments.gram import solve_spd
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.typing import Array

NEGLIGIBLE = 1e-15  # gains below this share of the gain of the whole fit are rounding


def solve_in_boxes(H: Array, q: Array, boxes: Boxes) -> Array:
    """Return the best coefficients within their boxes."""
    low, high = boxes
    w = solve_spd(H, q)
    if np.all((low <= w) & (w <= high)):
        return w
    w = boxes.clip(w)
    free = (low < w) & (w < high)
    for _ in range(20 * len(q) + 20):
        while free.any():
            F = np.flatnonzero(free)
            goal = solve_spd(H[F[:, None], F], q[F] - H[F][:, ~free] @ w[~free])
            step = goal - w[F]
            with np.errstate(all="ignore"):
                room = np.where(step > 0.0, high[F] - w[F], low[F] - w[F]) / step
            room = np.where(step == 0.0, np.inf, room)
            reach = float(room.min())
            if not reach < 1.0:
                w[F] = goal
                break
            met = room <= reach
            w[F] += reach * step
            w[F[met]] = np.where(step[met] > 0.0, high[F[met]], low[F[met]])
            free[F[met]] = False
        pull = q - H @ w
        inwards = ~free & (((w <= low) & (pull > 0.0)) | ((w >= high) & (pull < 0.0)))
        inwards &= low < high
        gain = np.where(inwards, pull * pull / np.diagonal(H), 0.0)
        if not gain.max(initial=0.0) > NEGLIGIBLE * float(np.abs(q) @ np.abs(w)):
            break
        free[np.argmax(gain)] = True
    return boxes.clip(w)


def solve_many_in_boxes(H: Array, q: Array, boxes: Boxes) -> Array:
    """Return good coefficients of many supports within their boxes, one row each.

    All at once, and so without the care of ``solve_in_boxes``: in each round the member that is
    furthest outside its box is stopped at its end, or the one that pulls most is set free.
    """
    low, high = boxes
    W, stopped, moving = np.zeros_like(q), np.zeros(q.shape, dtype=bool), np.arange(len(q))
    own = np.diagonal(H, axis1=1, axis2=2)
    for _ in range(6 * q.shape[1] + 6):
        if not q[moving].size:  # all have settled, or there is nothing to fit
            break
        A, held, least, most = H[moving], stopped[moving], low[moving], high[moving]
        fixed = np.where(held, W[moving], 0.0)
        right = np.where(held, fixed, q[moving] - np.einsum("sij,sj->si", A, fixed))
        masked = np.where(held[:, :, None] | held[:, None, :], 0.0, A)
        masked += held[:, :, None] * np.eye(q.shape[1])
        try:
            w = np.linalg.solve(masked, right[..., None])[..., 0]
        except np.linalg.LinAlgError:
            break
        near, each = np.clip(w, least, most), np.arange(len(moving))
        off = np.where(held, 0.0, np.square(w - near) * own[moving])
        worst = np.argmax(off, axis=1)
        outside = off[each, worst] > 0.0
        pull = q[moving] - np.einsum("sij,sj->si", A, w)
        back = held & (((w <= least) & (pull > 0.0)) | ((w >= most) & (pull < 0.0)))
        gain = np.where(back & (least < most), np.square(pull) / own[moving], 0.0)
        best = np.argmax(gain, axis=1)
        scale = NEGLIGIBLE * (np.abs(q[moving]) * np.abs(w)).sum(axis=1)
        freed = ~outside & (gain[each, best] > scale)
        w[each[outside], worst[outside]] = near[each[outside], worst[outside]]
        W[moving] = w
        stopped[moving[outside], worst[outside]] = True
        stopped[moving[freed], best[freed]] = False
        moving = moving[outside | freed]
    return np.clip(np.nan_to_num(W), low, high)
