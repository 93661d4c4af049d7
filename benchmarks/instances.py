"""The standard instances: planted polynomials in the form every method receives them.

A ``Setting`` names one row of a table, ``make_instance(setting, seed)`` draws one data set:

    inputs   X (n, p) Gaussian, AR(1) with correlation rho, each divided by its root mean square
    design   M (n, f), the scaled monomials of degree 1..r of those inputs, columns centred and
             NOT standardised; y centred
    problem  min 1/2 |y - M w|^2 + lam/2 |w|^2, at most l monomials of at most k inputs,
             lam = 1/gamma, gamma = gamma_factor / sqrt(n)

This is what ``SparsePolynomialRegressor`` solves with its default scaling and a free intercept.
Peers get the same M, y and lam, so that all objectives are values of one function.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np

from polysharp.moments.gram import DesignGram
from polysharp.moments.moments import accumulate
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure
from polysharp.problem.assemble import MemoryLimits
from polysharp.problem.bounds import Accuracy
from polysharp.problem.problem import Problem
from polysharp.synthetic import make_sparse_polynomial
from polysharp.typing import Array, Indices

DENSE_LIMIT = 2**30  # bytes of G; beyond it the problem answers from the design
DATA_VARIABLE = "POLYSHARP_DATA"


@dataclass(frozen=True)
class Setting:
    """One row of a table: everything about an instance but its seed."""

    n: int
    p: int = 25
    degree: int = 3
    max_terms: int = 20
    max_inputs: int | None = None  # k of the fit; None is k = p
    planted_inputs: int | None = None  # inputs of the law; None draws from all of them
    rho: float = 0.0
    snr_sqrt: float = 20.0
    gamma_factor: float = 1.0
    data: str = "planted"  # or the name of a real data set

    @property
    def gamma(self) -> float:
        """Ridge parameter gamma = gamma_factor / sqrt(n)."""
        return self.gamma_factor / np.sqrt(self.n)


@dataclass(frozen=True, eq=False)
class Instance:
    """One data set with the problem made of it and the law behind it."""

    setting: Setting
    seed: int
    X: Array  # inputs divided by their root mean square
    y: Array
    basis: Basis
    problem: Problem
    planted: Indices | None  # indices of the planted monomials in the basis
    moments_seconds: float  # time to go from X, y to the problem

    @cached_property
    def design(self) -> Array:
        """M (n, f) with centred columns, stored by columns."""
        M = self.basis.evaluate(self.X)
        M -= M.mean(axis=0)
        return np.asfortranarray(M)

    @property
    def response(self) -> Array:
        """Centred y."""
        return self.y - self.y.mean()

    @property
    def design_bytes(self) -> int:
        """Size of the design matrix."""
        return 8 * len(self.y) * len(self.basis)

    @property
    def planted_objective(self) -> float | None:
        """Objective of the planted support, where there is one and the budgets allow it."""
        if self.planted is None or not self.problem.structure.allows(self.planted):
            return None
        return self.problem.refit(self.planted).objective


def make_instance(setting: Setting, seed: int) -> Instance:
    """Draw the data of a setting, or read them, and build the problem."""
    if setting.data != "planted":
        return _real_instance(setting, seed)
    data = make_sparse_polynomial(
        setting.n,
        setting.p,
        setting.degree,
        setting.planted_inputs,
        setting.max_terms,
        setting.snr_sqrt,
        seed,
        rho=setting.rho,
    )
    basis = Basis.full(setting.p, setting.degree, constant=False)
    planted = np.array(sorted(basis.index[m] for m in data.monomials), dtype=np.intp)
    return _build(setting, seed, data.X, data.y, basis, planted)


def _build(
    setting: Setting, seed: int, X: Array, y: Array, basis: Basis, planted: Indices | None
) -> Instance:
    X = X / np.sqrt(np.mean(X**2, axis=0))
    structure = Structure.of_basis(basis, setting.max_terms, setting.max_inputs)
    started = perf_counter()
    problem = _problem(basis, X, y, 1.0 / setting.gamma, structure)
    return Instance(setting, seed, X, y, basis, problem, planted, perf_counter() - started)


def _problem(basis: Basis, X: Array, y: Array, lam: float, structure: Structure) -> Problem:
    n, f = len(X), len(basis)
    if 8 * f**2 <= DENSE_LIMIT and not (n <= MemoryLimits.rows_share * f and f > MemoryLimits.few):
        moments = accumulate(basis, X, y)
        return Problem.dense(
            moments.scatter, moments.cross, moments.spread, lam, structure, rank=moments.n_rows
        )
    M = basis.evaluate(X)
    M -= M.mean(axis=0)
    t = y - y.mean()
    gram, yy = DesignGram.of(M), float(t @ t)
    known = Accuracy.of(gram.diagonal, yy, n)
    return Problem(gram, t @ M, yy, lam, structure, known)


def real_setting(name: str, degree: int, max_inputs: int, max_terms: int) -> Setting | None:
    """Return the setting of a data set, None where the data folder does not have it.

    The folder is named by the environment variable POLYSHARP_DATA; ``name-coded`` fits in
    coded variables x - mean.
    """
    folder = os.environ.get(DATA_VARIABLE)
    if folder is None or not (Path(folder) / f"{_file_of(name)}").exists():
        return None
    X, _ = _read(name)
    return Setting(X.shape[0], X.shape[1], degree, max_terms, max_inputs, data=name)


def _real_instance(setting: Setting, seed: int) -> Instance:
    X, y = _read(setting.data)
    if setting.data.endswith("-coded"):
        X = X - X.mean(axis=0)
    basis = Basis.full(setting.p, setting.degree, constant=False)
    return _build(setting, seed, X, y, basis, None)


def _file_of(name: str) -> str:
    return f"{name.removesuffix('-coded')}.csv.gz"


def _read(name: str) -> tuple[Array, Array]:
    path = Path(os.environ[DATA_VARIABLE]) / _file_of(name)
    with gzip.open(path, "rt", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    table = np.array(rows, dtype=np.float64)
    return table[:, :-1], table[:, -1]
