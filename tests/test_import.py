"""Importing the package loads nothing, and every public name can be had."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import polysharp


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_no_library():
    loaded = loaded_after("import polysharp")
    assert not loaded & {"numpy", "scipy", "sklearn", "numba", "rich", "highspy", "pyscipopt"}


def test_estimator_loads_no_solver_and_no_compiler():
    loaded = loaded_after(
        "import numpy as np, polysharp\n"
        "X = np.random.default_rng(0).standard_normal((30, 3))\n"
        "polysharp.SparsePolynomialRegressor(2, 1, gamma=1.0, engine='enumeration').fit(X, X[:, 0])"
    )
    assert not loaded & {"numba", "rich", "highspy", "pyscipopt", "matplotlib", "sympy"}


def test_a_first_fit_with_few_supports_compiles_local_search_and_nothing_else():
    script = (
        "import numpy as np, polysharp\n"
        "X = np.random.default_rng(0).standard_normal((60, 5))\n"
        "polysharp.SparsePolynomialRegressor(degree=2, max_terms=3).fit(X, X[:, 0] * X[:, 1])\n"
        "from polysharp.engines.local_search.swap_kernel import fill_and_swap, tabu_walk\n"
        "from polysharp.engines.tree import leaf_kernel, relaxation_sweeps\n"
        "print(len(fill_and_swap.signatures), len(tabu_walk.signatures),\n"
        "      len(leaf_kernel.search.signatures), len(relaxation_sweeps._sweep.signatures))\n"
        "polysharp.SparsePolynomialRegressor(degree=2, max_terms=4).fit(X, X[:, 0] * X[:, 1])\n"
        "print(len(leaf_kernel.search.signatures))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "0", "0", "0", "1"]


@pytest.mark.parametrize("name", polysharp.__all__)
def test_every_public_name_exists(name):
    assert getattr(polysharp, name) is not None
    assert name in dir(polysharp)


def test_submodules_come_on_demand():
    assert polysharp.synthetic.make_sparse_polynomial is not None
    assert polysharp.metrics.accuracy is not None


def test_unknown_name():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = polysharp.nothing


def test_readers_of_types_find_the_same_names():
    stub = ast.parse(Path(polysharp.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    stated = {
        alias.asname: (node.module, alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stated.keys() == {*polysharp.__all__, *polysharp._SUBMODULES}
    for name, (module, own) in stated.items():
        assert own == name
        assert getattr(importlib.import_module(module), name) is getattr(polysharp, name)
