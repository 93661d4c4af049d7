"""Formulas that come close to the best one: the record that ``rivals`` returns, and usage counts.

Usage counts say what rivals have in common and how they differ.  A set (of terms, or of inputs) is
a row of truth values.  Of all sets we count how many have each member and, for each member of the
first set, keep those that do without it and change the fewest others: what stands in for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.proof import Proof
from polysharp.certificate.solution import Stop
from polysharp.errors import load_optional
from polysharp.polynomial.polynomial import Polynomial
from polysharp.typing import Array
from polysharp.wording import plural, rounded_down

SHOWN = 10  # rivals and replacements that are printed

Sets = NDArray[np.bool_]  # one in a row


class Swap(NamedTuple):
    """What the nearest rivals without a term (or input) have in its place, and their excess."""

    out: tuple[str, ...]
    into: tuple[str, ...]
    excess: float


class Used(NamedTuple):
    """Something about terms, and the same about inputs."""

    terms: Any
    inputs: Any


class UsageCounts:
    """Counts of members, and at most ``most`` ways to do without each member of the first set.

    Sets come in blocks, the cheapest first.
    """

    def __init__(self, first: NDArray[np.bool_], most: int) -> None:
        self.first, self.most, self.count = first, most, 0
        self.having = np.zeros(len(first), dtype=np.int64)
        self._fewest = np.full(len(first), len(first) + 1)  # changes without each member
        self._ways: dict[int, dict[bytes, tuple[NDArray[np.bool_], float]]] = {}

    def add(self, sets: Sets, costs: Array) -> None:
        """Count sets that cost no less than those before them."""
        self.count += len(sets)
        self.having += sets.sum(axis=0)
        changed = sets != self.first
        changes, keys = changed.sum(axis=1), np.packbits(changed, axis=1)
        for member in np.flatnonzero(self.first).tolist():
            without = changed[:, member]
            fewest = int(changes[without].min(initial=len(self.first) + 1))
            if fewest < self._fewest[member]:
                self._fewest[member], self._ways[member] = fewest, {}
            nearest = np.flatnonzero(without & (changes == self._fewest[member]))
            _, one_each = np.unique(keys[nearest], axis=0, return_index=True)
            for a in nearest[np.sort(one_each)].tolist():
                ways = self._ways[member]
                if len(ways) < self.most:
                    ways.setdefault(keys[a].tobytes(), (changed[a], float(costs[a])))

    def shares(self, names: dict[int, str]) -> dict[str, float]:
        """Return the share of sets with each member, the most frequent and the first set's first.

        ``names`` are those of the members that any set has.
        """
        order = sorted(names, key=lambda j: (-self.having[j], not self.first[j], j))
        return {names[j]: float(self.having[j] / self.count) for j in order}

    def swaps(self, names: dict[int, str], least: float) -> dict[str, tuple[Swap, ...]]:
        """Return what stands in for each member of the first set, which costs least."""

        def swap(changed: NDArray[np.bool_], cost: float) -> Swap:
            out, into = (
                tuple(sorted(names[j] for j in np.flatnonzero(changed & part).tolist()))
                for part in (self.first, ~self.first)
            )
            return Swap(out, into, cost / least - 1.0 if least > 0.0 else 0.0)

        return {
            names[member]: tuple(swap(*way) for way in self._ways[member].values())
            for member in sorted(self._ways)
        }


@dataclass(frozen=True, eq=False)
class Rivals:
    """Formulas that come close to the best one, the best one first.

    Parameters
    ----------
    polynomials : tuple of Polynomial
        The best ``max_count`` rivals, best first; the first one is the best formula, which is the
        model unless the search has found a better one.
    objectives : ndarray
        Their objectives.
    count : int
        Number of rivals, those beyond ``max_count`` included.
    within : float
        How much worse than the best they may be, as a share of the objective.
    complete : bool
        Whether the list is proved complete.
    bound : float
        Lower bound on the objective of every other formula; if ``complete``, it is larger than
        ``1 + within`` times the best.
    shares : Used
        ``shares.terms`` and ``shares.inputs``: the share of rivals that use each, by name, the
        most frequent first.
    replaceable : Used
        ``replaceable.terms["a b"]`` has one ``Swap`` for each way in which rivals without ``a b``,
        among those most like the best formula, replace it, at most ``max_count``;
        ``replaceable.inputs`` has the same for inputs.
    proof : Proof or None
        The proof of ``bound``, which ``polysharp.verify`` checks; None if it was interrupted in the
        middle of a step, has outgrown its limits, or would name more than ``max_count``.
    stop : Stop
        Why the search ended.
    nodes : int
        Cases of the search tree.
    seconds : float
        Time of the search.
    written : int
        How many were written to ``path``: all of them, unless Ctrl-C ended that.
    """

    polynomials: tuple[Polynomial, ...]
    objectives: Array
    count: int
    within: float
    complete: bool
    bound: float
    shares: Used
    replaceable: Used
    proof: Proof | None
    stop: Stop
    nodes: int
    seconds: float
    written: int = 0

    def __len__(self) -> int:
        return len(self.polynomials)

    def __iter__(self) -> Iterator[Polynomial]:
        return iter(self.polynomials)

    @property
    def best(self) -> Polynomial:
        """The best formula."""
        return self.polynomials[0]

    @property
    def excess(self) -> Array:
        """By which share of the best cost each one costs more."""
        least = float(self.objectives[0])
        return self.objectives / least - 1.0 if least > 0.0 else np.zeros(len(self))

    @property
    def indispensable(self) -> Used:
        """Names of the terms and inputs that every rival uses."""
        return Used(
            *(tuple(n for n, share in part.items() if share == 1.0) for part in self.shares)
        )

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per rival, and a column for each term."""
        pd = load_optional("pandas", "to_frame", "cli")
        has = [set(p.term_names) for p in self.polynomials]
        columns: dict[str, Any] = {"objective": self.objectives, "excess": self.excess}
        columns["formula"] = [str(p) for p in self.polynomials]
        columns |= {name: [name in own for own in has] for name in self.shares.terms}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the proof as dicts, lists, texts and numbers."""
        return {
            **self.summary,
            "shares": self.shares._asdict(),
            "indispensable": self.indispensable._asdict(),
            "replaceable": {
                what: {name: [swap._asdict() for swap in swaps] for name, swaps in part.items()}
                for what, part in self.replaceable._asdict().items()
            },
            "rivals": [
                line(p, cost) for p, cost in zip(self, self.objectives.tolist(), strict=True)
            ],
        }

    @property
    def summary(self) -> dict[str, Any]:
        """What is known about all of them, as texts and numbers."""
        names = ("claim", "count", "within", "complete", "bound")
        return {name: getattr(self, name) for name in names} | {"stop": str(self.stop)}

    @property
    def claim(self) -> str:
        """What is known, in one sentence."""
        what = f"{plural(self.count, 'formula')} of {plural(len(self.best), 'term')}"
        first = f"{what} within {100 * self.within:.3g} % of the best"
        if self.complete:
            return f"{first}, and it is proved that there are no others"
        return (
            f"{first} so far ({self.stop}): any other costs at least {rounded_down(self.bound)}, "
            f"the best {self.objectives[0]:.6g}"
        )

    def __str__(self) -> str:
        """Return the claim, the first rivals as differences from the best, and what all have."""
        lines = [self.claim, f"  {self.best}"]
        own = self.best.term_names
        for polynomial, excess in zip(self.polynomials[1:SHOWN], self.excess[1:], strict=False):
            names = polynomial.term_names
            out = ", ".join(n for n in own if n not in names)
            into = ", ".join(n for n in names if n not in own)
            lines.append(f"  {100 * excess:+.3f} %: {into} in place of {out}")
        if self.count > SHOWN:
            lines.append(f"  ... and {plural(self.count - SHOWN, 'more formula')}")
        for what, names in zip(("terms", "inputs"), self.indispensable, strict=True):
            lines.append(f"{what} in all of them: {', '.join(names) or 'none'}")
        return "\n".join(lines)


def line(polynomial: Polynomial, cost: float) -> dict[str, Any]:
    """Return one rival as dicts and numbers, and as a line of a file."""
    return {
        "objective": cost,
        "formula": polynomial.formula(digits=6),
        "intercept": polynomial.intercept,
        "terms": dict(zip(polynomial.term_names, polynomial.coefficients.tolist(), strict=True)),
    }
