"""Exhaustive ends on a CUDA device: the test of ``ends``, all triples behind a prefix at once.

Prefixes of L - 3 monomials are eliminated in batches by PyTorch.  One Triton kernel then tries
every triple k < a < b behind each: with x = H_k / sqrt(H_kk) eliminated on the fly, s and D what is
left of b and of the diagonal, h what is left of H_ab and T twice the gain still needed,

    s_a^2 D_b + s_b^2 D_a - 2 s_a s_b h - T (D_a D_b - h^2) > 0

exactly when the triple gains enough.  A program owns a tile of (a, b), which stays in registers
while k runs, so that a triple costs one rank-one update and five multiply-adds:

        b ->
    a   # # # #     a tile (#) is read once;
    |     # # #     k runs down to its last row,
    v       # #     and brings two short vectors

Only tiles in which some triple passes are looked at again, to name the triples.

Rounding is that of ``ends``, and every triple that passes is bounded by the caller, on the
processor.  Rules beyond the number of terms are not known
here.  A device whose PyTorch comes without Triton leaves the ends to the processor.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

from polysharp.engines.tree.ends import MOST_HITS, Exhausted
from polysharp.engines.tree.ends_kernel import NOISE, Quest
from polysharp.typing import Array

TILE, WARPS = 32, 2  # the fastest of four shapes on an H200
CHUNKS = 4  # matrices of one batch share their size: few chunks waste rows, many waste launches
MEMORY_SHARE = 0.2  # of what is free on the device, for one level of prefixes
MOST_PREFIXES = 65_535  # programs along an axis of the grid
LEAST_TRIMMED = 96  # monomials; smaller matrices are not worth trimming
ONE_AT_A_TIME = Lock()  # threads would share the device's memory


class Batch(NamedTuple):
    """Prefixes with what is left of H and b behind each."""

    H: Any  # (batch, m, m)
    b: Any  # (batch, m)
    gained: Any  # (batch,): twice the gain of the prefix
    first: Any  # (batch,): where the monomials behind the prefix begin
    prefixes: Any  # (batch, length)
    offset: int  # position of the first row


class Triples(NamedTuple):
    """Supports that pass, and twice their gains."""

    supports: Array
    gained: Array


def exhaust_on_device(
    H: Array, b: Array, budget: int, task: Quest, device: Any, most: int = MOST_HITS
) -> Exhausted | None:
    """Try all choices of ``budget`` (3 or more) monomials; None where ``most`` come close."""
    root = np.sqrt(np.diagonal(H))
    C = torch.as_tensor(H / np.multiply.outer(root, root), device=device)
    c = torch.as_tensor(b / root, device=device)
    noise, need = NOISE * task.cost, task.need
    whole = Batch(
        C[None],
        c[None],
        torch.zeros(1, dtype=C.dtype, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
        torch.zeros((1, 0), dtype=torch.int64, device=device),
        0,
    )
    hits: list[Array] = []
    with ONE_AT_A_TIME:
        began = perf_counter()
        for batch in _grown(whole, budget - 3):
            tiles = _passing(batch, need, noise)
            while tiles:
                here = tiles.pop(0)
                found = _triples(batch, here, need, noise)
                if not len(found.supports):
                    continue
                # What is found need not be found again: from now on only what is better.
                gain = min(0.5 * float(found.gained.max()), task.cost)  # more is rounding
                raised = max(need, gain + task.share * (task.cost - gain) - task.room)
                listed = found.gained >= min(2.0 * raised - noise, 2.0 * gain)
                hits.extend(found.supports[listed])
                if len(hits) > most:
                    return None
                if raised > need:
                    need = raised
                    tiles = [tile for tile in _passing(batch, need, noise) if tile > here]
        supports = np.array(hits, dtype=np.int64).reshape(-1, budget)
        return Exhausted(supports, need, perf_counter() - began)


def _grown(batch: Batch, depth: int) -> Iterator[Batch]:
    """Yield all prefixes that are ``depth`` monomials longer, with three monomials left behind."""
    if depth == 0:
        yield batch
        return
    m, device = batch.b.shape[1], batch.b.device
    position = torch.arange(m, device=device)
    open_to = (position >= batch.first[:, None]) & (position <= m - depth - 3)
    k, entry = open_to.T.nonzero(as_tuple=True)  # in the order of k: parts can be trimmed
    longest = min(MOST_PREFIXES, max(1, int(_memory(device) // (8 * m * m))))
    if m > LEAST_TRIMMED:
        longest = min(longest, -(-len(k) // CHUNKS))
    for begin in range(0, len(k), max(longest, 1)):
        yield from _grown(
            _longer(batch, k[begin : begin + longest], entry[begin : begin + longest]), depth - 1
        )


def _longer(batch: Batch, k: Any, entry: Any) -> Batch:
    """Return the prefixes ``entry`` with the monomials k, all of them behind the least k."""
    low = int(k[0])
    H, b = batch.H[entry, low:, low:], batch.b[entry, low:]
    which = torch.arange(len(k), device=b.device)
    pivot = 1.0 / H[which, k - low, k - low].sqrt()
    x, g = H[which, k - low] * pivot[:, None], b[which, k - low] * pivot
    H.addcmul_(x[:, :, None], x[:, None, :], value=-1.0)
    b.addcmul_(g[:, None], x, value=-1.0)
    return Batch(
        H,
        b,
        batch.gained[entry] + g * g,
        k - low + 1,
        torch.cat([batch.prefixes[entry], (batch.offset + k)[:, None]], dim=1),
        batch.offset + low,
    )


def _memory(device: Any) -> float:
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 2**28
    return MEMORY_SHARE * float(free)


def _passing(batch: Batch, need: float, noise: float) -> list[tuple[int, int]]:
    """Return (entry, tile) wherever some triple passes."""
    count, m = batch.b.shape
    across = triton.cdiv(m, TILE)
    tiles = across * (across + 1) // 2
    best = torch.empty((count, tiles), dtype=torch.float64, device=batch.b.device)
    allowed = torch.full((1,), noise, dtype=torch.float64, device=batch.b.device)
    _test_triples[(tiles, count)](
        batch.H.contiguous(), batch.b.contiguous(), 2.0 * need - batch.gained, allowed,
        batch.first.to(torch.int32), best, m, TILE=TILE, num_warps=WARPS,
    )  # fmt: skip
    return [(int(entry), int(tile)) for entry, tile in (best > 0.0).nonzero().tolist()]


def _triples(batch: Batch, where: tuple[int, int], need: float, noise: float) -> Triples:
    """Return the triples of a tile that pass."""
    entry, tile = where
    H, b, m = batch.H[entry], batch.b[entry], batch.b.shape[1]
    down = int((np.sqrt(8.0 * tile + 1.0) - 1.0) / 2.0)
    down += (down + 1) * (down + 2) // 2 <= tile
    begin = (tile - down * (down + 1) // 2) * TILE
    A = torch.arange(begin, min(begin + TILE, m), device=H.device)
    B = torch.arange(down * TILE, min((down + 1) * TILE, m), device=H.device)
    K = torch.arange(int(batch.first[entry]), int(A[-1]), device=H.device)
    D = H.diagonal()
    pivot = 1.0 / D[K].sqrt()
    g, xa, xb = b[K] * pivot, H[K][:, A] * pivot[:, None], H[K][:, B] * pivot[:, None]
    gained = (batch.gained[entry] + g * g)[:, None, None]
    sa, sb = (b[A] - g[:, None] * xa)[:, :, None], (b[B] - g[:, None] * xb)[:, None, :]
    Da, Db = (D[A] - xa**2)[:, :, None], (D[B] - xb**2)[:, None, :]
    h = H[A][:, B] - xa[:, :, None] * xb[:, None, :]
    both, product = sa**2 * Db + sb**2 * Da - 2.0 * sa * sb * h, Da * Db
    T = 2.0 * need - gained
    passes = both - T * (product - h**2) + noise * product > 0.0
    passes &= (K[:, None, None] < A[:, None]) & (A[:, None] < B)
    k, a, c = passes.nonzero(as_tuple=True)
    triples = batch.offset + torch.stack([K[k], A[a], B[c]], dim=1)
    total = gained + both / (product - h**2).clamp(min=1e-300)
    supports = torch.cat([batch.prefixes[entry].expand(len(k), -1), triples], dim=1)
    return Triples(supports.cpu().numpy(), total[k, a, c].cpu().numpy())


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _test_triples(H, b, need, noise, first, best, m, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    entry = tl.program_id(1).to(tl.int64)
    tile = tl.program_id(0)
    # Tiles are numbered column by column of the upper triangle: tile = down (down + 1) / 2 + a.
    down = ((tl.sqrt(8.0 * tile.to(tl.float32) + 1.0) - 1.0) * 0.5).to(tl.int32)
    down = tl.where(down * (down + 1) // 2 > tile, down - 1, down)
    down = tl.where((down + 1) * (down + 2) // 2 <= tile, down + 1, down)
    begin = (tile - down * (down + 1) // 2) * TILE
    H += entry * m * m
    b += entry * m
    A = begin + tl.arange(0, TILE)
    B = down * TILE + tl.arange(0, TILE)
    in_a, in_b = m > A, m > B
    largest = tl.full((TILE, TILE), -1e300, tl.float64)
    start, stop = tl.load(first + entry), tl.minimum(begin + TILE - 1, m)
    if stop > start:
        T0 = tl.load(need + entry)
        allowed = tl.load(noise)
        H_ab = tl.load(H + A[:, None] * m + B[None, :], in_a[:, None] & in_b[None, :], 0.0)
        H_aa = tl.load(H + A * m + A, in_a, 1.0)
        H_bb = tl.load(H + B * m + B, in_b, 1.0)
        b_a = tl.load(b + A, in_a, 0.0)
        b_b = tl.load(b + B, in_b, 0.0)
        for k in range(start, stop):
            pivot = 1.0 / tl.sqrt(tl.load(H + k * m + k))
            g = tl.load(b + k) * pivot
            x_a = tl.load(H + k * m + A, in_a, 0.0) * pivot
            x_b = tl.load(H + k * m + B, in_b, 0.0) * pivot
            T = T0 - g * g
            s_a, s_b = b_a - g * x_a, b_b - g * x_b
            D_a = H_aa - x_a * x_a
            # Rows up to k are no choice: their c is minus infinity, if D_b is not rounding's 0.
            D_b = tl.where(k < B, H_bb - x_b * x_b, 1.0)
            c = tl.where(in_a & (k < A), s_a * s_a - (T - allowed) * D_a, -1e300)
            h = H_ab - x_a[:, None] * x_b[None, :]
            test = h * (T * h - (2.0 * s_a)[:, None] * s_b[None, :])
            test += D_a[:, None] * (s_b * s_b)[None, :] + c[:, None] * D_b[None, :]
            largest = tl.maximum(largest, test)
        largest = tl.where((A[:, None] < B[None, :]) & in_b[None, :], largest, -1e300)
    tl.store(best + entry * tl.num_programs(0) + tile, tl.max(tl.max(largest, 1), 0))
