"""Model files, damaged and hostile: each is refused in one sentence, or predicts as before.

Bytes are changed, cut out and doubled; values of the JSON text are exchanged for hostile ones:
other types, huge numbers, deep lists, not-a-numbers, code.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    SparsePolynomialRegressor,
    load_model,
    save_model,
)
from polysharp.errors import InputError

HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**63, 10**400, 1e308, -1e-320, "", "x", "NaN", "__import__('os')", [],
    {}, [[]], [None], [1e308] * 3, {"__class__": "os"}, "\x00", "\ud800", [["a", 1]], [-1, -2],
)  # fmt: skip
RAW = ("NaN", "Infinity", "-Infinity", "1e999", "[" * 5000 + "]" * 5000, '"\\ud800"', "1" * 5000)


@cache
def texts() -> tuple[str, ...]:
    """Return model files of several kinds of models."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.5, 2.0, (40, 3))
    y = X[:, 0] * X[:, 1] - X[:, 2]
    small = {"degree": 2, "max_terms": 3, "gamma": 1.0}
    models = [
        SparsePolynomialRegressor(**small).fit(X, y),
        SparsePolynomialRegressor(**small, center=True, clamp=True, functions=("log",)).fit(X, y),
        SparsePolynomialRegressor(**small, positive=True).fit(X, y).calibrate(X, y),
        MultiTaskSparsePolynomialRegressor(**small).fit(X, np.column_stack([y, X[:, 0]])),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            save_model(model, Path(folder) / "m.json")
            found.append((Path(folder) / "m.json").read_text())
    return tuple(found)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values of a JSON document."""
    if not isinstance(node, dict | list):
        return []
    found: list[tuple[Any, ...]] = []
    for key, own in node.items() if isinstance(node, dict) else enumerate(node):
        found += [(*path, key), *places(own, (*path, key))]
    return found


def damaged(text: str, rng: np.random.Generator) -> bytes:
    """Return a damaged or hostile file."""
    if rng.random() < 0.35:
        data = bytearray(text.encode())
        for _ in range(int(rng.integers(1, 6))):
            at, length = int(rng.integers(len(data))), int(rng.integers(1, 40))
            data[at : at + (length if rng.random() < 0.5 else 1)] = rng.bytes(
                int(rng.integers(0, length))
            )
        return bytes(data)
    document = json.loads(text)
    for _ in range(int(rng.integers(1, 3))):
        listed = places(document)
        *way, last = listed[int(rng.integers(len(listed)))]
        owner = document
        for key in way:
            owner = owner[key]
        if rng.random() < 0.2:
            del owner[last]
        elif rng.random() < 0.2:
            owner[last] = "RAW"
        else:
            owner[last] = HOSTILE[int(rng.integers(len(HOSTILE)))]
    changed = json.dumps(document)
    return changed.replace('"RAW"', RAW[int(rng.integers(len(RAW)))]).encode()


def check(seed: int, tally: Any) -> None:
    """Load one damaged file and use what comes of it."""
    rng = np.random.default_rng([55, seed])
    text = texts()[seed % len(texts())]
    X = np.random.default_rng(1).uniform(0.5, 2.0, (5, 3))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.json"
        path.write_bytes(damaged(text, rng))
        try:
            model = load_model(path)
        except InputError as error:
            tally.count("refused in a sentence")
            if "\n" in str(error) or len(str(error)) > 600:
                tally.find("long refusal", f"seed {seed}", str(error)[:200])
            return
    try:
        values = model.predict(X)
    except (InputError, ValueError) as error:
        tally.count("loaded, refuses to predict")
        if not isinstance(error, InputError) and "feature" not in str(error):
            tally.find("crash in predict", f"seed {seed}", repr(error)[:200])
        return
    if np.shape(values)[0] != 5:
        tally.find("wrong shape", f"seed {seed}", str(np.shape(values)))
    tally.count("loaded")
    str(model.polynomial_ if hasattr(model, "polynomial_") else model.polynomials_)
    str(model.solution_)
