"""Leaf enumeration: all supports of a root on one core, depth first, most of them passed over.

    python benchmarks/leaf_enumeration.py
    python benchmarks/leaf_enumeration.py --tables concrete:3:5 diabetes:2:8

For a table, a degree and a number of terms every support is tried against what forward selection
gains, inputs centred, gamma 1.  "tried" is the work as a share of all supports: pairs of last terms
that are looked at, and what else takes time.  The table of the page is written anew.
"""

from __future__ import annotations

import argparse
import os
from math import comb
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from real_tables import RESULTS, read

from polysharp.engines.tree.leaf_enumeration import (
    LeafQuery,
    compile_for,
    enumerate_leaf,
    support_rules,
)
from polysharp.monomials.basis import Basis
from polysharp.monomials.structure import Structure

TABLES = (
    "diabetes:2:4 diabetes:2:6 diabetes:2:8 diabetes:2:10 diabetes:3:4 diabetes:3:5 "
    "concrete:2:20 concrete:3:5 concrete:3:6 airfoil:3:8 airfoil:3:12 wine_red:2:8 wine_red:2:12"
)


def moments(X: np.ndarray, y: np.ndarray, degree: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return G + I, q and y'y / 2 over all monomials, inputs in coded variables."""
    X, y = X - X.mean(axis=0), y - y.mean()
    basis = Basis.full(X.shape[1], degree).filter(bool)
    M = basis.evaluate(X / np.sqrt((X * X).mean(axis=0)))
    M -= M.mean(axis=0)
    return M.T @ M + np.eye(len(basis)), M.T @ y, 0.5 * float(y @ y)


def selected(H: np.ndarray, b: np.ndarray, terms: int) -> float:
    """Return what forward selection gains."""
    H, b, gain = H.copy(), b.copy(), 0.0
    for _ in range(terms):
        j = int(np.argmax(b * b / np.diagonal(H)))
        row, own, pivot = H[j].copy(), b[j], H[j, j]
        gain += 0.5 * own * own / pivot
        H, b = H - np.outer(row, row / pivot), b - row * own / pivot
        H[j, j], b[j] = 1.0, 0.0
    return float(gain)


def main() -> None:
    """Print a line for each table, degree and number of terms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=TABLES.split(), metavar="name:degree:terms")
    page = ["| table | degree | monomials | terms | supports | tried | seconds |", 7 * "|---" + "|"]
    for text in parser.parse_args().tables:
        name, degree, terms = text.split(":")
        table, L = read(name), int(terms)
        if table is None:
            continue
        H, b, cost = moments(*table, int(degree))
        size = len(b)
        structure = Structure(np.ones((size, 1), dtype=bool), L, 1)
        compile_for(structure, size, 1)
        rules = support_rules(structure, np.zeros(size, dtype=np.int8), np.zeros(1, dtype=np.int8))
        began = perf_counter()
        query = LeafQuery(selected(H, b, L), cost, 1e-4)
        result = enumerate_leaf(H, b[None], L, query, rules, 5_000)
        seconds, supports = perf_counter() - began, comb(size, L)
        tried = "" if result is None else f"{result.work / supports:.2g}"
        cells = (name, degree, size, L, f"{supports:.2g}", tried, f"{seconds:.2g}")
        page.append(f"| {' | '.join(map(str, cells))} |")
        print(page[-1], flush=True)
    (RESULTS / "leaf-enumeration.md").write_text("\n".join([*page, ""]))


if __name__ == "__main__":
    main()
