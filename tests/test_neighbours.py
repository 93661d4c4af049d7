"""The adapters for other projects do what those projects ask of a method."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from support import Basis

FOLDER = Path(__file__).parent.parent / "neighbours"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(n=120):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    return X, 1.5 + X[:, 0] * X[:, 1] - 2.0 * X[:, 2] + 0.01 * rng.standard_normal(n)


@pytest.mark.needs("sympy", "pandas")
def test_srbench_finds_its_four_names_and_reads_the_formula():
    import pandas as pd
    import sympy

    method = load(FOLDER / "srbench" / "regressor.py")
    assert is_regressor(method.est)
    assert method.hyper_params == [{}]
    X, y = table()
    frame = pd.DataFrame(X, columns=["mass", "x0", "x1"])  # names that could be mixed up
    model = clone(method.est).set_params(**method.eval_kwargs["test_params"]).fit(frame, y)
    text = method.model(model, frame)
    variables = sympy.symbols(list(frame.columns))
    names = {symbol.name: symbol for symbol in variables}
    law = sympy.lambdify(variables, sympy.parse_expr(text, local_dict=names), "numpy")
    np.testing.assert_allclose(law(*X.T), model.predict(frame), rtol=1e-8, atol=1e-8)
    nodes = sum(1 for _ in sympy.preorder_traversal(sympy.parse_expr(text, local_dict=names)))
    assert method.complexity(model) == nodes > 1


@pytest.mark.needs("sympy", "pandas")
def test_srbench_may_rename_the_columns():
    import pandas as pd

    method = load(FOLDER / "srbench" / "regressor.py")
    X, y = table()
    model = clone(method.est).set_params(**method.eval_kwargs["test_params"]).fit(X, y)
    assert "x2" in method.model(model)
    swapped = method.model(model, pd.DataFrame(X, columns=["x1", "x0", "z"]))
    assert "x0*x1" in swapped
    assert "x2" not in swapped
    assert "*z" in swapped


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_design_for_benchopt_is_the_scaled_basis(degree):
    design = load(FOLDER / "benchopt" / "benchmark_utils" / "monomials.py").design
    X, _ = table(20)
    basis = Basis.full(3, degree, constant=False)
    M = basis.evaluate(X)
    np.testing.assert_allclose(
        design(X, basis.monomials, degree), M - M.mean(axis=0), rtol=1e-10, atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.needs("benchopt")
def test_benchopt_runs_and_the_tree_is_never_beaten(tmp_path):
    import pandas as pd

    folder = tmp_path / "benchmark"
    shutil.copytree(FOLDER / "benchopt", folder)
    command = [sys.executable, "-m", "benchopt", "run", str(folder), "--no-plot", "--no-html"]
    data = "planted[rows=100,inputs=6,degree=2]"
    subprocess.run([*command, "-r", "1", "-d", data], check=True, capture_output=True, text=True)
    (file,) = (folder / "outputs").glob("*.parquet")
    best = pd.read_parquet(file).groupby("solver_name")["objective_value"].min()
    assert len(best) == 3
    tree = min(best[name] for name in best.index if "tree" in name)
    assert (tree <= best * (1.0 + 1e-6)).all()


EXAMPLES = sorted((FOLDER / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_page_shows_every_example_and_what_it_prints(example):
    page = (FOLDER.parent / "docs" / "guide" / "neighbours.md").read_text(encoding="utf-8")
    assert f"examples/{example.name}" in page
    assert f"examples/{example.stem}.txt" in page
    assert example.with_suffix(".txt").read_text(encoding="utf-8").strip()


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_print_what_the_page_shows(example):
    """Words are the same; numbers agree, but for those that are nothing but rounding."""
    text = load(FOLDER.parent / "docs" / "neighbours.py").printed(example)
    if text is None:
        pytest.skip("a package that it needs is not installed")
    known = example.with_suffix(".txt").read_text(encoding="utf-8")
    number = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
    assert number.sub("#", text) == number.sub("#", known)
    given, wanted = (np.array([float(n) for n in number.findall(t)]) for t in (text, known))
    np.testing.assert_allclose(given, wanted, rtol=0.02, atol=1e-3)
