"""Proofs as files: one compressed NumPy archive of numbers, with no code in it.

``header`` is a JSON text (format, version, bound, the plain fields of the statement); all else
is arrays.  Lists of unequal length are stored end to end with their lengths beside them:
``name`` and ``name_length``.  Vectors are listed once, in ``vector_*``, and named by their
number, since a node and its children often rely on the same one; -1 stands for none.

A file may be damaged or hostile.  What is read is limited in size before it is unpacked, every
number is finite, and every field has its type; whatever else is wrong is for the checker to find.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from io import BytesIO
from math import inf, isfinite, prod
from os import PathLike
from typing import Any, NoReturn
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from polysharp.certificate.proof import Diagonal, Kind, Proof, ProofNode, Screening, Vector
from polysharp.certificate.statement import Statement
from polysharp.errors import InputError
from polysharp.files import write_file
from polysharp.monomials.coefficient_bounds import CoefficientBounds
from polysharp.typing import Array

FORMAT = "polysharp-proof"
VERSION = 2
KINDS: tuple[Kind, ...] = ("dual", "single", "void", "split", "sets", "exhausted")
ARRAYS = ("shift", "scale")  # of the statement, beside its monomials
MOST_BYTES = 2**30  # unpacked; a proof of five million numbers takes a tenth of that

Numbers = NDArray[Any]


def save(proof: Proof, path: str | PathLike[str]) -> None:
    """Write a proof to one file; ``load`` gives back the same numbers, bit by bit."""
    vectors = _Numbering()
    screenings = [s for node in proof.nodes for s in node.screenings]
    arrays: dict[str, Numbers] = {
        "node_kind": _integers(KINDS.index(node.kind) for node in proof.nodes),
        "node_on_inputs": _integers(node.on_inputs for node in proof.nodes),
        "node_vector": _integers(vectors.of(node.vector) for node in proof.nodes),
        "node_screenings": _integers(len(node.screenings) for node in proof.nodes),
        "screening_vector": _integers(vectors.of(s.vector) for s in screenings),
        "screening_has_only": _integers(s.only is not None for s in screenings),
        **_joined("node_chain", [node.chain for node in proof.nodes]),
        **_joined("node_children", [node.children for node in proof.nodes]),
        **_joined("screening_out", [s.out for s in screenings]),
        **_joined("screening_in", [s.inn for s in screenings]),
        **_joined("screening_only", [() if s.only is None else s.only for s in screenings]),
        **_joined("vector_index", [v.index for v in vectors.listed]),
        "vector_value": _end_to_end([v.value for v in vectors.listed]),
        "vector_diagonal": _integers(v.diagonal for v in vectors.listed),
        **_joined("diagonal_index", [d.index for d in proof.diagonals]),
        "diagonal_value": _end_to_end([d.value for d in proof.diagonals]),
    }
    multiples = np.array([v.multiple for v in vectors.listed], dtype=np.float64)
    if np.any(multiples != 1.0):
        arrays["vector_multiple"] = multiples
    if proof.exceptions:
        arrays |= _joined("exceptions", proof.exceptions)
    if any(s.along is not None for s in screenings):
        along = [() if s.along is None else s.along for s in screenings]
        arrays["screening_has_along"] = _integers(s.along is not None for s in screenings)
        arrays |= _joined("screening_along", along)
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "bound": proof.bound}
    if proof.statement is not None:
        stated = {f.name: getattr(proof.statement, f.name) for f in fields(Statement)}
        arrays |= _joined("monomials", stated.pop("monomials"))
        arrays |= {name: stated.pop(name) for name in ARRAYS}
        stated["coefficients"] = _intervals(stated["coefficients"])
        header["statement"] = stated
    text = json.dumps(header).encode()
    packed = BytesIO()
    np.savez_compressed(packed, header=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    write_file(path, packed.getvalue())


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


def _unpacked(packed: bytes) -> dict[str, Numbers]:
    """Return the arrays of an archive; nothing is unpacked if all of it would take too much."""
    with ZipFile(BytesIO(packed)) as archive:
        members = archive.infolist()
        if max(len(packed), sum(member.file_size for member in members)) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}


def _array(data: bytes) -> Numbers:
    """Read one array, which must be as long as its header says and hold finite numbers only."""
    stream = BytesIO(data)
    if npy.read_magic(stream) != (1, 0):
        raise ValueError("another kind of array")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    if dtype not in (np.uint8, np.int64, np.float64) or len(shape) != 1:
        raise ValueError("no list of numbers")
    if prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("lengths do not add up")
    values: Numbers = np.frombuffer(data, dtype, offset=stream.tell())
    if not np.isfinite(values).all():
        raise ValueError("not a number")
    return values


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _proof(header: dict[str, Any], stored: dict[str, Numbers]) -> Proof:
    values = _cut(stored["vector_value"], stored["vector_index_length"])
    multiples = stored.get("vector_multiple", np.ones(len(values)))
    vectors = [
        Vector(index, value.astype(np.float64), diagonal, float(multiple))
        for index, value, diagonal, multiple in zip(
            _lists(stored, "vector_index"),
            values,
            stored["vector_diagonal"].tolist(),
            multiples.tolist(),
            strict=True,
        )
    ]
    along: list[Numbers | None] = [None] * len(stored["screening_vector"])
    if "screening_along" in stored:
        held = stored["screening_has_along"], _lists(stored, "screening_along")
        along = [one if has else None for has, one in zip(*held, strict=True)]
    screenings = iter(
        [
            Screening(vectors[_number(vector, vectors)], out, inn, only if has_only else None, cols)
            for vector, has_only, out, inn, only, cols in zip(
                stored["screening_vector"].tolist(),
                stored["screening_has_only"].tolist(),
                _lists(stored, "screening_out"),
                _lists(stored, "screening_in"),
                _lists(stored, "screening_only"),
                along,
                strict=True,
            )
        ]
    )
    nodes = tuple(
        ProofNode(
            kind=KINDS[_number(kind, KINDS)],
            screenings=tuple(next(screenings) for _ in range(count)),
            vector=None if vector == -1 else vectors[_number(vector, vectors)],
            chain=tuple(chain.tolist()),
            on_inputs=bool(on_inputs),
            children=tuple(children.tolist()),
        )
        for kind, count, vector, chain, on_inputs, children in zip(
            stored["node_kind"].tolist(),
            stored["node_screenings"].tolist(),
            stored["node_vector"].tolist(),
            _lists(stored, "node_chain"),
            stored["node_on_inputs"].tolist(),
            _lists(stored, "node_children"),
            strict=True,
        )
    )
    if next(screenings, None) is not None:
        raise ValueError("more screenings than nodes have")
    d_values = _cut(stored["diagonal_value"], stored["diagonal_index_length"])
    diagonals = tuple(
        Diagonal(index, value.astype(np.float64))
        for index, value in zip(_lists(stored, "diagonal_index"), d_values, strict=True)
    )
    statement = _statement(header["statement"], stored) if "statement" in header else None
    exceptions: tuple[tuple[int, ...], ...] = ()
    if "exceptions" in stored:
        exceptions = tuple(tuple(support.tolist()) for support in _lists(stored, "exceptions"))
    return Proof(_real(header["bound"]), nodes, diagonals, statement, exceptions)


def _statement(stated: dict[str, Any], stored: dict[str, Numbers]) -> Statement:
    plain = {name: READ[name](value) for name, value in stated.items()}
    return Statement(
        monomials=tuple(tuple(m.tolist()) for m in _lists(stored, "monomials")),
        shift=stored["shift"].astype(np.float64),
        scale=stored["scale"].astype(np.float64),
        **plain,
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
    **dict.fromkeys(("response", "basis"), _of(str)),
    "responses": _tuple_of(lambda pair: (_of(str)(pair[0]), _real(pair[1]))),
    "kept_inputs": _tuple_of(_of(int)),
    "required_inputs": _tuple_of(_of(int)),
    "two_valued": _tuple_of(_of(int)),
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


def _integers(values: Iterable[int]) -> Numbers:
    return np.array(list(values), dtype=np.int64)


def _joined(name: str, lists: Sequence[Any]) -> dict[str, Numbers]:
    parts = [np.asarray(part, dtype=np.int64) for part in lists]
    lengths = _integers(len(part) for part in parts)
    return {name: np.concatenate([np.zeros(0, np.int64), *parts]), f"{name}_length": lengths}


def _end_to_end(parts: Iterable[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


def _number(value: int, among: Sequence[Any]) -> int:
    if not 0 <= value < len(among):
        raise IndexError(f"there is no number {value}")
    return value


def _lists(stored: dict[str, Numbers], name: str) -> list[Numbers]:
    return _cut(stored[name].astype(np.intp), stored[f"{name}_length"])


def _cut(values: Numbers, lengths: Numbers) -> list[Numbers]:
    if (lengths < 0).any() or sum(lengths.tolist()) != len(values):
        raise ValueError("lengths do not add up")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []
