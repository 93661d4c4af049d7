"""Proofs as files: one compressed NumPy archive of numbers, with no code in it.

``header`` is a JSON text (format, version, bound, the plain fields of the statement); all else is
arrays, one for each field of ``RECORDS``.  Lists of unequal length are stored end to end with their
lengths beside them: ``name`` and ``name_length``.  Records that others share, vectors and pairwise
shifts, are stored once and named by their number; -1 stands for none.  Ratios take two bytes for
each pair above the diagonal, 32,768 more than the ratio.

A file may be damaged or hostile.  What is read is limited in size before it is unpacked, every
number is finite, and every field has its type; whatever else is wrong is for the checker to find.
"""

from __future__ import annotations

import json
from io import BytesIO
from math import inf, isfinite, prod
from operator import index as whole
from os import PathLike
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from polysharp.checker.evidence import (
    Diagonal,
    Intervals,
    LowHigh,
    Pairs,
    ProofError,
    ProofNode,
    ProofRecord,
    Screening,
    Statement,
    Vector,
)

FORMAT, VERSION = "polysharp-proof", 3
KINDS = ("dual", "split", "enumeration")
MOST_BYTES = 2**30  # unpacked; a proof of five million numbers takes a tenth of that
MOST_RATIOS = 2**29  # of all pairwise shifts, two bytes each
MIDDLE = 32_768  # what a ratio of zero is stored as

# How the fields of each record are stored, in the order of the fields; ``_column`` reads them.
RECORDS: dict[str, tuple[Any, dict[str, str]]] = {
    "pairs": (Pairs, {"index": "lists", "reach": "reals", "ratios": "triangles"}),
    "diagonal": (Diagonal, {"index": "lists", "value": "reals", "pairs": "pairs or none",
                            "free": "lists", "terms": "whole"}),
    "vector": (Vector, {"index": "lists", "value": "reals", "diagonal": "whole",
                        "multiple": "real"}),
    "screening": (Screening, {"vector": "vector", "out": "lists", "in": "lists",
                              "only": "lists or none", "along": "lists or none"}),
    "node": (ProofNode, {"kind": "kind", "screenings": "owned", "vector": "vector or none",
                         "chain": "tuples", "on_inputs": "flag", "children": "tuples"}),
}  # fmt: skip

Stored = dict[str, NDArray[Any]]
P = TypeVar("P", bound=ProofRecord)


def read_proof(path: str | PathLike[str], kind: type[P] = ProofRecord) -> P:  # type: ignore[assignment]
    """Read a proof from a file; nothing in the file is run."""
    with open(path, "rb") as file:
        data = file.read(MOST_BYTES + 1)
    try:
        stored = _unpacked(data)
        header = json.loads(stored.pop("header").tobytes(), parse_constant=_refuse)
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise ValueError(f"it has another format or version, {header['version']!r}")
        return _proof(header, stored, kind)
    # A damaged archive fails in many ways: zlib, struct, recursion, memory, types.
    except Exception as error:
        raise ProofError(
            f"{str(path)!r} is not a valid polysharp proof (format {VERSION}): "
            f"{str(error)[:80] or type(error).__name__}"
        ) from error


def _unpacked(data: bytes) -> Stored:
    """Return the arrays of an archive; nothing is unpacked if all of it would take too much."""
    with ZipFile(BytesIO(data)) as archive:
        members = archive.infolist()
        if max(len(data), sum(member.file_size for member in members)) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        return {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}


def _array(data: bytes) -> NDArray[Any]:
    """Read one array, which must be as long as its header says and hold finite numbers only."""
    stream = BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("an array is of another kind")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    if dtype not in (np.uint8, np.uint16, np.int64, np.float64) or len(shape) != 1:
        raise ValueError("an array is no list of numbers")
    if prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("lengths do not add up")
    values: NDArray[Any] = np.frombuffer(data, dtype, offset=stream.tell())
    if not np.isfinite(values).all():
        raise ValueError("a number is NaN or infinite")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _proof(header: dict[str, Any], stored: Stored, kind: type[P]) -> P:
    """Make the records one by one: each refers to those before it only."""
    found: dict[str, list[Any]] = {"kind": list(KINDS)}
    for record, (make, layout) in RECORDS.items():
        columns = [_column(stored, record, name, how, found) for name, how in layout.items()]
        found[record] = [make(*row) for row in zip(*columns, strict=True)]
    exceptions, statement = tuple(_column(stored, "", "exceptions", "tuples", found)), None
    if "statement" in header:
        hints, stated = get_type_hints(Statement), dict(header["statement"])
        statement = Statement(
            monomials=tuple(_column(stored, "", "monomials", "tuples", found)),
            shift=stored["shift"].astype(np.float64),
            scale=stored["scale"].astype(np.float64),
            **{name: _checked(value, hints[name]) for name, value in stated.items()},
        )
    nodes, diagonals = tuple(found["node"]), tuple(found["diagonal"])
    return kind(_checked(header["bound"], float), nodes, diagonals, statement, exceptions)


