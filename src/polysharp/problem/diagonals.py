"""Best diagonals of many nodes at once: the method of ``diagonal`` in batches, on any device.

The nodes of a search share G and q, which stay on the device; a node names the monomials that are
in and those that are free, and gets back a diagonal, coefficients and shares.  H and b are Schur
complements made there (``diagonal_batch`` has the method).

Nothing in the method is rounded to any side: what it finds is a proposal.  That G + lam I less the
ridges is positive semidefinite is then proved on the device, by multiplying out an approximate
factor (``bounds.residual_margin``), and rho = q - Q w is summed there, which ``bounds`` allows in
any order; the bound itself is ``bounds``'s.  Couplings (``coupling_method``) are looked for there
as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from polysharp.moments.gram import DenseGram
from polysharp.problem.bounds import (
    COUPLED_UNIT,
    UNIT,
    factorisation_margin,
    residual_margin,
    semidefinite_margin,
)
from polysharp.problem.coupling import STEPS, Coupling
from polysharp.problem.coupling_method import Coupled, Worth, couple_stack
from polysharp.problem.diagonal import (
    HELD_RIDGE,
    INWARDS,
    LIKELY,
    Proved,
    Sharpened,
    Start,
)
from polysharp.problem.diagonal_batch import STACKS, Methods, diagonal_of, solved
from polysharp.problem.problem import Problem
from polysharp.problem.stacks import Nodes, outer, row_sums, times
from polysharp.typing import Indices

MATRICES, COUPLED_MATRICES = 16, 40  # of a node that are held at a time
MEMORY_SHARE = 0.4  # of what is free on the device
LEAST_FILLED = 0.85  # of the largest size in a batch, that the smallest has at least
RESIDUAL = 6.0  # room for the rounding of a factor that is multiplied out


class Asked(NamedTuple):
    """A node: monomials that are in, those that are free, and how many of these may join."""

    held: Indices
    free: Indices
    budget: int
    start: Start
    threshold: float  # the cost that the node's bound should reach
    coupling: Coupling | None = None  # of the free ones


class Answer(NamedTuple):
    """What ``sharpen`` returns for a node, and by how much it falls short of the aim."""

    result: Sharpened
    short: float


class DeviceDiagonals:
    """Best diagonals of parts of one problem."""

    def __init__(self, problem: Problem, device: Any, most_memory: float = np.inf) -> None:
        every, gram = np.arange(problem.size), problem.gram
        G = gram.G if isinstance(gram, DenseGram) else gram.block(every, every)
        self.G = torch.as_tensor(G, device=device)
        self.q = torch.as_tensor(np.array(problem.q), device=device)
        self.lam, self.yy, self.device = problem.lam, float(problem.yy), device
        self.most_memory = most_memory
        known = problem.accuracy
        self.unit, self.sizes = known.unit, torch.as_tensor(np.array(known.sizes), device=device)

    def sharpened(
        self,
        parts: Sequence[Asked],
        *,
        tol: float = 0.1,
        max_steps: int = 40,
        expired: Callable[[], bool] = lambda: False,
    ) -> list[Answer | None]:
        """Return what ``sharpen`` returns for every part, with its coupling taken away from H.

        None where a start is not feasible or no coefficient can be anything but zero.
        """
        found: list[Answer | None] = [None] * len(parts)
        for places in self._groups(parts, MATRICES):
            group = [parts[i] for i in places]
            nodes = self._nodes(group)
            batch = Methods(nodes)
            batch.run(tol, max_steps, expired)
            aims = nodes.aim[:, 0].tolist()
            for i, answer, aim in zip(places, batch.answers(), aims, strict=True):
                found[i] = None if answer is None else Answer(answer, answer.gain - aim)
        return found

    def coupled(
        self, parts: Sequence[Asked], *, worth: Worth, expired: Callable[[], bool] = lambda: False
    ) -> list[Coupled | None]:
        """Return what ``couple`` returns for every part, going on from its coupling."""
        found: list[Coupled | None] = [None] * len(parts)
        for fresh in (True, False):
            some = [i for i, part in enumerate(parts) if (part.coupling is None) == fresh]
            for places in self._groups([parts[i] for i in some], COUPLED_MATRICES):
                if expired():
                    break
                group = [parts[some[i]] for i in places]
                proposals = couple_stack(STACKS, self._nodes(group), worth, expired)
                for i, proposal in zip(places, proposals, strict=True):
                    found[some[i]] = proposal
        return found

    def _groups(self, parts: Sequence[Asked], matrices: int) -> Iterator[list[int]]:
        """Yield positions of parts of about the same size, few enough for the memory."""
        order = sorted(range(len(parts)), key=lambda i: -len(parts[i].free))
        memory = min(self.most_memory, MEMORY_SHARE * _free_memory(self.device))
        while order:
            size = max(len(parts[order[0]].free), 1)
            most = max(1, int(memory // (8 * matrices * size * size)))
            count = 0
            while count < min(most, len(order)):
                if len(parts[order[count]].free) < LEAST_FILLED * size - 8:
                    break
                count += 1
            yield order[:count]
            order = order[count:]

    def _nodes(self, parts: list[Asked]) -> Nodes:
        """Eliminate what is in; nothing is left of b where that cannot be done."""
        free, real = _padded([part.free for part in parts], self.device)
        held, used = _padded([part.held for part in parts], self.device)
        H = self.G[free[:, :, None], free[:, None, :]] * (real[:, :, None] * real[:, None, :])
        H.diagonal(dim1=1, dim2=2).add_(torch.where(real > 0.0, self.lam, 1.0))
        b, gained = self.q[free] * real, torch.zeros_like(real[:, 0])
        lost = torch.zeros_like(gained, dtype=torch.int32)
        if held.shape[1]:
            A = self.G[held[:, :, None], held[:, None, :]] * (used[:, :, None] * used[:, None, :])
            A.diagonal(dim1=1, dim2=2).add_(torch.where(used > 0.0, self.lam, 1.0))
            root, lost = torch.linalg.cholesky_ex(A)
            cross = self.G[held[:, :, None], free[:, None, :]]
            cross *= used[:, :, None] * real[:, None, :]
            right = torch.cat([cross, (self.q[held] * used)[:, :, None]], dim=2)
            V = torch.linalg.solve_triangular(root, right, upper=False)
            H -= V[:, :, :-1].mT @ V[:, :, :-1]
            b = b - (V[:, :, :-1].mT @ V[:, :, -1:])[:, :, 0]
            gained = (V[:, :, -1] ** 2).sum(1)
        wanted = (1.0 + 1e-7) * self._column([part.threshold for part in parts])
        starts = (_filled(rows, real) for rows in zip(*(part.start for part in parts), strict=True))
        budget = self._column([part.budget for part in parts])[:, None]
        aim = 0.5 * (self.yy - gained) - wanted
        b = b * (lost == 0)[:, None]
        K = self._couplings(parts, real, [0] * len(parts))
        return Nodes(H, b, real, budget, aim[:, None], Start(*starts), K)

    def _couplings(self, parts: list[Asked], real: Any, places: Sequence[int]) -> Any:
        """Return K of every part, with its free monomials from a place on; None if no part has one.

        As ``Coupling.matrix`` makes it, in no more operations.
        """
        if all(part.coupling is None for part in parts):
            return None
        place, reach = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape)
        alike = defaultdict[int, list[int]](list)  # siblings share their ratios
        for i, (part, first) in enumerate(zip(parts, places, strict=True)):
            if part.coupling is not None:
                own = slice(first, first + len(part.free))
                place[i, own], reach[i, own] = part.coupling.among(part.free)
                alike[id(part.coupling.ratios)].append(i)
        at, a = (torch.as_tensor(rows, device=self.device) for rows in (place, reach))
        K = outer(a / STEPS, a)
        for nodes in alike.values():
            coupling = parts[nodes[0]].coupling
            assert coupling is not None
            ratios = torch.as_tensor(coupling.ratios, device=self.device)
            K[nodes] *= ratios[at[nodes][:, :, None], at[nodes][:, None, :]]
        budget = self._column([part.budget for part in parts])[:, None]
        diagonal_of(K).copy_((budget - 1.0) * a * a)
        return K

    def proved(
        self, parts: Sequence[Asked], answers: Sequence[Sharpened], chain: int
    ) -> list[Proved]:
        """Prove diagonals, with chains of so many monomials to branch on."""
        found = dict[int, Proved]()
        for places in self._groups(parts, MATRICES):
            group = self._proved([parts[i] for i in places], [answers[i] for i in places], chain)
            found.update(zip(places, group, strict=True))
        return [found[i] for i in range(len(parts))]

    def _proved(self, parts: list[Asked], answers: list[Sharpened], chain: int) -> list[Proved]:
        """Prove the diagonals, moved inwards where that is needed, and sum rho."""
        lam, device = self.lam, self.device
        index, real = _padded([np.concatenate([p.held, p.free]) for p in parts], device)
        held = [np.zeros(len(part.held)) for part in parts]
        delta, inside, w, shares = (
            _filled([np.append(none, v) for none, v in zip(held, vectors, strict=True)], real)
            for vectors in (
                [answer.delta for answer in answers],
                [part.start.inside for part in parts],
                [answer.w for answer in answers],
                [answer.shares for answer in answers],
            )
        )
        count = [len(part.held) for part in parts]
        inn = (torch.arange(index.shape[1], device=device) < self._column(count)[:, None]).double()
        G = self.G[index[:, :, None], index[:, None, :]] * (real[:, :, None] * real[:, None, :])
        sizes, unit, K = self.sizes[index], self.unit, self._couplings(parts, real, count)
        if K is not None:  # as in ``Accuracy.coupled``
            G -= K
            sizes, unit = (sizes**2 + diagonal_of(K)).sqrt(), unit + COUPLED_UNIT
        chains = self._chains(G, self.q[index] * real, delta, shares, real * (1.0 - inn), chain)
        ridge = torch.full_like(delta, HELD_RIDGE * lam)
        left = torch.arange(len(parts), device=device)
        for inwards in INWARDS:
            tried = (1.0 - inwards) * delta[left] + inwards * inside[left]
            ridge[left] = torch.where(inn[left] > 0.0, ridge[left], tried)
            left = left[~self._semidefinite(G[left], ridge[left], sizes[left], real[left], unit)]
            if not len(left):
                break
        w = w * real * (1.0 - inn)
        # Coefficients of what is in, given the others.
        A = G * (inn[:, :, None] * inn[:, None, :])
        diagonal_of(A).add_(torch.where(inn > 0.0, lam, 1.0))
        right = inn * (self.q[index] - times(G, w))
        w = w + solved(torch.linalg.cholesky_ex(A)[0], right[:, :, None])[:, :, 0]
        diagonal_of(G).sub_(real * (ridge - lam))
        rho = self.q[index] - times(G, w)
        rows = ridge.cpu().numpy(), w.cpu().numpy(), rho.cpu().numpy()
        failed = set(left.tolist())
        found = []
        for i, answer in enumerate(answers):
            size = len(parts[i].held) + len(parts[i].free)
            own = [row[i, :size] for row in rows]
            places = chains[i, : len(parts[i].free)] - len(parts[i].held)
            found.append(Proved(answer, None if i in failed else own[0], own[1], own[2], places))
        return found

    def _chains(self, G: Any, q: Any, delta: Any, s: Any, free: Any, length: int) -> Any:
        """Return the monomials whose loss would hurt most (see ``listed.drop_chain``).

        The inverse of all that is in or free holds that of the Schur complement.
        """
        s, found = s.clamp(1e-6, 1.0), list[Any]()
        A = G.clone()
        diagonal_of(A).add_(self.lam + free * delta * (1.0 / s - 1.0))
        inverse = STACKS.inverse(torch.linalg.cholesky_ex(A)[0])
        node, free = torch.arange(len(s), device=s.device), free.clone()
        for _ in range(length):
            likely = free * (s > LIKELY)
            drop = times(inverse, q) ** 2 / diagonal_of(inverse).clamp(min=1e-300)
            order = torch.where(row_sums(likely) > 0.0, torch.where(likely > 0.0, drop, -1.0), s)
            j = torch.where(free > 0.0, order, -2.0).nan_to_num(-1.0).argmax(1)
            found.append(j)
            free[node, j] = 0.0
            column = inverse[node, :, j]
            change = delta[node, j] * (1.0 - 1.0 / s[node, j])
            factor = change / (1.0 + change * column[node, j])
            inverse.addcmul_((factor[:, None] * column)[:, :, None], column[:, None, :], value=-1.0)
        return torch.stack(found, dim=1).cpu().numpy() if found else np.zeros((len(s), 0), np.int64)

    def _semidefinite(self, G: Any, ridge: Any, sizes: Any, real: Any, unit: float) -> Any:
        """Whether each G + lam I - diag(ridge) is proved to be, as in ``bounds.semidefinite``."""
        count, d = row_sums(real), real * (ridge - self.lam)
        sizes = (sizes**2 + (-d).clamp(min=0.0)).sqrt()
        A = G / (sizes[:, :, None] * sizes[:, None, :])
        scaled = d / sizes**2
        diagonal = diagonal_of(A) - scaled
        larger = diagonal.abs().amax(1, keepdim=True).clamp(min=1.0)
        shift = larger * semidefinite_margin(count, unit, RESIDUAL) + 8.0 * UNIT * scaled.abs()
        diagonal_of(A).copy_(torch.where(real > 0.0, diagonal - shift, 1.0))
        factor, info = torch.linalg.cholesky_ex(A)
        inside = real[:, :, None] * real[:, None, :]  # zeros are added without an error
        A, factor = A * inside, factor * inside
        norms = (torch.linalg.matrix_norm(M) for M in (A - factor @ factor.mT, A, factor))
        short = residual_margin(count[:, 0], *norms)
        room = (larger * factorisation_margin(count, RESIDUAL))[:, 0]
        # What is no number fails the comparison.
        return (info == 0) & (short <= room) & (ridge > 0.0).all(1)

    def _column(self, numbers: Sequence[float]) -> Any:
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)


def _padded(rows: Sequence[Indices], device: Any) -> tuple[Any, Any]:
    """Return rows of indices filled up with zeros, and 1 where an index is one of the row."""
    sizes = np.array([len(row) for row in rows])
    real = np.arange(int(sizes.max(initial=0))) < sizes[:, None]
    index = np.zeros(real.shape, dtype=np.int64)
    index[real] = np.concatenate(rows)
    return torch.as_tensor(index, device=device), torch.as_tensor(real, device=device).double()


def _filled(rows: Sequence[Any], real: Any) -> Any:
    """Return rows of numbers filled up with ones."""
    values = torch.ones(real.shape, dtype=real.dtype)
    values[real.cpu() > 0.0] = torch.as_tensor(np.concatenate(rows))
    return values.to(real.device)


def _free_memory(device: Any) -> float:
    return float(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else 2.0**29
