"""Proofs as files: one compressed NumPy archive of numbers, with no code in it.

``header`` is a JSON text (format, version, bound, the plain fields of the statement); all else
is arrays.  Lists of unequal length are stored end to end with their lengths beside them: ``name``
and ``name_length``.  Vectors are listed once, and named by their number, since a node and its
children often rely on the same one; -1 stands for none.  So are the pairwise shifts of diagonals:
a number of two bytes for each pair above the diagonal, 32,768 more than the ratio.

A file may be damaged or hostile.  What is read is limited in size before it is unpacked, every
number is finite, and every field has its type; whatever else is wrong is for the checker to find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from io import BytesIO
from math import inf, isfinite, prod
from operator import index as whole
from os import PathLike
from typing import Any, NoReturn, TypeVar
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from polysharp.checker.claim import Intervals, Statement
from polysharp.checker.evidence import (
    Diagonal,
    Kind,
    Pairs,
    ProofError,
    ProofNode,
    ProofRecord,
    Screening,
    Vector,
)

FORMAT, VERSION = "polysharp-proof", 3
KINDS: tuple[Kind, ...] = ("dual", "split", "enumeration")
MOST_BYTES = 2**30  # unpacked; a proof of five million numbers takes a tenth of that
MOST_RATIOS = 2**29  # of all pairwise shifts, two bytes each
MIDDLE = 32_768  # what a ratio of zero is stored as

Stored = dict[str, NDArray[Any]]
R = TypeVar("R")
P = TypeVar("P", bound=ProofRecord)


# Writing ------------------------------------------------------------------------------------------


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


def _once(records: Iterable[R]) -> tuple[list[R], dict[int, int]]:
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


# Reading ------------------------------------------------------------------------------------------


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
    def lists(name: str) -> list[NDArray[Any]]:
        return _cut(stored[name].astype(np.intp), stored[f"{name}_length"])

    def tuples(name: str) -> list[tuple[int, ...]]:
        return [tuple(part.tolist()) for part in lists(name)]

    def reals(name: str, beside: str) -> list[NDArray[Any]]:
        return _cut(stored[name].astype(np.float64), stored[f"{beside}_length"])

    def optional(name: str) -> list[Any]:
        given = stored[f"{name}_given"]
        return [own if has else None for has, own in zip(given, lists(name), strict=True)]

    def named(name: str, among: Sequence[Any], least: int = 0) -> list[Any]:
        numbers = stored[name].tolist()
        if not all(least <= number < len(among) for number in numbers):
            raise ValueError(f"{name} names what is not there")
        return [None if number == -1 else among[number] for number in numbers]

    lengths = stored["pairs_index_length"]
    if sum(size * size for size in map(int, lengths.tolist())) > MOST_RATIOS:
        raise ValueError(f"it has more than {MOST_RATIOS:,} ratios")
    triangles = _cut(stored["pairs_ratios"], lengths * (lengths - 1) // 2)
    ratios = [_square(part, size) for part, size in zip(triangles, lengths.tolist(), strict=True)]
    pairs = _each(Pairs, lists("pairs_index"), reals("pairs_reach", "pairs_index"), ratios)
    diagonals = _each(
        Diagonal,
        lists("diagonal_index"),
        reals("diagonal_value", "diagonal_index"),
        named("diagonal_pairs", pairs, -1),
        lists("diagonal_free"),
        map(whole, stored["diagonal_terms"].tolist()),
    )
    vectors = _each(
        Vector,
        lists("vector_index"),
        reals("vector_value", "vector_index"),
        stored["vector_diagonal"].tolist(),
        stored["vector_multiple"].astype(np.float64).tolist(),
    )
    screenings = _each(
        Screening,
        named("screening_vector", vectors),
        lists("screening_out"),
        lists("screening_in"),
        optional("screening_only"),
        optional("screening_along"),
    )
    owned = _cut(np.arange(len(screenings)), stored["node_screenings"])
    nodes = _each(
        ProofNode,
        named("node_kind", KINDS),
        [tuple(screenings[number] for number in own) for own in owned],
        named("node_vector", vectors, -1),
        tuples("node_chain"),
        map(bool, stored["node_on_inputs"].tolist()),
        tuples("node_children"),
    )
    statement = None
    if "statement" in header:
        statement = Statement(
            monomials=tuple(tuples("monomials")),
            shift=stored["shift"].astype(np.float64),
            scale=stored["scale"].astype(np.float64),
            **{name: READ[name](value) for name, value in header["statement"].items()},
        )
    bound = _real(header["bound"])
    return kind(bound, tuple(nodes), tuple(diagonals), statement, tuple(tuples("exceptions")))


def _each(make: Callable[..., R], *columns: Iterable[Any]) -> list[R]:
    """Make a record of each row of some columns, which must be of one length."""
    return [make(*row) for row in zip(*columns, strict=True)]


def _cut(values: NDArray[Any], lengths: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the parts of these lengths, which must be all there is."""
    if (lengths < 0).any() or sum(lengths.tolist()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _square(triangle: NDArray[Any], size: int) -> NDArray[np.int16]:
    """Return a symmetric matrix from its part above the diagonal."""
    if triangle.dtype != np.uint16 or not triangle.all():
        raise ValueError("a ratio is not a number")
    ratios = np.zeros((size, size), dtype=np.int16)
    upper = np.triu_indices(size, 1)
    ratios[upper] = ratios.T[upper] = triangle.astype(np.int32) - MIDDLE
    return ratios


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


def _none_or(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _ends(pair: Any) -> tuple[float, float]:
    low, high = _of(list)(pair)
    return -inf if low is None else _real(low), inf if high is None else _real(high)


def _keyed(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return _tuple_of(lambda entry: (read(_of(list)(entry)[0]), _ends(entry[1])))


def _coefficients(value: Any) -> Intervals:
    everywhere, inputs, terms = _of(list)(value)
    return Intervals(_ends(everywhere), _keyed(INT)(inputs), _keyed(TERM)(terms))


INT, STR = _of(int), _of(str)
TERM = _tuple_of(INT)
# How the fields of a statement are read from JSON.
READ: dict[str, Callable[[Any], Any]] = {
    "names": _tuple_of(STR),
    "response": STR,
    "responses": _tuple_of(lambda pair: (STR(pair[0]), _real(pair[1]))),
    **dict.fromkeys(("kept_inputs", "required_inputs", "two_valued"), TERM),
    "functions": _tuple_of(lambda pair: (INT(pair[0]), STR(pair[1]))),
    "coefficients": _coefficients,
    "heredity": _none_or(STR),
    **dict.fromkeys(("excluded_terms", "required_terms", "support"), _tuple_of(TERM)),
    **dict.fromkeys(("total_weight", "gamma", "objective"), _real),
    "refit_gamma": _none_or(_real),
    **dict.fromkeys(("listed", "fit_intercept", "exact_size"), _of(bool)),
    **dict.fromkeys(
        ("degree", "max_interaction", "interaction_degree", "max_terms", "max_inputs"), INT
    ),
}
