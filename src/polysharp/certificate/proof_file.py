"""Proofs as files: one compressed NumPy archive of numbers, with no code in it.

``header`` is a JSON text (format, version, bound, the plain fields of the statement); all else
is arrays.  Lists of unequal length are stored end to end with their lengths beside them:
``name`` and ``name_length``.  Vectors are listed once, in ``vector_*``, and named by their
number, since a node and its children often rely on the same one; -1 stands for none.  So are the
couplings of diagonals (``proof_diagonals``).

A file may be damaged or hostile.  What is read is limited in size before it is unpacked, every
number is finite, and every field has its type; whatever else is wrong is for the checker to find.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from io import BytesIO
from math import inf, isfinite, prod
from os import PathLike
from typing import Any, NoReturn
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy

from polysharp.certificate.proof import Kind, Proof, ProofNode, Screening, Vector
from polysharp.certificate.proof_arrays import (
    MOST_BYTES,
    Numbers,
    Stored,
    cut,
    each,
    end_to_end,
    integers,
    joined,
    listed_once,
)
from polysharp.certificate.proof_diagonals import diagonal_arrays, read_diagonals
from polysharp.certificate.statement import Statement
from polysharp.data.file_writing import write_file
from polysharp.errors import InputError
from polysharp.monomials.coefficient_bounds import CoefficientBounds
from polysharp.typing import Indices

FORMAT = "polysharp-proof"
VERSION = 2
KINDS: tuple[Kind, ...] = ("dual", "single", "void", "split", "sets", "exhausted")
ARRAYS = ("shift", "scale")  # of the statement, beside its monomials


def save(proof: Proof, path: str | PathLike[str]) -> None:
    """Write a proof to one file; ``load`` gives back the same numbers, bit by bit."""
    vectors, number = listed_once(proof.vectors)
    screenings = [s for node in proof.nodes for s in node.screenings]
    arrays: dict[str, Numbers] = {
        "node_kind": integers(KINDS.index(node.kind) for node in proof.nodes),
        "node_on_inputs": integers(node.on_inputs for node in proof.nodes),
        "node_vector": integers(number.get(id(node.vector), -1) for node in proof.nodes),
        "node_screenings": integers(len(node.screenings) for node in proof.nodes),
        "screening_vector": integers(number[id(s.vector)] for s in screenings),
        **joined("node_chain", [node.chain for node in proof.nodes]),
        **joined("node_children", [node.children for node in proof.nodes]),
        **joined("screening_out", [s.out for s in screenings]),
        **joined("screening_in", [s.inn for s in screenings]),
        **_if_any("only", [s.only for s in screenings]),
        **joined("vector_index", [v.index for v in vectors]),
        "vector_value": end_to_end([v.value for v in vectors]),
        "vector_diagonal": integers(v.diagonal for v in vectors),
        **diagonal_arrays(proof.diagonals),
    }
    multiples = np.array([v.multiple for v in vectors], dtype=np.float64)
    if np.any(multiples != 1.0):
        arrays["vector_multiple"] = multiples
    if proof.exceptions:
        arrays |= joined("exceptions", proof.exceptions)
    if any(s.along is not None for s in screenings):
        arrays |= _if_any("along", [s.along for s in screenings])
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bound": proof.bound}
    if proof.statement is not None:
        stated = {f.name: getattr(proof.statement, f.name) for f in fields(Statement)}
        arrays |= joined("monomials", stated.pop("monomials"))
        arrays |= {name: stated.pop(name) for name in ARRAYS}
        stated["coefficients"] = _intervals(stated["coefficients"])
        header["statement"] = stated
    text = json.dumps(header).encode()
    packed = BytesIO()
    np.savez_compressed(packed, header=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_file(path, packed.getvalue())


def _if_any(name: str, lists: list[Indices | None]) -> dict[str, Numbers]:
    """Return what screenings may have a list of, and whether they have one."""
    held = integers(own is not None for own in lists)
    listed = joined(f"screening_{name}", [() if own is None else own for own in lists])
    return {f"screening_has_{name}": held, **listed}


def _read_if_any(stored: Stored, name: str) -> list[Indices | None]:
    held = stored[f"screening_has_{name}"], stored.lists(f"screening_{name}")
    return [own if has else None for has, own in zip(*held, strict=True)]


def load(path: str | PathLike[str]) -> Proof:
    """Read a proof that ``save`` wrote; nothing in the file is run."""
    with open(path, "rb") as file:
        packed = file.read(MOST_BYTES + 1)
    try:
        stored = _unpacked(packed)
        header = json.loads(stored.pop("header").tobytes(), parse_constant=_refuse)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise ValueError(f"another format or version: {header['version']!r}")
        return _proof(header, stored)
    # A damaged archive fails in many ways: zlib, struct, recursion, memory, types.
    except Exception as error:
        raise InputError(
            f"path must be a whole file of format {FORMAT}, version {VERSION}, got {str(path)!r} "
            f"({type(error).__name__}: {str(error)[:80]})"
        ) from error


def _unpacked(packed: bytes) -> Stored:
    """Return the arrays of an archive; nothing is unpacked if all of it would take too much."""
    with ZipFile(BytesIO(packed)) as archive:
        members = archive.infolist()
        if max(len(packed), sum(member.file_size for member in members)) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return Stored((m.filename.removesuffix(".npy"), _array(archive.read(m))) for m in members)


def _array(data: bytes) -> Numbers:
    """Read one array, which must be as long as its header says and hold finite numbers only."""
    stream = BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another kind of array")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    if dtype not in (np.uint8, np.uint16, np.int64, np.float64) or len(shape) != 1:
        raise ValueError("no list of numbers")
    if prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("lengths do not add up")
    values: Numbers = np.frombuffer(data, dtype, offset=stream.tell())
    if not np.isfinite(values).all():
        raise ValueError("not a number")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _proof(header: dict[str, Any], stored: Stored) -> Proof:
    index, diagonals = stored.lists("vector_index"), stored["vector_diagonal"].tolist()
    values = stored.reals("vector_value", "vector_index")
    multiples = stored.get("vector_multiple", np.ones(len(index))).astype(np.float64).tolist()
    vectors = each(Vector, index, values, diagonals, multiples)
    named = stored.numbered("screening_vector", vectors)
    screenings = each(
        Screening,
        named,
        stored.lists("screening_out"),
        stored.lists("screening_in"),
        _read_if_any(stored, "only"),
        _read_if_any(stored, "along") if "screening_along" in stored else [None] * len(named),
    )
    owned = cut(np.arange(len(screenings)), stored["node_screenings"])
    nodes = each(
        ProofNode,
        stored.numbered("node_kind", KINDS),
        [tuple(screenings[number] for number in own) for own in owned],
        stored.numbered("node_vector", vectors, least=-1),
        stored.tuples("node_chain"),
        map(bool, stored["node_on_inputs"].tolist()),
        stored.tuples("node_children"),
    )
    return Proof(
        _real(header["bound"]),
        tuple(nodes),
        read_diagonals(stored),
        _statement(header["statement"], stored) if "statement" in header else None,
        stored.tuples("exceptions") if "exceptions" in stored else (),
    )


def _statement(stated: dict[str, Any], stored: Stored) -> Statement:
    return Statement(
        monomials=stored.tuples("monomials"),
        shift=stored["shift"].astype(np.float64),
        scale=stored["scale"].astype(np.float64),
        **{name: READ[name](value) for name, value in stated.items()},
    )


def _of(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return read


def _tuple_of(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda values: tuple(read(value) for value in _of(list)(values))


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _intervals(bounds: CoefficientBounds) -> list[Any]:
    """Return intervals as JSON has them: infinite ends are null."""

    def ends(pair: tuple[float, float]) -> list[float | None]:
        return [value if isfinite(value) else None for value in pair]

    listed = (bounds.inputs, bounds.terms)
    return [ends(bounds.everywhere), *([[key, ends(pair)] for key, pair in one] for one in listed)]


def _coefficients(value: Any) -> CoefficientBounds:
    """Read what ``_intervals`` wrote."""

    def ends(pair: Any) -> tuple[float, float]:
        low, high = _of(list)(pair)
        return -inf if low is None else _real(low), inf if high is None else _real(high)

    def keyed(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda entry: (read(_of(list)(entry)[0]), ends(entry[1]))

    everywhere, inputs, terms = _of(list)(value)
    return CoefficientBounds(
        ends(everywhere),
        _tuple_of(keyed(_of(int)))(inputs),
        _tuple_of(keyed(_tuple_of(_of(int))))(terms),
    )


# How the fields of a statement are read from JSON.
READ: dict[str, Callable[[Any], Any]] = {
    "names": _tuple_of(_of(str)),
    "response": _of(str),
    "responses": _tuple_of(lambda pair: (_of(str)(pair[0]), _real(pair[1]))),
    **dict.fromkeys(("kept_inputs", "required_inputs", "two_valued"), _tuple_of(_of(int))),
    "functions": _tuple_of(lambda pair: (_of(int)(pair[0]), _of(str)(pair[1]))),
    "coefficients": _coefficients,
    "heredity": lambda value: None if value is None else _of(str)(value),
    **dict.fromkeys(
        ("excluded_terms", "required_terms", "support"), _tuple_of(_tuple_of(_of(int)))
    ),
    **dict.fromkeys(("total_weight", "gamma", "objective"), _real),
    **dict.fromkeys(("listed", "fit_intercept", "exact_size"), _of(bool)),
    **dict.fromkeys(
        ("degree", "max_interaction", "interaction_degree", "max_terms", "max_inputs"), _of(int)
    ),
}
