"""Reading proofs from files: one compressed NumPy archive of numbers, with no code in it.

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
from io import BytesIO
from math import inf, isfinite, prod
from operator import index as whole
from os import PathLike
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints
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
        hints, stated = get_type_hints(Statement), dict(header["statement"])
        statement = Statement(
            monomials=tuple(tuples("monomials")),
            shift=stored["shift"].astype(np.float64),
            scale=stored["scale"].astype(np.float64),
            coefficients=_intervals(stated.pop("coefficients")),
            **{name: _checked(value, hints[name]) for name, value in stated.items()},
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


def _checked(value: Any, hint: Any) -> Any:
    """Return a value from JSON as a field of a statement has it, if its type is right."""
    origin, inner = get_origin(hint), get_args(hint)
    if value is None and type(None) in inner:
        return None
    if type(None) in inner:
        return _checked(value, inner[0])
    if hint is float:
        return _real(value)
    if origin is tuple and type(value) is list:
        if inner[-1] is Ellipsis:
            return tuple(_checked(item, inner[0]) for item in value)
        return tuple(_checked(item, kind) for item, kind in zip(value, inner, strict=True))
    if type(value) is not hint:
        raise TypeError(f"{value!r} is no {hint}")
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _limits(pair: Any) -> tuple[float, float]:
    """Return an interval; null stands for an infinite end."""
    low, high = pair
    return -inf if low is None else _real(low), inf if high is None else _real(high)


def _intervals(value: Any) -> Intervals:
    everywhere, inputs, terms = _checked(value, list)
    of_inputs = tuple((_checked(key, int), _limits(pair)) for key, pair in inputs)
    of_terms = tuple((_checked(key, tuple[int, ...]), _limits(pair)) for key, pair in terms)
    return Intervals(_limits(everywhere), of_inputs, of_terms)
