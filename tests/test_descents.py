"""Relaxations on a device: the same bounds, trees and proofs as on the processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from instances import make_instance
from support import (
    Aim,
    Basis,
    Boxes,
    Problem,
    Structure,
    Subproblem,
    TimeBudget,
    Tree,
    fresh_warm,
    priced_bound,
    solve_relaxation,
)

from polysharp import SparsePolynomialRegressor, verify
from polysharp.engines import make_engine

torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]
# Nothing is tried support by support.
NO_ENDS = {"leaf_worth": 0.0, "late_share": 0.0, "outright_share": 0.0}


def correlated(size: int, terms: int, box: float | None = None, lam: float = 1.0) -> Problem:
    """Return a problem of correlated columns with a law of so many terms."""
    rng = np.random.default_rng(size)
    M = rng.standard_normal((3 * size, size)) + rng.standard_normal((3 * size, 1))
    y = M[:, :terms].sum(axis=1) + 3.0 * rng.standard_normal(3 * size)
    structure = Structure.of_basis(Basis.full(size, 1, constant=False), terms, None)
    if box is not None:
        structure = replace(structure, boxes=Boxes(np.full(size, -box), np.full(size, box)))
    return Problem.dense(M.T @ M, M.T @ y, float(y @ y), lam, structure)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("box", [None, 0.8, 3.0])
def test_descents_reach_what_coordinate_descent_reaches(device: str, box: float | None) -> None:
    from support import Descent, DeviceDescents

    problem = correlated(60, 5, box, lam=20.0)
    core = Subproblem.of(problem)
    nodes, bounds = [], []
    for inn in range(4):
        terms = np.zeros(60, dtype=np.int8)
        terms[:inn], terms[inn + 5 : 2 * inn + 5] = 1, -1
        nodes.append(Descent(terms, 5 - inn, np.zeros(60), np.inf))
        warm = fresh_warm(core.systems, np.zeros((1, 60)), 1.0)
        relaxed = solve_relaxation(core.systems, terms, 5 - inn, warm, Aim(tol=1e-6, slack=0.0))
        bounds.append(relaxed.bound)
    found = DeviceDescents(problem, torch.device(device)).solved(
        nodes, tol=1e-6, slack=0.0, max_steps=3000
    )
    for node, bound, (w, rho, _) in zip(nodes, bounds, found, strict=True):
        alive = np.flatnonzero(node.terms != -1)
        assert not np.any(w[node.terms == -1])
        system = problem.system(alive, np.zeros((0, 0)))
        own, _ = priced_bound(system, w[alive], node.terms[alive] == 1, node.budget, rho[alive])
        assert own >= bound * (1.0 - 2e-3)
        # It bounds what any support of the node costs.
        law = [j for j in range(60) if node.terms[j] == 1]
        law += [j for j in range(60) if node.terms[j] == 0][: node.budget]
        assert own <= problem.refit(np.array(law)).objective
        if box is None:
            assert own == pytest.approx(bound, rel=2e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(30))
def test_trees_end_where_enumeration_does(device: str, seed: int) -> None:
    """All kinds of data and rules; no bound above the optimum."""
    instance = make_instance(seed)
    best = make_engine("enumeration").solve(instance.problem).objective
    tree = Tree(**NO_ENDS, device_types=(device,), width=8, device_from=3)
    found = tree.solve(instance.problem, device=torch.device(device))
    assert found.bound <= best * (1.0 + 1e-9) + 1e-12
    assert found.status == "optimal"
    assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("box", [None, 1.5])
def test_proofs_of_descents_are_verified(device: str, box: float | None) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 5)) + 0.5 * rng.standard_normal((100, 1))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 3 + X[:, 3] ** 2 * X[:, 4] + 4.0 * rng.standard_normal(100)
    bounds = None if box is None else (-box, box)
    model = SparsePolynomialRegressor(3, 4, gamma=0.1, coefficient_bounds=bounds, engine="tree")
    here = model.fit(X, y).solution_
    tree = Tree(**NO_ENDS, device_types=(device,), device_from=10, pairwise_shifts=False)
    rows = torch.as_tensor(X, device=device)
    there = model.set_params(engine=tree).fit(rows, y).solution_
    assert there.status == here.status == "optimal"
    assert there.counters.nodes > 5
    assert there.objective == pytest.approx(here.objective, rel=1e-8)
    assert verify(there.proof, X, y)


def test_a_search_cut_short_keeps_a_bound() -> None:
    problem = correlated(60, 8)
    tree = Tree(**NO_ENDS, device_types=("cpu",), device_from=20, width=16)
    time = TimeBudget(0.5)
    found = tree.solve(problem, device=torch.device("cpu"), time=time, gap_tol=1e-9)
    assert 0.0 < found.bound <= problem.refit(np.arange(8)).objective * (1.0 + 1e-9)
