"""Writing a proof of a lower bound while a search runs, and then to a file.

``polysharp.checker.evidence`` has the records and says what each proves; ``checker.archive`` says
how they are stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from io import BytesIO
from math import isfinite
from os import PathLike
from typing import Any

import numpy as np

from polysharp.checker.archive import FORMAT, KINDS, MIDDLE, RECORDS, VERSION, Stored, read_proof
from polysharp.checker.evidence import (
    Diagonal,
    Pairs,
    ProofNode,
    ProofRecord,
    Screening,
    Statement,
    Vector,
)
from polysharp.data.files import write_file
from polysharp.typing import Indices, Monomial

CLAIM_ROOM = 1e-9  # share of the bound: a thousand times what rounding takes on ordinary data


@dataclass(frozen=True, eq=False)
class Proof(ProofRecord):
    """A proof that can be saved; ``monomials`` are those named in it, if not all are listed."""

    monomials: tuple[Monomial, ...] | None = None

    def about(self, statement: Statement) -> Proof:
        """Return the proof with its statement."""
        return replace(self, statement=statement)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the proof to one small file, which ``load`` reads."""
        write_file(path, packed(self))

    @staticmethod
    def load(path: str | PathLike[str]) -> Proof:
        """Read a proof from a file; nothing in it is run."""
        return read_proof(path, Proof)


@dataclass(eq=False)
class ProofWriter:
    """Collects nodes while a search runs; gives up beyond ``limit`` stored numbers.

    A search over unlisted monomials names those that it writes about, in ``names``.
    """

    limit: int
    nodes: list[ProofNode] = field(default_factory=list)
    diagonals: list[Diagonal] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    pairs: set[int] = field(default_factory=set)  # by id, of diagonals that are listed
    stored: int = 0
    names: dict[Monomial, int] | None = None

    @property
    def full(self) -> bool:
        """Whether the proof has outgrown its limit and is no longer kept."""
        return self.stored > self.limit

    def reserve(self) -> int:
        """Return the number of a new node."""
        self.nodes.append(ProofNode("split"))
        return len(self.nodes) - 1

    def listed(self, diagonal: Diagonal) -> int:
        """Return the number of a diagonal, which is added to the list if it is new.

        The list keeps it, and with it its id; a pairwise shift counts once, two bytes a pair.
        """
        if id(diagonal) not in self.numbers:
            self.numbers[id(diagonal)] = len(self.diagonals)
            self.diagonals.append(diagonal)
            self.stored += len(diagonal.index)
            pairs = diagonal.pairs
            if pairs is not None and id(pairs) not in self.pairs:
                self.pairs.add(id(pairs))
                self.stored += len(pairs.index) ** 2 // 8 + len(pairs.index)
        return self.numbers[id(diagonal)]

    def places(self, monomials: Iterable[Monomial]) -> Indices:
        """Return the positions of monomials, naming new ones."""
        names = self.names if self.names is not None else {}
        return np.array([names.setdefault(m, len(names)) for m in monomials], dtype=np.intp)

    def continue_with(
        self, number: int, first: Screening, inner: ProofRecord, places: Indices
    ) -> None:
        """Go on, after a screening, with a proof about monomials that stand at ``places``."""
        shift, moved = len(self.nodes), len(self.diagonals)
        self.nodes += [ProofNode("split")] * (len(inner.nodes) - 1)
        shared = {id(d.pairs): d.pairs for d in inner.diagonals}
        placed = {key: _placed(own, places) for key, own in shared.items() if own is not None}
        for d in inner.diagonals:
            pairs = placed.get(id(d.pairs))
            self.listed(replace(d, index=places[d.index], pairs=pairs, free=places[d.free]))
        seen: dict[int, Vector] = {}

        def vector(v: Vector) -> Vector:
            diagonal = v.diagonal + moved if v.diagonal >= 0 else -1
            return seen.setdefault(id(v), replace(v, index=places[v.index], diagonal=diagonal))

        for a, node in enumerate(inner.nodes):
            screenings = tuple(
                Screening(vector(s.vector), places[s.out], places[s.inn]) for s in node.screenings
            )
            chain = node.chain if node.on_inputs else tuple(places[list(node.chain)].tolist())
            moved_node = ProofNode(
                node.kind,
                screenings if a else (first, *screenings),
                None if node.vector is None else vector(node.vector),
                chain,
                node.on_inputs,
                tuple(shift + child - 1 for child in node.children),
            )
            self.write(shift + a - 1 if a else number, moved_node)

    def write(self, number: int, node: ProofNode) -> None:
        """Set a node; screenings and vectors count towards the limit."""
        if self.full:
            self.nodes.clear()
            return
        self.nodes[number] = node
        lists: list[Indices | None] = [None if node.vector is None else node.vector.index]
        for s in node.screenings:
            lists += s.vector.index, s.out, s.inn, s.only, s.along
        self.stored += sum(len(part) for part in lists if part is not None)

    def write_input_sets(
        self,
        number: int,
        screenings: tuple[Screening, ...],
        sets: Sequence[tuple[int, ...]],
        children: Sequence[int],
    ) -> None:
        """Write a node of which all sets of inputs are bounded one by one, but for some ``sets``.

        Each of these has a child.  The first set is a chain to split along: its last child has all
        of the set in, and every other child leaves one of its inputs out, so that each further set
        lies in one of them; one without any is an enumeration of sets of inputs.
        """
        stack = [(number, screenings, list(zip(sets, children, strict=True)))]
        while stack and not self.full:
            here, screened, left = stack.pop()
            if not left:
                self.write(here, ProofNode("enumeration", screened, on_inputs=True))
                continue
            (chain, child), *others = left
            records = []
            for a, i in enumerate(chain):  # others with the inputs before i, and without i
                records.append(self.reserve())
                lie = [(s, c) for s, c in others if i not in s and {*chain[:a]} <= {*s}]
                below = [(tuple(j for j in s if j not in chain[:a]), c) for s, c in lie]
                stack.append((records[-1], (), below))
            split = (*records, child)
            self.write(here, ProofNode("split", screened, None, chain, True, split))
        if self.full:
            self.nodes.clear()

    def proof(self, bound: float) -> Proof | None:
        """Return the finished proof, or None if it was given up.

        A reader lowers every value by what rounding can add at worst, in sums of an order of its
        own, so the claim stays a little below what the search has reached.
        """
        if self.full:
            return None
        claim, names = bound - CLAIM_ROOM * abs(bound), self.names
        named = None if names is None else tuple(names)
        return Proof(claim, tuple(self.nodes), tuple(self.diagonals), monomials=named)


def _placed(pairs: Pairs, places: Indices) -> Pairs:
    """Return a pairwise shift of monomials that stand at ``places``, in their order there."""
    index = places[pairs.index]
    order = np.argsort(index)
    return Pairs(index[order], pairs.reach[order], pairs.ratios[np.ix_(order, order)])


# Files --------------------------------------------------------------------------------------------


def packed(proof: ProofRecord) -> bytes:
    """Return a proof as the bytes of a file; ``read_proof`` gives back the same numbers."""
    shared = {id(d.pairs): d.pairs for d in proof.diagonals if d.pairs is not None}
    records: dict[str, Sequence[Any]] = {
        "pairs": list(shared.values()),
        "diagonal": proof.diagonals,
        "vector": list({id(v): v for v in proof.vectors}.values()),
        "screening": [s for node in proof.nodes for s in node.screenings],
        "node": proof.nodes,
    }
    number = {id(record): a for own in records.values() for a, record in enumerate(own)}
    number |= {id(None): -1} | {id(node.kind): KINDS.index(node.kind) for node in proof.nodes}
    arrays = _arrays("exceptions", "tuples", proof.exceptions)
    for record, (kind, layout) in RECORDS.items():
        for own, (name, how) in zip(fields(kind), layout.items(), strict=True):
            values = [getattr(one, own.name) for one in records[record]]
            refers = how.removesuffix(" or none") in (*RECORDS, "kind")
            stored = [number[id(one)] for one in values] if refers else values
            arrays |= _arrays(f"{record}_{name}", "whole" if refers else how, stored)
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bound": proof.bound}
    if proof.statement is not None:
        stated = {f.name: getattr(proof.statement, f.name) for f in fields(Statement)}
        arrays |= _arrays("monomials", "tuples", stated.pop("monomials"))
        arrays |= {name: stated.pop(name) for name in ("shift", "scale")}
        everywhere, inputs, terms = stated["coefficients"]
        keyed = [[[key, _or_none(interval)] for key, interval in one] for one in (inputs, terms)]
        header["statement"] = stated | {"coefficients": [_or_none(everywhere), *keyed]}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _arrays(name: str, how: str, values: Sequence[Any]) -> Stored:
    """Return the arrays of one field of all records of a kind (``checker.archive.RECORDS``)."""
    match how:
        case "whole" | "flag":
            return {name: np.array(values, dtype=np.int64)}
        case "real":
            return {name: np.array(values, dtype=np.float64)}
        case "owned":
            return {name: np.array([len(own) for own in values], dtype=np.int64)}
        case "reals":
            return {name: np.concatenate([np.zeros(0), *values])}
        case "triangles":
            rows = [row[a + 1 :] for ratios in values for a, row in enumerate(ratios)]
            flat = np.concatenate([np.zeros(0, np.int32), *rows], dtype=np.int32) + MIDDLE
            return {name: flat.astype(np.uint16)}
    lists = [np.array([] if own is None else own, dtype=np.int64) for own in values]
    arrays = {
        name: np.concatenate([np.zeros(0, np.int64), *lists]),
        f"{name}_length": np.array([len(own) for own in lists], dtype=np.int64),
    }
    if how == "lists or none":
        arrays[f"{name}_given"] = np.array([own is not None for own in values], dtype=np.int64)
    return arrays


def _or_none(interval: tuple[float, float]) -> list[float | None]:
    """Return an interval as JSON has it: infinite ends are null."""
    return [value if isfinite(value) else None for value in interval]
