"""Relaxations of many nodes over thousands of monomials, on a device: one product with G for all.

The relaxation of ``relaxation`` with ridge = lam, by the projected gradient method with momentum
(FISTA, restarted when the momentum points uphill).  With c = w + (q - G w)/K, K the largest
eigenvalue of G, a step solves

    min  K/2 |v - c|^2 + lam/2 sum_O v_j^2 + lam/2 sum_free v_j^2/s_j     over the same (v, s),

which is separable for a price nu of the budget; nu is found by bisection for every node.  A
thousand monomials that matter out of tens of thousands cost nothing extra, and neither do a
hundred nodes: a product with G takes a millisecond or two.

What comes out is w and rho = q - G w, summed in some order; ``bounds`` makes a bound of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from polysharp.engines.tree.bounder import (
    EXPLORATIONS,
    Relaxation,
    explored_budget,
)
from polysharp.engines.tree.relaxation import Warm
from polysharp.engines.tree.relaxation_sweeps import scaled_cost
from polysharp.engines.tree.search_state import Evidence, ListedNode, PricedPoint, SearchState
from polysharp.moments.gram import DenseGram
from polysharp.problem.bounds import priced_bound
from polysharp.problem.problem import Problem
from polysharp.problem.propagation import FREE, IN, OUT, States
from polysharp.problem.subproblem import Subproblem
from polysharp.typing import Array

BISECTIONS = 9  # of a range of NARROW to both sides in log nu, around the last one
NARROW, WIDE = 1.0, 40.0
LOOK_EVERY = 20  # steps between two looks at the bounds
MEMORY = 4e8  # numbers in one batch: nodes times monomials
MANY = 32  # nodes; the time of fewer says nothing of many


class Descent(NamedTuple):
    """A node to relax: states of all monomials, and where to start."""

    terms: States
    budget: int
    w: Array
    threshold: float


class DeviceDescents:
    """Relaxations of parts of one problem."""

    def __init__(self, problem: Problem, device: Any) -> None:
        every, gram = np.arange(problem.size), problem.gram
        G = gram.G if isinstance(gram, DenseGram) else gram.block(every, every)
        self.G = torch.as_tensor(G, device=device)
        self.lam, self.yy = problem.lam, float(problem.yy)
        self.q, self.low, self.high = (
            torch.as_tensor(np.array(rows[0]), device=device)
            for rows in (problem.q, *problem.boxes)
        )
        self.K = 1.02 * self._largest_eigenvalue()

    def solved(
        self,
        nodes: Sequence[Descent],
        *,
        tol: float = 1e-4,
        slack: float = 0.1,
        max_steps: int = 600,
        expired: Callable[[], bool] = lambda: False,
    ) -> list[tuple[Array, Array, float]]:
        """Return w, rho and nu for every node.

        A node is finished when its bound reaches the threshold, or is within ``tol`` of the best
        or within ``slack`` of the distance that is left to the threshold.
        """
        most = max(1, int(MEMORY // max(len(self.q), 1)))
        found = list[tuple[Array, Array, float]]()
        for start in range(0, len(nodes), most):
            found += self._batch(nodes[start : start + most], tol, slack, max_steps, expired)
        return found

    def _batch(
        self,
        nodes: Sequence[Descent],
        tol: float,
        slack: float,
        max_steps: int,
        expired: Callable[[], bool],
    ) -> list[tuple[Array, Array, float]]:
        device, count = self.G.device, len(nodes)
        state = torch.as_tensor(np.stack([node.terms for node in nodes]), device=device)
        budget, aim = (
            torch.tensor(v, dtype=torch.float64, device=device)[:, None]
            for v in zip(*((node.budget, node.threshold) for node in nodes), strict=True)
        )
        w = torch.as_tensor(np.stack([node.w for node in nodes]), device=device) * (state != OUT)
        batch = _AtWork(state, budget, aim, w, torch.ones_like(budget))
        kept = (
            w.clone(),
            torch.zeros_like(w),
            torch.ones_like(budget),
            -np.inf * torch.ones_like(aim),
        )
        place = torch.arange(count, device=device)
        wide = WIDE
        at, t = batch.w, 1.0
        for turn in range(max_steps + 1):
            if turn % LOOK_EVERY == 0:
                rho = self.q - batch.w @ self.G
                bound, value = self._values(batch, rho)
                better = (bound > kept[3][place])[:, 0]
                for store, now in zip(kept, (batch.w, rho, batch.nu, bound), strict=True):
                    store[place[better]] = now[better]
                near = (value - bound <= tol * value) | (value - bound <= slack * (aim - bound))
                left = ~((bound >= aim * (1.0 + 1e-7)) | near)[:, 0]
                if turn == max_steps or expired() or not bool(left.any()):
                    break
                if int(left.sum()) <= 0.8 * len(place):
                    batch = _AtWork(*(v[left] for v in batch))
                    place, aim, at = place[left], aim[left], at[left]
            new = self._projected(batch, at + (self.q - at @ self.G) / self.K, wide)
            wide = NARROW
            uphill = ((at - new.w) * (new.w - batch.w)).sum(1, keepdim=True) > 0.0
            after = 0.5 + (0.25 + t * t) ** 0.5
            at = new.w + torch.where(uphill, 0.0, (t - 1.0) / after) * (new.w - batch.w)
            batch, t = new, after
        w, rho, nu = (v.cpu().numpy() for v in kept[:3])
        return [(w[i], rho[i], float(nu[i, 0])) for i in range(count)]

    def _projected(self, batch: _AtWork, c: Any, wide: float) -> _AtWork:
        """Return the nearest feasible points, with nu by bisection."""
        end = torch.where(c > 0.0, self.high, -self.low)
        free = batch.state == FREE
        fixed = torch.minimum(c.abs() * (self.K / (self.K + self.lam)), end)
        fixed = torch.where(batch.state == IN, fixed, 0.0)
        size, cap = torch.where(free, self.K * c.abs(), 0.0), end.clamp(min=1e-300)

        def at(nu: Any) -> tuple[Any, Any]:
            turn = (2.0 * self.lam * nu).sqrt()
            early = self.lam * end < turn  # the box ends before the penalty turns into a ridge
            cut = torch.where(early, 0.5 * self.lam * end + nu / cap, turn)
            line = (size - cut).clamp(min=0.0) / self.K
            ridge = early | ((size - cut) * self.lam <= cut * self.K)
            v = torch.minimum(torch.where(ridge, line, size / (self.K + self.lam)), end)
            return v, (v * torch.maximum(turn / (2.0 * nu), 1.0 / cap)).clamp(max=1.0)

        low, high = batch.nu * np.exp(-wide), batch.nu * np.exp(wide)
        for _ in range(BISECTIONS * (3 if wide == WIDE else 1)):
            nu = (low * high).sqrt()
            over = at(nu)[1].sum(1, keepdim=True) > batch.budget
            low, high = torch.where(over, nu, low), torch.where(over, high, nu)
        v = at(high)[0]
        return batch._replace(w=torch.copysign(v + fixed, c) * (end > 0.0), nu=high)

    def _values(self, batch: _AtWork, rho: Any) -> tuple[Any, Any]:
        """Return the dual and the primal value at w, neither of them rounded to any side."""
        w, lam, inn = batch.w, self.lam, batch.state == IN
        ya = self.yy - (w @ self.q)[:, None]
        aa = ya - (w * rho).sum(1, keepdim=True)
        end = torch.where(rho > 0.0, self.high, -self.low)
        v = torch.minimum(rho.abs() / lam, end)
        Z = v * (rho.abs() - 0.5 * lam * v)
        top = torch.where(batch.state == FREE, Z, 0.0).topk(int(batch.budget.max()), dim=1)[0]
        spent = top.cumsum(1).gather(1, (batch.budget.long() - 1).clamp(min=0))
        spent = torch.where(batch.budget > 0.0, spent, 0.0) + (Z * inn).sum(1, keepdim=True)
        limit = torch.where(w > 0.0, self.high, -self.low).clamp(min=1e-300)
        s = w.abs() * torch.maximum((0.5 * lam / batch.nu).sqrt(), 1.0 / limit)
        s = torch.where(inn, 0.0, s.clamp(max=1.0))
        penalty = torch.where(s > 0.0, 0.5 * lam * w * w / s.clamp(min=1e-300), 0.0)
        penalties = 0.5 * lam * (w * w * inn).sum(1, keepdim=True), penalty.sum(1, keepdim=True)
        t = (batch.budget / s.sum(1, keepdim=True).clamp(min=1e-300)).clamp(max=1.0)
        value = scaled_cost(self.yy, self.yy - ya, aa, penalties, t)
        return ya - 0.5 * aa - spent, value

    def _largest_eigenvalue(self) -> float:
        v = torch.linspace(1.0, 1.5, len(self.q), dtype=torch.float64, device=self.q.device)
        value = 1.0
        for _ in range(60):
            v = v / v.norm()
            v = self.G @ v
            value = float(v.norm())
        return value


class _AtWork(NamedTuple):
    """Nodes at work: states, budgets, aims, coefficients and prices of the budget."""

    state: Any
    budget: Any
    aim: Any
    w: Any
    nu: Any


class DeviceRelaxation(Relaxation):
    """The relaxation bounder that leaves nodes over thousands of monomials to a device."""

    def __init__(self, state: SearchState) -> None:
        super().__init__(state)
        self.descents = DeviceDescents(state.run.problem, state.run.device)

    def takes(self, node: ListedNode) -> bool:
        """Whether the device relaxes a node."""
        plain = self.state.starts[node.number].diagonal is None and node.core.diagonal < 0
        return plain and len(node.free) >= self.state.settings.device_from

    def batches(self, nodes: Sequence[ListedNode]) -> list[list[ListedNode]]:
        """Return the nodes of the device as one group, all others one by one."""
        large = [node for node in nodes if self.takes(node)]
        small = [[node] for node in nodes if not self.takes(node)]
        return [large, *small] if large else small

    def apply(self, nodes: Sequence[ListedNode]) -> list[ListedNode]:
        """Relax nodes, those of the device with one product with G for all of them."""
        large = [node for node in nodes if self.takes(node)]
        small = [node for node in nodes if not self.takes(node)]
        done = {node.number: node for node in super().apply(small)}
        if not large:
            return list(done.values())
        state, tasks, began = self.state, list[Descent](), perf_counter()
        size, threshold = state.run.problem.size, state.threshold
        for node in large:
            terms, w = np.full(size, OUT, dtype=np.int8), np.zeros(size)
            terms[node.core.index] = node.terms
            if (warm := state.starts[node.number].warm) is not None:
                w[node.core.index] = warm.w[0]
            tasks.append(Descent(terms, node.budget, w, threshold))
        found = self.descents.solved(tasks, expired=state.expired)
        for node, own in zip(large, found, strict=True):
            done[node.number] = self._bounded(node, threshold, *own)
        if len(large) >= MANY:
            self.rate.note(sum(len(node.free) ** 2 for node in large), perf_counter() - began)
        return [done[node.number] for node in nodes]

    def again(self, before: ListedNode, after: ListedNode) -> bool:
        """Whether it is worth applying once more."""
        if not self.takes(before):
            return super().again(before, after)
        return super(Relaxation, self).again(before, after) and self.takes(after)

    def points(self, core: Subproblem, terms: States, start: Callable[[], Warm]) -> Iterator[Array]:
        """Yield the shares of relaxations with other budgets."""
        del start
        budgets = {explored_budget(core, terms, share) for share, own in EXPLORATIONS if own == 1.0}
        aim, none = self.state.run.objective, np.zeros(core.size)
        tasks = [Descent(terms, budget, none, aim) for budget in sorted(budgets)]
        for w, _, _ in self.descents.solved(tasks, expired=self.state.expired):
            yield np.abs(w)

    def _bounded(
        self, node: ListedNode, threshold: float, w: Array, rho: Array, nu: float
    ) -> ListedNode:
        """Return a node bounded with a point of its relaxation, no curvature moved."""
        core, alive, index = node.core, node.alive, node.core.index
        system = core.problem.system(index[alive], np.zeros((0, 0)))
        inn, Z = node.terms[alive] == IN, np.zeros(core.size)
        v, r = w[index], rho[index]
        bound, Z[alive] = priced_bound(system, v[alive], inn, node.budget, r[alive])
        mass = float(np.abs(v) @ core.system.sizes)
        warm = Warm(v[None], r[None], nu, float(np.count_nonzero(v)), mass)
        self.state.starts[node.number].warm = warm
        evidence = Evidence(node.written(warm.w))
        return node.screened(PricedPoint(bound, Z, evidence), threshold)
