"""Proofs as files: one compressed NumPy archive of numbers, with no code in it.

``header`` is a JSON text (format, version, bound, the plain fields of the statement); all else
is arrays.  Lists of unequal length are stored end to end with their lengths beside them:
``name`` and ``name_length``.  Vectors are listed once, in ``vector_*``, and named by their
number, since a node and its children often rely on the same one; -1 stands for none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from polysharp.certificate.proof import Diagonal, Kind, Proof, ProofNode, Screening, Vector
from polysharp.certificate.statement import Statement
from polysharp.errors import InputError
from polysharp.typing import Array

FORMAT = "polysharp-proof"
VERSION = 1
KINDS: tuple[Kind, ...] = ("dual", "single", "void", "split", "sets")
ARRAYS = ("shift", "scale")  # of the statement, beside its monomials

Numbers = NDArray[Any]


def save(proof: Proof, path: str | PathLike[str]) -> None:
    """Write a proof to one file; ``load`` gives back the same numbers, bit by bit."""
    vectors = _Numbering()
    screenings = [s for node in proof.nodes for s in node.screenings]
    arrays: dict[str, Numbers] = {
        "node_kind": np.array([KINDS.index(node.kind) for node in proof.nodes], dtype=np.int8),
        "node_on_inputs": np.array([node.on_inputs for node in proof.nodes], dtype=bool),
        "node_vector": np.array([vectors.of(node.vector) for node in proof.nodes], dtype=np.int64),
        "node_screenings": np.array([len(n.screenings) for n in proof.nodes], dtype=np.int64),
        "screening_vector": np.array([vectors.of(s.vector) for s in screenings], dtype=np.int64),
        **_joined("node_chain", [node.chain for node in proof.nodes]),
        **_joined("node_children", [node.children for node in proof.nodes]),
        **_joined("screening_out", [s.out for s in screenings]),
        **_joined("screening_in", [s.inn for s in screenings]),
        **_joined("vector_index", [v.index for v in vectors.listed]),
        "vector_value": _end_to_end([v.value for v in vectors.listed]),
        "vector_diagonal": np.array([v.diagonal for v in vectors.listed], dtype=np.int64),
        **_joined("diagonal_index", [d.index for d in proof.diagonals]),
        "diagonal_value": _end_to_end([d.value for d in proof.diagonals]),
    }
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bound": proof.bound}
    if proof.statement is not None:
        stated = {f.name: getattr(proof.statement, f.name) for f in fields(Statement)}
        arrays |= _joined("monomials", stated.pop("monomials"))
        arrays |= {name: stated.pop(name) for name in ARRAYS}
        header["statement"] = stated
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        np.savez_compressed(file, header=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]


def load(path: str | PathLike[str]) -> Proof:
    """Read a proof that ``save`` wrote; nothing in the file is run."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            stored: dict[str, Numbers] = dict(archive)
        header = json.loads(stored["header"].tobytes())
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise ValueError("another format")
        return _proof(header, stored)
    except (BadZipFile, EOFError, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(
            f"path must be a file of format {FORMAT}, version {VERSION}, got {str(path)!r}"
        ) from error


def _proof(header: dict[str, Any], stored: dict[str, Numbers]) -> Proof:
    index = _parts(stored, "vector_index")
    values = _cut(stored["vector_value"], stored["vector_index_length"])
    diagonal = stored["vector_diagonal"].tolist()
    vectors = [Vector(i, v, d) for i, v, d in zip(index, values, diagonal, strict=True)]
    screenings = iter(
        [
            Screening(vectors[number], out, inn)
            for number, out, inn in zip(
                stored["screening_vector"],
                _parts(stored, "screening_out"),
                _parts(stored, "screening_in"),
                strict=True,
            )
        ]
    )
    nodes = tuple(
        ProofNode(
            kind=KINDS[kind],
            screenings=tuple(next(screenings) for _ in range(count)),
            vector=None if vector < 0 else vectors[vector],
            chain=tuple(chain.tolist()),
            on_inputs=bool(on_inputs),
            children=tuple(children.tolist()),
        )
        for kind, count, vector, chain, on_inputs, children in zip(
            stored["node_kind"],
            stored["node_screenings"],
            stored["node_vector"],
            _parts(stored, "node_chain"),
            stored["node_on_inputs"],
            _parts(stored, "node_children"),
            strict=True,
        )
    )
    d_values = _cut(stored["diagonal_value"], stored["diagonal_index_length"])
    diagonals = zip(_parts(stored, "diagonal_index"), d_values, strict=True)
    statement = _statement(header["statement"], stored) if "statement" in header else None
    return Proof(header["bound"], nodes, tuple(Diagonal(i, v) for i, v in diagonals), statement)


def _statement(stated: dict[str, Any], stored: dict[str, Numbers]) -> Statement:
    monomials = tuple(tuple(m.tolist()) for m in _parts(stored, "monomials"))
    plain = {name: _tuples(value) for name, value in stated.items()}
    return Statement(monomials=monomials, **{name: stored[name] for name in ARRAYS}, **plain)  # type: ignore[arg-type]


def _tuples(value: Any) -> Any:
    """Undo what JSON does to tuples."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


class _Numbering:
    """Vectors in the order met, each listed once."""

    def __init__(self) -> None:
        self.listed: list[Vector] = []
        self._number: dict[int, int] = {}

    def of(self, vector: Vector | None) -> int:
        if vector is None:
            return -1
        if id(vector) not in self._number:
            self._number[id(vector)] = len(self.listed)
            self.listed.append(vector)
        return self._number[id(vector)]


def _joined(name: str, lists: Sequence[Any]) -> dict[str, Numbers]:
    parts = [np.asarray(part, dtype=np.int64) for part in lists]
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    return {name: np.concatenate([np.zeros(0, np.int64), *parts]), f"{name}_length": lengths}


def _end_to_end(parts: Iterable[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _parts(stored: dict[str, Numbers], name: str) -> list[Numbers]:
    return _cut(stored[name].astype(np.intp), stored[f"{name}_length"])


def _cut(values: Numbers, lengths: Numbers) -> list[Numbers]:
    if int(lengths.sum()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
