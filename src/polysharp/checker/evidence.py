"""The records of a proof: what it is about, and a tree with the evidence for each part of it.

A statement is complete: from it and the rows alone, the monomials can be listed, the columns
computed and every rule checked, with nothing from the search that made the proof.  The tree covers
all supports.

Node 0 is the whole problem.  A node is one of three kinds:

    split        along a chain c_1, ..., c_m of monomials (or of inputs) into m + 1 children: child
                 a has c_1..c_{a-1} in and c_a out, the last child all of them in;
    dual         a vector whose dual value reaches the claim (none is needed if the rules leave no
                 support there);
    enumeration  the reader goes through all supports of the node, or, ``on_inputs``, through all
                 sets of inputs that fill the budget, each bounded by the ridge regression on all of
                 its monomials.

Before that a node may fix monomials by screening, the fourth kind of evidence: a vector proves that
every support of the node that contains (leaves out) monomial j costs at least the claim.

A vector is a sparse w; it stands for the dual vector a = y - M w, and its value is

    1/2 yy - 1/2 w'Qw - sum_in Z_j - top_L(Z_j, j free),   rho = q - Qw,  Z_j = rho_j^2/(2 ridge_j),

with Q = G - diag(d) - K, ridge = lam + d > 0 (``inequalities`` has it with intervals, ``curvature``
has d and K).  Without a diagonal the residual may be scaled.

After every fixing the rules apply (``rules``).  Monomials are named by their positions in the
statement's list.  If that list is not complete, top_L runs over the unlisted monomials too, until a
screening leaves ``only`` some listed ones alive; diagonals and enumeration come after that.  If one
or two monomials may join, such a screening may name columns ``along`` in place of its vector
(``unlisted``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from math import inf, isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Kind = Literal["dual", "split", "enumeration"]
Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
VectorPart = tuple[Positions, Floats]  # of one response
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
        names, p = self.names, len(self.names)
        among = f"of {len(self.monomials)} monomials" if self.listed else "monomials"
        scaled = ", ".join(f"{name} / {scale!r}" for name, scale in self.responses)
        shared = f"responses, with the same terms and their costs added: {scaled}"
        refit = (
            f"estimated afterwards with gamma {self.refit_gamma!r}, for the terms that were chosen "
            f"with gamma {self.gamma!r}; the proof is about these terms, and the objective and the "
            "bound are those of the choice"
        )
        rules = {
            "coefficients shown": refit if self.refit_gamma is not None else "",
            "heredity": self.heredity,
            "excluded terms": self._written(self.excluded_terms),
            "required terms": self._written(self.required_terms),
            "required inputs": ", ".join(names[i] for i in self.required_inputs),
            "two-valued inputs, at most once in a term": ", ".join(
                names[i] for i in self.two_valued
            ),
            "coefficients": ", ".join(self._intervals()),
        }
        shift, scale = self.shift.tolist(), self.scale.tolist()
        lines = [
            f"{shared if scaled else f'response: {self.response}'}, rows of total weight "
            f"{self.total_weight!r}",
            f"polynomials: degree {self.degree}, {'exactly' if self.exact_size else 'at most'} "
            f"{self.max_terms} {among} in at most {self.max_inputs} of {len(self.kept_inputs)} "
            f"inputs ({p} were given)",
            f"terms: at most {self.max_interaction} inputs in one, degree at most "
            f"{self.interaction_degree} where there are two or more",
            f"intercept: {'free' if self.fit_intercept else 'none'}",
            f"ridge: gamma {self.gamma!r}, on the coefficients of the scaled monomials",
            *(f"{name}: {rule}" for name, rule in rules.items() if rule),
            *(
                f"input {names[i]}: ({names[i]} - {shift[i]!r}) / {scale[i]!r}"
                for i in self.kept_inputs
            ),
            *(
                f"function: {name} of {names[i]} / {scale[c]!r}"
                for c, (i, name) in enumerate(self.functions, start=p)
                if i in self.kept_inputs
            ),
            f"model: {self._written(self.support) or 'no term'}; costs at most {self.objective!r}",
        ]
        return "\n".join(lines)

    def _written(self, terms: Iterable[Term]) -> str:
        columns = [*self.names, *(f"{name}({self.names[i]})" for i, name in self.functions)]
        powers = [
            [columns[c] + (f"^{e}" if e > 1 else "") for c, e in Counter(m).items()] for m in terms
        ]
        return ", ".join(" ".join(own) or "1" for own in powers)

    def _intervals(self) -> list[str]:
        everywhere, inputs, terms = self.coefficients
        every = "every other term" if inputs or terms else "every term"
        told = [(everywhere, every)] if everywhere != ANYTHING else []
        told += [(interval, f"terms with {self.names[i]}") for i, interval in inputs]
        told += [(interval, self._written([m])) for m, interval in terms]
        return [f"{_interval(*interval)} for {what}" for interval, what in told]


def _interval(low: float, high: float) -> str:
    if low == -inf:
        return f"at most {high!r}"
    return f"at least {low!r}" if high == inf else f"from {low!r} to {high!r}"


class ProofError(ValueError):
    """What was given is no proof, or no whole file of one."""


@dataclass(frozen=True, eq=False)
class Vector:
    """A sparse w, the number of its diagonal (-1: none) and, without one, what a is times.

    If there are several responses, position t f + j names monomial j of response t.
    """

    index: Positions
    value: Floats
    diagonal: int = -1
    multiple: float = 1.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """A pairwise shift over sorted monomials: reach a_j, and ratios t_ij in steps of 2^-15."""

    index: Positions
    reach: Floats
    ratios: NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Diagonal:
    """d on the monomials ``index``; G - diag(d) - K is positive semidefinite there.

    K is that of ``pairs`` (many diagonals share one), acting on the monomials ``free`` alone, of
    which a support has at most ``terms``.
    """

    index: Positions
    value: Floats
    pairs: Any = None  # a record with the fields of Pairs
    free: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    terms: int = 0


@dataclass(frozen=True, eq=False)
class Screening:
    """Monomials that one vector fixes out or in; with ``only``, all others are out too.

    That these are out is shown by the vector, or by the columns of the monomials ``along``.
    """

    vector: Vector
    out: Positions
    inn: Positions
    only: Positions | None = None
    along: Positions | None = None


@dataclass(frozen=True, eq=False)
class ProofNode:
    """One node; ``children`` are positions in the list of nodes."""

    kind: Kind
    screenings: tuple[Screening, ...] = ()
    vector: Vector | None = None
    chain: tuple[int, ...] = ()
    on_inputs: bool = False
    children: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class ProofRecord:
    """The claim "no allowed support costs less than ``bound``", and the tree that proves it.

    ``statement`` says what the claim is about in terms of the data.  The claim leaves out the
    supports in ``exceptions``, which are named one by one.
    """

    bound: float
    nodes: tuple[ProofNode, ...]
    diagonals: tuple[Diagonal, ...] = ()
    statement: Statement | None = None
    exceptions: tuple[tuple[int, ...], ...] = ()

    @property
    def vectors(self) -> list[Vector]:
        """All vectors that it rests on."""
        own = [node.vector for node in self.nodes if node.vector is not None]
        return own + [screening.vector for node in self.nodes for screening in node.screenings]


def all_finite(proof: Any) -> bool:
    """Return whether every number of a proof is one; only intervals may be open."""
    stack, seen = [proof], set[int]()
    while stack:
        record = stack.pop()
        if isinstance(record, int | float):
            if not isfinite(record):
                return False
        elif isinstance(record, np.ndarray):
            if record.dtype.kind not in "biuf" or not np.isfinite(record).all():
                return False
        elif isinstance(record, tuple | list):
            stack += record
        elif is_dataclass(record) and id(record) not in seen:  # vectors are shared by nodes
            seen.add(id(record))
            stack += [getattr(record, f.name) for f in fields(record) if f.name != "coefficients"]
    return True
