"""A proof with a number anywhere that is none, or infinite, is refused: every number is tried."""

import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from support import ProofError
from test_verify import SPLITTING

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    Proof,
    SparsePolynomialRegressor,
    rivals,
    verify,
)

NO_NUMBERS = (np.nan, np.inf, -np.inf)
EACH = 12  # numbers of a list in memory that are tried: they are treated alike


def rows(seed=2, n=30):
    rng = np.random.default_rng(seed)
    X = 0.8 * rng.standard_normal((n, 1)) + 0.6 * rng.standard_normal((n, 4))
    return X, X[:, 0] * X[:, 1] - X[:, 2] ** 2 + 0.5 * rng.standard_normal(n)


def fitted(**options):
    given = {"degree": 2, "max_terms": 3, "gamma": 1.0, "gap_tol": 1e-6}
    return SparsePolynomialRegressor(**(given | options))


def proof_of(kind):
    """Return rows and a proof of them."""
    X, y = rows()
    if kind == "several responses":
        Y = np.column_stack([y, X[:, 3] - X[:, 2] ** 2])
        model = MultiTaskSparsePolynomialRegressor(degree=2, max_terms=3, gamma=1.0)
        return X, Y, model.fit(X, Y).solution_.proof
    if kind == "rivals":
        model = fitted().fit(X, y)
        return X, y, rivals(model, X, y, within=0.3).proof
    if kind == "priced":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((80, 40))
        y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] + 0.1 * rng.standard_normal(80)
        model = fitted(degree=3, max_terms=2, n_candidates=None, gamma=0.1, gap_tol=1e-3)
        return X, y, model.fit(X, y).solution_.proof
    options = {
        "split": {"engine": SPLITTING},
        "default": {"max_terms": 4},
        "k binds": {"engine": SPLITTING, "max_inputs": 2},
        "box": {"coefficient_bounds": {"*": (-0.5, 0.5), "x0": (0.0, None)}},
        "functions": {"functions": ("exp",), "engine": SPLITTING},
    }[kind]
    return X, y, fitted(**options).fit(X, y).solution_.proof


KINDS = ("split", "default", "k binds", "box", "functions", "several responses", "rivals", "priced")


@pytest.fixture(scope="module", params=KINDS)
def proved(request):
    X, y, proof = proof_of(request.param)
    assert verify(proof, X, y)
    return X, y, proof


def with_entry(values, place, number):
    values = values.astype(np.float64)
    values[place] = number
    return values


def changed_headers(node, path=()):
    """Yield paths to the numbers of a JSON value."""
    if isinstance(node, dict | list):
        for key, own in node.items() if isinstance(node, dict) else enumerate(node):
            yield from changed_headers(own, (*path, key))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path


def with_header(header, path, number):
    header = json.loads(json.dumps(header))
    *way, last = path
    owner = header
    for key in way:
        owner = owner[key]
    owner[last] = number
    return np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)


def test_files_with_no_numbers_are_refused(proved, tmp_path):
    path = tmp_path / "model.proof"
    proved[2].save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    header = json.loads(arrays.pop("header").tobytes())
    places = [(name, place) for name, own in arrays.items() for place in range(len(own))]
    paths = [("header", way) for way in changed_headers(header)]
    assert len(places) > 20
    assert len(paths) > 5
    for turn, (name, place) in enumerate([*places, *paths]):
        number = NO_NUMBERS[turn % 3]
        if name == "header":
            damaged = arrays | {"header": with_header(header, place, number)}
        else:
            text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
            damaged = arrays | {name: with_entry(arrays[name], place, number), "header": text}
        with path.open("wb") as file:
            np.savez(file, **damaged)
        with pytest.raises(ProofError, match="is not a valid polysharp proof"):
            Proof.load(path)


def damaged(record, number):
    """Yield copies of a record with one of its numbers replaced, and where that is."""
    if is_dataclass(record):
        for field in fields(record):
            for where, own in damaged(getattr(record, field.name), number):
                yield f"{field.name}.{where}", replace(record, **{field.name: own})
    elif isinstance(record, tuple | list):
        for place in some(len(record)):
            for where, own in damaged(record[place], number):
                copy = [*record[:place], own, *record[place + 1 :]]
                make = getattr(record, "_make", type(record))
                yield f"{place}.{where}", make(copy)
    elif isinstance(record, dict):
        for key, value in record.items():
            for where, own in damaged(value, number):
                yield f"{key}.{where}", record | {key: own}
    elif isinstance(record, np.ndarray):
        for place in some(record.size):
            copy = record.astype(np.float64)
            copy.flat[place] = number
            yield f"[{place}]", copy
    elif isinstance(record, int | float) and not isinstance(record, bool):
        yield "", number


def some(count):
    return range(count) if count <= EACH else np.linspace(0, count - 1, EACH).astype(int).tolist()


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_records_with_no_numbers_prove_nothing(proved, number):
    X, y, proof = proved
    count = 0
    for where, wrong in damaged(proof, number):
        if "coefficients." in where and not np.isnan(number):
            continue  # no bound at that end, which is another claim
        count += 1
        verdict = verify(wrong, X, y)
        assert not verdict, where
        assert verdict.bound == 0.0, where
    assert count > 20
