"""Proofs as the bytes of a file, which ``checker.archive`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from io import BytesIO
from math import isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from polysharp.checker.archive import FORMAT, KINDS, MIDDLE, VERSION, Stored
from polysharp.checker.claim import Statement
from polysharp.checker.evidence import ProofRecord

Record = TypeVar("Record")


def packed(proof: ProofRecord) -> bytes:
    """Return a proof as the bytes of a file; ``read_proof`` gives back the same numbers."""
    vectors, number = _once(proof.vectors)
    pairs, place = _once(d.pairs for d in proof.diagonals if d.pairs is not None)
    screenings = [s for node in proof.nodes for s in node.screenings]
    arrays: Stored = {
        "node_kind": _whole(KINDS.index(node.kind) for node in proof.nodes),
        "node_on_inputs": _whole(node.on_inputs for node in proof.nodes),
        "node_vector": _whole(number.get(id(node.vector), -1) for node in proof.nodes),
        "node_screenings": _whole(len(node.screenings) for node in proof.nodes),
        **_joined("node_chain", [node.chain for node in proof.nodes]),
        **_joined("node_children", [node.children for node in proof.nodes]),
        "screening_vector": _whole(number[id(s.vector)] for s in screenings),
        **_joined("screening_out", [s.out for s in screenings]),
        **_joined("screening_in", [s.inn for s in screenings]),
        **_optional("screening_only", [s.only for s in screenings]),
        **_optional("screening_along", [s.along for s in screenings]),
        **_joined("vector_index", [v.index for v in vectors]),
        "vector_value": _end_to_end(v.value for v in vectors),
        "vector_diagonal": _whole(v.diagonal for v in vectors),
        "vector_multiple": np.array([v.multiple for v in vectors], dtype=np.float64),
        **_joined("diagonal_index", [d.index for d in proof.diagonals]),
        "diagonal_value": _end_to_end(d.value for d in proof.diagonals),
        "diagonal_pairs": _whole(place.get(id(d.pairs), -1) for d in proof.diagonals),
        **_joined("diagonal_free", [d.free for d in proof.diagonals]),
        "diagonal_terms": _whole(d.terms for d in proof.diagonals),
        **_joined("pairs_index", [one.index for one in pairs]),
        "pairs_reach": _end_to_end(one.reach for one in pairs),
        "pairs_ratios": np.concatenate([np.zeros(0, np.uint16), *map(_triangle, pairs)]),
        **_joined("exceptions", proof.exceptions),
    }
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bound": proof.bound}
    if proof.statement is not None:
        stated = {f.name: getattr(proof.statement, f.name) for f in fields(Statement)}
        arrays |= _joined("monomials", stated.pop("monomials"))
        arrays |= {"shift": stated.pop("shift"), "scale": stated.pop("scale")}
        everywhere, inputs, terms = stated["coefficients"]
        keyed = [[[key, _or_none(interval)] for key, interval in one] for one in (inputs, terms)]
        header["statement"] = stated | {"coefficients": [_or_none(everywhere), *keyed]}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _once(records: Iterable[Record]) -> tuple[list[Record], dict[int, int]]:
    """Return records in the order met, each once, and the number of each by its id."""
    found = {id(record): record for record in records}
    return list(found.values()), {key: number for number, key in enumerate(found)}


def _whole(values: Iterable[int]) -> NDArray[Any]:
    return np.array(list(values), dtype=np.int64)


def _joined(name: str, lists: Sequence[Any]) -> Stored:
    """Return lists of whole numbers end to end, and their lengths."""
    parts = [np.asarray(part, dtype=np.int64) for part in lists]
    flat = np.concatenate([np.zeros(0, np.int64), *parts])
    return {name: flat, f"{name}_length": _whole(map(len, parts))}


def _optional(name: str, lists: Sequence[Any]) -> Stored:
    """Return lists of which some are None, and which are not."""
    given = _whole(own is not None for own in lists)
    return {f"{name}_given": given, **_joined(name, [() if a is None else a for a in lists])}


def _end_to_end(parts: Iterable[Any]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0), *parts])


def _triangle(pairs: Any) -> NDArray[np.uint16]:
    """Return the ratios above the diagonal, row by row."""
    rows = [row[a + 1 :].astype(np.int32) + MIDDLE for a, row in enumerate(pairs.ratios)]
    return np.concatenate([np.zeros(0, np.int32), *rows]).astype(np.uint16)


def _or_none(interval: tuple[float, float]) -> list[float | None]:
    """Return an interval as JSON has it: infinite ends are null."""
    return [value if isfinite(value) else None for value in interval]
