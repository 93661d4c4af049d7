"""Supports of every size for several responses, from one table that is swept term by term.

With S the terms chosen, H = G + lam I and R the others, the table holds

    A_SS = -H_SS^-1,   A_SR = H_SS^-1 H_SR,   A_RR = H_RR - H_RS H_SS^-1 H_SR,
    B_tS = w_t,        B_tR = q_tR - w_t'H_SR        for each response t,

so that adding j gains 1/2 sum_t B_tj^2 / A_jj and leaving out i costs 1/2 sum_t B_ti^2 / -A_ii.
One sweep (Goodnight, The American Statistician 33, 1979) takes a term in or out in f (f + T) steps.
Its rounding is of no concern here: what is found is fitted anew.
"""

from __future__ import annotations

import numpy as np
from numba import b1, f8, i8, void

from polysharp.engines.compiling import Compiler
from polysharp.problem.problem import Problem
from polysharp.typing import Indices

LARGEST = 1000  # monomials up to which a sweep is cheaper than what it saves
DEPENDENT = 1e-9  # share of H_jj that others must leave of a monomial
CHEAPEST = 3  # terms of a support of each size that a swap may replace

kernel = Compiler(__file__)
VEC, MAT = f8[::1], f8[:, ::1]


def grow(problem: Problem, least_gain: float) -> list[Indices]:
    """Return a support for each size from 1 to ``max_terms``, within the limit on inputs."""
    every, structure = np.arange(problem.size), problem.structure
    H = np.ascontiguousarray(problem.hessian(every))
    members = np.zeros((structure.max_terms, problem.size), dtype=np.bool_)
    uses = np.ascontiguousarray(structure.uses, dtype=np.bool_)
    B, value = problem.q.copy(), 0.5 * problem.yy
    _grow(H, B, DEPENDENT, value, least_gain, uses, structure.max_inputs, members)
    return [np.flatnonzero(row) for row in members]


@kernel(i8(MAT, MAT, VEC, b1[::1], i8, b1[:, ::1], i8[::1], i8))
def _best(A, B, floor, chosen, without, uses, users, room):  # type: ignore[no-untyped-def]
    """Return the monomial that gains most within the limit on inputs, -1 where none is left."""
    best, most = -1, 0.0
    for i in range(len(users)):
        room -= users[i] > 0
    for j in range(len(A)):
        if chosen[j] or j == without or A[j, j] <= floor[j]:
            continue
        new = 0
        for i in range(len(users)):
            new += uses[j, i] and users[i] == 0
        if new > room:
            continue
        squares = 0.0
        for t in range(len(B)):
            squares += B[t, j] * B[t, j]
        if squares > most * A[j, j]:
            best, most = j, squares / A[j, j]
    return best


@kernel(f8(MAT, MAT, i8))
def _value(A, B, j):  # type: ignore[no-untyped-def]
    """Return the gain of a monomial, or the cost of leaving out one that is chosen."""
    squares = 0.0
    for t in range(len(B)):
        squares += B[t, j] * B[t, j]
    return 0.5 * squares / abs(A[j, j])


@kernel(void(MAT, MAT, b1[::1], i8, b1[:, ::1], i8[::1]))
def _sweep(A, B, chosen, k, uses, users):  # type: ignore[no-untyped-def]
    """Take a monomial in, or out where it is in."""
    f, pivot = len(A), A[k, k]
    sign = -1.0 if chosen[k] else 1.0
    for t in range(len(B)):
        share = B[t, k] / pivot
        for j in range(f):
            B[t, j] -= share * A[k, j]
        B[t, k] = sign * share
    for i in range(f):
        if i != k:
            share = A[i, k] / pivot
            for j in range(f):
                A[i, j] -= share * A[k, j]
            A[i, k] = sign * share
    for j in range(f):
        A[k, j] *= sign / pivot
    A[k, k] = -1.0 / pivot
    chosen[k] = not chosen[k]
    for i in range(len(users)):
        users[i] += int(sign) * uses[k, i]


@kernel(void(MAT, MAT, f8, f8, f8, b1[:, ::1], i8, b1[:, ::1]), entry=True)
def _grow(A, B, dependent, value, least_gain, uses, max_inputs, members):  # type: ignore[no-untyped-def]
    """Note every size."""
    chosen = np.zeros(len(A), dtype=np.bool_)
    costs, floor = np.empty(len(A)), dependent * np.diag(A)
    users = np.zeros(uses.shape[1], dtype=np.int64)
    count = 0
    for size in range(len(members)):
        j = _best(A, B, floor, chosen, -1, uses, users, max_inputs)
        if j >= 0:
            value -= _value(A, B, j)
            _sweep(A, B, chosen, j, uses, users)
            count += 1
        improved = j >= 0 and count > 1
        swaps = 0
        while improved and swaps < 2 * count:
            improved = False
            for i in range(len(A)):
                costs[i] = _value(A, B, i) if chosen[i] else np.inf
            for i in np.argsort(costs)[:CHEAPEST]:
                if not chosen[i]:
                    break
                _sweep(A, B, chosen, i, uses, users)
                j = _best(A, B, floor, chosen, i, uses, users, max_inputs)
                gain = _value(A, B, j) - costs[i] if j >= 0 else 0.0
                if gain > least_gain * value and gain > 0.0:
                    value -= gain
                    _sweep(A, B, chosen, j, uses, users)
                    improved = True
                    swaps += 1
                    break
                _sweep(A, B, chosen, i, uses, users)
        members[size] = chosen
