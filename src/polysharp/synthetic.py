"""The paper's synthetic data: a planted sparse polynomial of Gaussian inputs.

The paper draws monomials from the union of D(i) over k chosen inputs; a monomial of D(i) may also
contain other inputs.  Here monomials contain chosen inputs only, and every chosen input is used, so
that the planted polynomial is (k, l)-sparse.  Coefficients are -1 or +1 on the scaled monomials.
The noise has exactly the given ratio sqrt(SNR) = |signal| / |noise|.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polysharp.errors import InputError
from polysharp.monomials.basis import Basis, count_monomials
from polysharp.typing import Array, Indices, Monomial


@dataclass(frozen=True, eq=False)
class PlantedData:
    """Data and the planted polynomial: y = sum_j coefficients_j * x^monomials_j + noise."""

    X: Array
    y: Array
    monomials: tuple[Monomial, ...]
    coefficients: Array  # of the plain monomials, not the scaled ones
    signal: Array

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs of the law."""
        return tuple(sorted({i for m in self.monomials for i in m}))


def make_sparse_polynomial(
    n: int,
    p: int,
    degree: int = 3,
    max_inputs: int | None = None,
    max_terms: int = 10,
    snr_sqrt: float = 20.0,
    random_state: int | np.random.Generator | None = None,
    *,
    rho: float = 0.0,
) -> PlantedData:
    """Draw inputs, a planted (k, l)-sparse law and a noisy response.

    Parameters
    ----------
    n, p : int
        Rows and inputs.
    degree : int
        Largest degree of a planted monomial.
    max_inputs : int or None
        Number k of inputs that the law uses; None draws from all inputs, and some may be unused.
    max_terms : int
        Number l of planted monomials.
    snr_sqrt : float
        ``|signal| / |noise|``; ``inf`` for no noise.
    random_state : int, Generator or None
        Seed.
    rho : float
        Correlation of neighbouring inputs (AR(1)); 0 for independent inputs.

    Returns
    -------
    PlantedData

    Examples
    --------
    >>> data = make_sparse_polynomial(100, 10, 2, max_inputs=3, max_terms=4, random_state=0)
    >>> len(data.monomials), len(data.inputs)
    (4, 3)
    """
    k = p if max_inputs is None else max_inputs
    if not 1 <= k <= p:
        raise InputError(f"max_inputs must be between 1 and p={p}, got {max_inputs}")
    if not 1 <= max_terms < count_monomials(k, degree):
        raise InputError(
            f"max_terms must be between 1 and the {count_monomials(k, degree) - 1} monomials of "
            f"degree at most {degree} in {k} inputs, got {max_terms}"
        )
    if max_inputs is not None and max_terms * degree < k:
        raise InputError(
            f"max_terms={max_terms} monomials of degree {degree} cannot use max_inputs={k} inputs"
        )
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n, p))
    for i in range(1, p if rho else 0):
        X[:, i] = rho * X[:, i - 1] + np.sqrt(1.0 - rho**2) * X[:, i]
    chosen = np.sort(rng.choice(p, size=k, replace=False))
    monomials = _draw(rng, chosen, degree, max_terms, cover=max_inputs is not None)
    basis = Basis(range(p), degree, monomials)
    signs = rng.choice([-1.0, 1.0], size=max_terms)
    signal = basis.evaluate(X) @ signs
    noise = rng.standard_normal(n)
    noise *= np.linalg.norm(signal) / (snr_sqrt * np.linalg.norm(noise))
    return PlantedData(X, signal + noise, monomials, signs * basis.scales, signal)


def _draw(
    rng: np.random.Generator, inputs: Indices, degree: int, count: int, *, cover: bool
) -> tuple[Monomial, ...]:
    """Draw distinct monomials of the given inputs; with ``cover`` every input is used."""
    pool = Basis.full(inputs.tolist(), degree, constant=False)
    for _ in range(200):
        picks = rng.choice(len(pool), size=count, replace=False)
        if not cover or pool.uses[picks].any(axis=0).all():
            break
    else:
        # Random draws seldom use all inputs if terms are few: cover the inputs first.
        order = rng.permutation(len(inputs))
        products = [order[a : a + degree] for a in range(0, len(inputs), degree)]
        first = [pool.index[tuple(sorted(inputs[product].tolist()))] for product in products]
        others = np.setdiff1d(np.arange(len(pool)), first)
        picks = np.concatenate([first, rng.choice(others, size=count - len(first), replace=False)])
    return tuple(sorted(pool.monomials[a] for a in picks))
