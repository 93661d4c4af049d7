"""Nodes bounded together on a device: the same bounds, trees and proofs as one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from instances import make_instance

from polysharp import SparsePolynomialRegressor, verify
from polysharp.engines import make_engine
from polysharp.engines.base import Limits, Run
from polysharp.engines.tree import Tree
from polysharp.engines.tree.effort import Spending
from polysharp.engines.tree.relaxation import Aim, Descent, fresh_warm, solve_relaxation
from polysharp.monomials.basis import Basis
from polysharp.monomials.coefficient_bounds import Boxes
from polysharp.monomials.structure import Structure
from polysharp.problem.bounds import priced_bound
from polysharp.problem.coupling_method import couple
from polysharp.problem.diagonal import Start, first_start, sharpen
from polysharp.problem.problem import Problem
from polysharp.problem.subproblem import Subproblem

torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ),
]
# Nothing is tried support by support, and nothing is so little that a device does not take it.
NO_ENDS = {
    "ends_worth": 0.0,
    "ends_worth_together": 0.0,
    "late_share": 0.0,
    "outright_share": 0.0,
    "device_step": 0.0,
}


def correlated(size: int, terms: int, box: float | None = None, lam: float = 1.0) -> Problem:
    """Return a problem of correlated columns with a law of so many terms."""
    rng = np.random.default_rng(size)
    M = rng.standard_normal((3 * size, size)) + rng.standard_normal((3 * size, 1))
    y = M[:, :terms].sum(axis=1) + 3.0 * rng.standard_normal(3 * size)
    structure = Structure.of_basis(Basis.full(size, 1, constant=False), terms, None)
    if box is not None:
        structure = replace(structure, boxes=Boxes(np.full(size, -box), np.full(size, box)))
    return Problem.dense(M.T @ M, M.T @ y, float(y @ y), lam, structure)


def no_further(gain: Any, *_: Any) -> Any:
    """End a coupling where it might go on."""
    return np.zeros(gain.shape, dtype=bool)


def some_nodes(core: Subproblem, count: int, rng: np.random.Generator) -> Iterator[Any]:
    """Yield nodes of 40 monomials and 6 terms: in, free, what is left of them, and a start."""
    for _ in range(count):
        order, inn = rng.permutation(40), int(rng.integers(0, 4))
        held = np.sort(order[:inn])
        free = np.sort(order[inn : inn + int(rng.integers(12, 36))])
        left = core.eliminated(held, free)
        assert left is not None
        start = first_start(left[0], 6 - inn)
        assert start is not None
        yield held, free, *left, start


@pytest.mark.parametrize("device", DEVICES)
def test_diagonals_are_those_of_one_node_at_a_time(device: str) -> None:
    from polysharp.problem.diagonals import Asked, DeviceDiagonals

    problem, rng = correlated(40, 6), np.random.default_rng(0)
    core, lam = Subproblem.of(problem), problem.lam
    threshold = problem.refit(np.arange(6)).objective
    parts, alone = [], []
    for count, node in enumerate(some_nodes(core, 30, rng)):
        held, free, H, b, cost, start = node
        inn = len(held)
        aim = threshold if count % 2 else 2.0 * threshold
        parts.append(Asked(held, free, 6 - inn, start, aim))
        alone.append(sharpen(H, b, 6 - inn, start, aim=cost - aim * (1.0 + 1e-7), tol=0.02))
    # Little memory: several batches.
    method = DeviceDiagonals(problem, torch.device(device), most_memory=8 * 16 * 40 * 40 * 7)
    answers = [answer for answer in method.sharpened(parts, tol=0.02) if answer is not None]
    found = method.proved(parts, [answer.result for answer in answers], chain=14)
    G = problem.gram.block(np.arange(40), np.arange(40))
    for part, one, answer, many in zip(parts, alone, answers, found, strict=True):
        assert one is not None
        result = many.result
        _, _, cost = core.eliminated(part.held, part.free) or (None, None, 0.0)
        assert answer.short == pytest.approx(result.gain - cost + part.threshold, rel=1e-5)
        # Nodes that are finished may go on until enough of a batch is: never worse.
        assert result.gain <= one.gain * (1.0 + 1e-6)
        assert result.least <= one.gain * (1.0 + 1e-6)
        assert one.least <= result.gain * (1.0 + 1e-6)
        assert many.ridge is not None
        among = np.concatenate([part.held, part.free])
        Q = G[np.ix_(among, among)] + np.diag(lam - many.ridge)
        size = np.sqrt(np.diag(G)[among])
        assert np.linalg.eigvalsh(Q / np.outer(size, size))[0] > -1e-12
        np.testing.assert_allclose(many.rho, problem.q[among] - Q @ many.w, atol=1e-9 * size.max())
        assert len(set(many.chain.tolist())) == min(14, len(part.free))
        assert many.chain.min() >= 0
        assert many.chain.max() < len(part.free)


@pytest.mark.parametrize("device", DEVICES)
def test_couplings_are_those_of_one_node_at_a_time(device: str) -> None:
    """Nodes of different sizes are padded, and some go on from a coupling."""
    from polysharp.problem.diagonals import Asked, DeviceDiagonals

    problem, rng = correlated(40, 6), np.random.default_rng(1)
    core = Subproblem.of(problem)
    threshold = problem.refit(np.arange(6)).objective
    parts, alone = [], []
    for count, node in enumerate(some_nodes(core, 12, rng)):
        held, free, H, b, cost, first = node
        inn = len(held)
        start, coupling, K = first, None, None
        aim = cost - threshold * (1.0 + 1e-7)
        if count % 2:
            before = couple(H, b, 6 - inn, start, aim=aim, worth=no_further)
            assert before is not None
            coupling = before.coupling(free)
            K = coupling.matrix(free, True, 6 - inn)
            start = Start(0.98 * before.delta, 0.5 * before.delta, before.shares)
        parts.append(Asked(held, free, 6 - inn, start, threshold, coupling))
        alone.append(couple(H, b, 6 - inn, start, K=K, aim=aim, worth=no_further))
    method = DeviceDiagonals(problem, torch.device(device))
    found = method.coupled(parts, worth=no_further)
    for one, many in zip(alone, found, strict=True):
        assert one is not None
        assert many is not None
        # In a batch a diagonal may take steps that it would not take alone.
        assert many.gain == pytest.approx(one.gain, rel=1e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_derivatives_of_couplings_are_those_of_their_values(device: str) -> None:
    """Padded or not, in a stack of NumPy arrays or of tensors."""
    from polysharp.problem.coupling_method import _CoupledMethod
    from polysharp.problem.stacks import Nodes, NumPyStacks, TorchStacks

    rng, m = np.random.default_rng(5), np.array([9, 6])
    real = (np.arange(9) < m[:, None]).astype(float)
    H = np.tile(np.eye(9), (2, 1, 1))
    for own, size in zip(H, m, strict=True):
        A = rng.standard_normal((20, size)) + rng.standard_normal((20, 1))
        own[:size, :size] = A.T @ A
    b, start = real * rng.standard_normal((2, 9)), np.full((2, 9), 0.1)
    L, aim = np.array([[3.0], [2.0]]), np.zeros((2, 1))
    nodes = Nodes(H, b, real, L, aim, Start(start, start, 0.3 + 0.0 * start))
    here = _CoupledMethod(NumPyStacks(), nodes, lambda: False)
    first = Start(*(torch.as_tensor(own, device=device) for own in nodes.start))
    tensors = Nodes(*(torch.as_tensor(own, device=device) for own in nodes[:5]), first)
    there = _CoupledMethod(TorchStacks(), tensors, lambda: False)
    beta, every = np.array([[0.02], [0.05]]), np.arange(2)
    x = here.x + 0.1 * rng.standard_normal(here.x.shape)
    ratios = x[:, 18:].reshape(2, 9, 9)  # a view
    ratios[:] = 0.5 * (ratios + ratios.swapaxes(1, 2)) * real[:, :, None] * real[:, None, :]
    ratios[:, np.arange(9), np.arange(9)] = 0.0
    x[:, :18] = np.where(np.tile(real, 2) > 0.0, x[:, :18], here.x[:, :18])
    point, failed = here._at(x, beta, every)
    assert not failed.any()
    on_device = (torch.as_tensor(own, device=device) for own in (x, beta, every))
    for one, many in zip(point, there._at(*on_device)[0], strict=True):
        np.testing.assert_allclose(many.cpu().numpy(), one, rtol=1e-9, atol=1e-12)
    step = 1e-6 * rng.standard_normal(x.shape)
    moved = step[:, 18:].reshape(2, 9, 9)
    moved[:] = 0.5 * (moved + moved.swapaxes(1, 2)) * (1.0 - np.eye(9))
    step *= np.hstack([real, real, (real[:, :, None] * real[:, None, :]).reshape(2, -1)])
    up, down = (here._at(x + sign * step, beta, every)[0].value for sign in (1.0, -1.0))
    slope = (point.slope * step).sum(axis=1)[:, None]
    np.testing.assert_allclose(0.5 * (up - down), slope, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("short", "proved"), [(-1e-7, True), (1e-9, False), (1e-3, False)])
def test_only_what_is_semidefinite_is_proved(device: str, short: float, proved: bool) -> None:
    """Ridges that take a little more than the least eigenvalue are refused, in any batch."""
    from polysharp.problem.diagonals import DeviceDiagonals

    problem = correlated(20, 4)
    G = problem.gram.block(np.arange(20), np.arange(20))
    scale = np.diagonal(G)
    least = np.linalg.eigvalsh(G / np.sqrt(np.outer(scale, scale)))[0]
    ridge = problem.lam + (least + short) * scale
    method = DeviceDiagonals(problem, torch.device(device))
    index = torch.arange(20, device=device)[None].expand(2, 20)
    real = torch.ones((2, 20), dtype=torch.float64, device=device)
    real[1, 15:] = 0.0  # the second node is padded
    inside = real[:, :, None] * real[:, None, :]
    ridges = torch.as_tensor(ridge, device=device)[None].expand(2, 20)
    sizes = method.sizes[index]
    said = method._semidefinite(method.G[None] * inside, ridges, sizes, real, method.unit)
    assert said.tolist() == [proved, True]  # fifteen of them leave room


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("box", [None, 0.8, 3.0])
def test_descents_reach_what_coordinate_descent_reaches(device: str, box: float | None) -> None:
    from polysharp.engines.tree.descents import DeviceDescents

    problem = correlated(60, 5, box, lam=20.0)
    core = Subproblem.of(problem)
    G = torch.as_tensor(problem.gram.block(np.arange(60), np.arange(60)), device=device)
    nodes, bounds = [], []
    for inn in range(4):
        terms = np.zeros(60, dtype=np.int8)
        terms[:inn], terms[inn + 5 : 2 * inn + 5] = 1, -1
        nodes.append(Descent(terms, 5 - inn, np.zeros(60), np.inf))
        warm = fresh_warm(core.system, np.zeros(60), 1.0)
        relaxed = solve_relaxation(core.system, terms, 5 - inn, warm, Aim(tol=1e-6, slack=0.0))
        bounds.append(relaxed.bound)
    found = DeviceDescents(problem, G).solved(nodes, tol=1e-6, slack=0.0, max_steps=3000)
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
    """All kinds of data and rules, by diagonals and by descents; no bound above the optimum."""
    instance = make_instance(seed)
    best = make_engine("enumeration").solve(instance.problem).objective
    for descents_from in (3,) if seed % 3 == 0 else (10_000,):
        tree = Tree(**NO_ENDS, batched_on=(device,), width=8, descents_from=descents_from)
        found = tree.solve(instance.problem, device=torch.device(device))
        assert found.bound <= best * (1.0 + 1e-9) + 1e-12
        assert found.status == "optimal"
        assert found.objective == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("box", "descents_from"), [(None, 10_000), (1.5, 10_000), (1.5, 10)])
def test_proofs_of_batches_are_verified(device: str, box: float | None, descents_from: int) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100, 5)) + 0.5 * rng.standard_normal((100, 1))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 3 + X[:, 3] ** 2 * X[:, 4] + 4.0 * rng.standard_normal(100)
    bounds = None if box is None else (-box, box)
    model = SparsePolynomialRegressor(3, 4, gamma=0.1, coefficient_bounds=bounds, engine="tree")
    here = model.fit(X, y).solution_
    batches = {"batched_on": (device,), "descents_from": descents_from, "couplings": False}
    tree = Tree(**NO_ENDS, **batches)
    rows = torch.as_tensor(X, device=device)
    there = model.set_params(engine=tree).fit(rows, y).solution_
    assert there.status == here.status == "optimal"
    assert there.counters.nodes > 5
    assert there.objective == pytest.approx(here.objective, rel=1e-8)
    assert verify(there.proof, X, y)


@pytest.mark.parametrize("device", DEVICES)
def test_couplings_of_batches_are_proved(device: str) -> None:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 4)) + 1.5 * rng.standard_normal((80, 1))
    y = X[:, 0] * X[:, 1] - X[:, 2] ** 3 + X[:, 3] ** 2 + 8.0 * rng.standard_normal(80)
    tree = Tree(**NO_ENDS, batched_on=(device,), coupling_worth=0.0)
    model = SparsePolynomialRegressor(3, 4, gamma=0.1, engine=tree)
    found = model.fit(torch.as_tensor(X, device=device), y).solution_
    here = model.set_params(engine="tree").fit(X, y).solution_
    assert found.status == "optimal"
    assert found.objective == pytest.approx(here.objective, rel=1e-8)
    assert any(own.coupling is not None for own in found.proof.diagonals)
    assert verify(found.proof, X, y)


def test_a_search_cut_short_keeps_a_bound() -> None:
    problem = correlated(60, 8)
    tree = Tree(**NO_ENDS, batched_on=("cpu",), width=16)
    limits = Limits(time_limit=0.5, gap_tol=1e-9)
    found = tree.solve(problem, device=torch.device("cpu"), limits=limits)
    assert 0.0 < found.bound <= problem.refit(np.arange(8)).objective * (1.0 + 1e-9)


def test_a_device_gets_as_many_nodes_as_fill_it() -> None:
    device, widths = torch.device("cpu"), []
    for size, descents_from in ((20, 1500), (400, 1500), (400, 100)):
        tree = Tree(batched_on=("cpu",), descents_from=descents_from)
        run = Run(correlated(size, 3), Limits(), device=device)
        widths.append(tree._width(Spending(tree, run, 1e-6), run))
    assert widths == [512, 50, 512]