def _column(stored: Stored, record: str, field: str, how: str, found: Any) -> Any:
    """Return one field of all records of a kind, as ``RECORDS`` says it is stored."""
    name = f"{record}_{field}".removeprefix("_")
    values = stored[name]
    match how:
        case "lists" | "tuples" | "lists or none":
            lists = _cut(values.astype(np.intp), stored[f"{name}_length"])
            if how == "lists or none":
                pairs = zip(stored[f"{name}_given"], lists, strict=True)
                return [own if given else None for given, own in pairs]
            return lists if how == "lists" else [tuple(own.tolist()) for own in lists]
        case "reals":  # as long as the record's index
            return _cut(values.astype(np.float64), stored[f"{record}_index_length"])
        case "triangles":
            return _squares(values, stored[f"{record}_index_length"])
        case "whole":
            return [whole(value) for value in values.tolist()]
        case "flag":
            return [bool(value) for value in values.tolist()]
        case "real":
            return values.astype(np.float64).tolist()
        case "owned":  # as many screenings as each has, one after the other
            numbers = _cut(np.arange(len(found["screening"])), values)
            return [tuple(found["screening"][number] for number in own) for own in numbers]
    among, least = found[how.removesuffix(" or none")], -1 if how.endswith(" or none") else 0
    if not all(least <= number < len(among) for number in values.tolist()):
        raise ValueError(f"{name} names what is not there")
    return [None if number == -1 else among[number] for number in values.tolist()]


def _cut(values: Any, lengths: NDArray[Any]) -> list[Any]:
    """Return the parts of these lengths, which must be all there is."""
    if (lengths < 0).any() or sum(lengths.tolist()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _squares(values: NDArray[Any], sizes: NDArray[Any]) -> list[Any]:
    """Return symmetric matrices of ratios from their parts above the diagonal."""
    if sum(size * size for size in map(int, sizes.tolist())) > MOST_RATIOS:
        raise ValueError(f"it has more than {MOST_RATIOS:,} ratios")
    if values.dtype != np.uint16 or not values.all():
        raise ValueError("a ratio is not a number")
    matrices = []
    for own, size in zip(_cut(values, sizes * (sizes - 1) // 2), sizes.tolist(), strict=True):
        ratios, upper = np.zeros((size, size), dtype=np.int16), np.triu_indices(size, 1)
        ratios[upper] = ratios.T[upper] = own.astype(np.int32) - MIDDLE
        matrices.append(ratios)
    return matrices


def _checked(value: Any, hint: Any) -> Any:
    """Return a value from JSON as a field of a statement has it, if its type is right."""
    origin, inner = get_origin(hint), get_args(hint)
    if type(None) in inner:
        return None if value is None else _checked(value, inner[0])
    if hint is float:
        if type(value) not in (int, float) or not isfinite(value):
            raise TypeError(f"{value!r} is no number")
        return float(value)
    if hint == LowHigh:  # null stands for an infinite end
        low, high = value
        return -inf if low is None else _checked(low, float), (
            inf if high is None else _checked(high, float)
        )
    if hint is Intervals:
        parts = zip(value, get_type_hints(Intervals).values(), strict=True)
        return Intervals(*(_checked(own, part) for own, part in parts))
    if origin is tuple and type(value) is list:
        kinds = len(value) * inner[:1] if inner[-1] is Ellipsis else inner
        return tuple(_checked(item, kind) for item, kind in zip(value, kinds, strict=True))
    if type(value) is not hint:
        raise TypeError(f"{value!r} is no {hint}")
    return value
