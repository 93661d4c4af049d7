"""Threads of the BLAS: many for the large products, one where the matrices are small.

Products of a few thousand numbers finish before a second thread has woken up; on a busy machine
waiting for it costs far more than the arithmetic.  So what works on small matrices asks for one
thread while it lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from os import cpu_count
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits

_lock = Lock()
_open: list[Any] = []  # the limit once for every context that is open, in whatever thread


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let matrix products take one thread while this context, or one like it, is open.

    The limit is the whole process's: of several contexts that overlap, the first to begin sets it
    and the last to end takes it back.
    """
    with _lock:
        _open.append(_open[0] if _open else _blas().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            limit = _open.pop()
            if not _open:
                limit.restore_original_limits()


@contextmanager
def limited_threads(n_jobs: int | None) -> Iterator[int]:
    """Limit the threads of matrix products to ``n_jobs``; yield how many an engine may use.

    -1 is one for each core; None leaves the products as they are set, and gives an engine one.
    """
    if n_jobs is None:
        yield 1
        return
    count = (cpu_count() or 1) if n_jobs == -1 else int(n_jobs)
    with threadpool_limits(limits=count):
        yield count


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once: the look-up costs more than a small fit."""
    return ThreadpoolController().select(user_api="blas")
