"""What a proof is about: the preparation of the data, the monomials, the rules and the model.

A statement is complete: from it and the rows alone, the monomials can be listed, the columns
computed and every rule checked, with nothing from the search that made the proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Term = tuple[int, ...]  # columns with repetition: (0, 0, 3) is x0^2 x3, () the constant
LowHigh = tuple[float, float]
ANYTHING: LowHigh = (-inf, inf)


class Intervals(NamedTuple):
    """Intervals of coefficients: for every term, for terms with an input, for single terms."""

    everywhere: LowHigh = ANYTHING
    inputs: tuple[tuple[int, LowHigh], ...] = ()
    terms: tuple[tuple[Term, LowHigh], ...] = ()


NO_INTERVALS = Intervals()


@dataclass(frozen=True, eq=False, kw_only=True)
class Statement:
    """No polynomial of this kind has a lower objective on these data than the bound of the proof.

    The kind: monomials of degree at most ``degree`` in ``kept_inputs``, with at most
    ``max_interaction`` distinct inputs, of degree at most ``interaction_degree`` where they have
    two inputs or more, the constant only without a free intercept, without ``excluded_terms``,
    without powers of inputs in ``two_valued``, and without those that can never meet the heredity;
    at most ``max_terms`` of them, or exactly as many with ``exact_size``.  ``monomials`` lists
    them: positions in that list name them in the proof, as positions in ``kept_inputs`` name inputs
    there.  If they are too many to list (``listed`` is false), the list has those that the proof
    names, and the claim covers all others as well.

    Factors are the inputs and ``functions`` of them, (input, name), numbered after the inputs and
    computed in double precision from the inputs as they are; a monomial has at most
    ``max_interaction`` distinct inputs, not columns, and neither an input with its own inverse nor
    a square root twice.

    Columns are prod_{i in m} (x_i - shift_i) / scale_i times the scale of the monomial
    (sqrt of the number of orderings of m padded to ``degree``), centred by their weighted means
    when the intercept is free, rows weighted by the sample weights.  Coefficients of the products
    of x_i - shift_i keep to ``coefficients``.

    The objective, the bound and the choice of terms are about the ridge of ``gamma``.  If
    ``refit_gamma`` is given, the coefficients shown were estimated with that ridge afterwards, for
    the same terms; nothing is claimed about them.
    """

    names: tuple[str, ...]  # of the inputs given to fit
    response: str
    # Several responses, each divided by its scale, share their terms, and their costs are added.
    responses: tuple[tuple[str, float], ...] = ()
    total_weight: float  # of the rows; their number if there are no weights
    degree: int
    kept_inputs: tuple[int, ...]  # of those given, ascending
    max_interaction: int
    interaction_degree: int
    excluded_terms: tuple[Term, ...]
    monomials: tuple[Term, ...]  # in the inputs given
    listed: bool = True
    functions: tuple[tuple[int, str], ...] = ()
    shift: NDArray[np.float64]  # one per input given, then one per function
    scale: NDArray[np.float64]  # likewise
    fit_intercept: bool
    gamma: float
    refit_gamma: float | None = None
    max_terms: int
    max_inputs: int
    required_terms: tuple[Term, ...]
    required_inputs: tuple[int, ...]
    heredity: str | None
    two_valued: tuple[int, ...] = ()  # inputs that stand at most once in a term
    support: tuple[Term, ...]  # of the model found
    objective: float  # which it does not exceed
    exact_size: bool = False
    coefficients: Intervals = NO_INTERVALS

    def __str__(self) -> str:
        """Everything that the claim depends on, line by line."""
        among = f"of {len(self.monomials)} monomials" if self.listed else "monomials"
        size = "exactly" if self.exact_size else "at most"
        response = f"response: {self.response}"
        if self.responses:
            scaled = ", ".join(f"{name} / {scale!r}" for name, scale in self.responses)
            response = f"responses, with the same terms and their costs added: {scaled}"
        lines = [
            f"{response}, rows of total weight {self.total_weight!r}",
            f"polynomials: degree {self.degree}, {size} {self.max_terms} {among} in at most "
            f"{self.max_inputs} of {len(self.kept_inputs)} inputs ({len(self.names)} were given)",
            f"terms: at most {self.max_interaction} inputs in one, degree at most "
            f"{self.interaction_degree} where there are two or more",
            f"intercept: {'free' if self.fit_intercept else 'none'}",
            f"ridge: gamma {self.gamma!r}, on the coefficients of the scaled monomials",
        ]
        if self.refit_gamma is not None:
            lines.append(
                f"coefficients shown: estimated afterwards with gamma {self.refit_gamma!r}, for "
                f"the terms that were chosen with gamma {self.gamma!r}; the proof is about these "
                "terms, and the objective and the bound are those of the choice"
            )
        rules = {
            "heredity": self.heredity,
            "excluded terms": self._written(self.excluded_terms),
            "required terms": self._written(self.required_terms),
            "required inputs": ", ".join(self.names[i] for i in self.required_inputs),
            "two-valued inputs, at most once in a term": ", ".join(
                self.names[i] for i in self.two_valued
            ),
            "coefficients": ", ".join(self._intervals()),
        }
        lines += [f"{name}: {rule}" for name, rule in rules.items() if rule]
        lines += [
            f"input {self.names[i]}: ({self.names[i]} - {float(self.shift[i])!r})"
            f" / {float(self.scale[i])!r}"
            for i in self.kept_inputs
        ]
        lines += [
            f"function: {name} of {self.names[i]} / {float(self.scale[len(self.names) + t])!r}"
            for t, (i, name) in enumerate(self.functions)
            if i in self.kept_inputs
        ]
        model = self._written(self.support) or "no term"
        return "\n".join([*lines, f"model: {model}; costs at most {self.objective!r}"])

    def _written(self, terms: Iterable[Term]) -> str:
        columns = [*self.names, *(f"{name}({self.names[i]})" for i, name in self.functions)]

        def power(c: int, e: int) -> str:
            return columns[c] if e == 1 else f"{columns[c]}^{e}"

        return ", ".join(" ".join(power(*one) for one in Counter(m).items()) or "1" for m in terms)

    def _intervals(self) -> list[str]:
        everywhere, inputs, terms = self.coefficients
        every = "every other term" if inputs or terms else "every term"
        lines = [] if everywhere == ANYTHING else [f"{_interval(everywhere)} for {every}"]
        lines += [f"{_interval(interval)} for terms with {self.names[i]}" for i, interval in inputs]
        return lines + [f"{_interval(interval)} for {self._written([m])}" for m, interval in terms]


def _interval(interval: Any) -> str:
    low, high = interval
    if low == -inf:
        return f"at most {high!r}"
    return f"at least {low!r}" if high == inf else f"from {low!r} to {high!r}"
