"""What a proof is about: the data's preparation, the monomials, the rules and the model."""

from __future__ import annotations

from dataclasses import dataclass

from polysharp.basis import Array, Monomial
from polysharp.structure import Heredity


@dataclass(frozen=True, eq=False)
class Statement:
    """Among all polynomials of this kind, none has a lower objective on these data than the bound.

    Columns are prod_{i in m} (x_i - shift_i) / scale_i times the scale of the monomial
    (sqrt of the number of orderings of m padded to ``degree``), centred by their weighted means
    when the intercept is free, rows weighted by the sample weights.
    """

    n_inputs: int  # of the table given to fit
    degree: int
    monomials: tuple[Monomial, ...]  # in inputs of that table
    shift: Array  # (n_inputs,)
    scale: Array  # (n_inputs,)
    fit_intercept: bool
    gamma: float
    max_terms: int
    max_inputs: int
    required_terms: tuple[Monomial, ...]
    required_inputs: tuple[int, ...]
    heredity: Heredity
    support: tuple[Monomial, ...]  # of the model found
    objective: float
