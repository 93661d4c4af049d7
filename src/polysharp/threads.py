"""Threads of the BLAS: many for large products, one for small matrices.

A product of a few thousand numbers is done before a second thread has started, and on a busy
machine waiting for that thread costs far more than the arithmetic.  Code for small matrices
therefore limits the BLAS to one thread while it runs.
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
_open: list[Any] = []  # the limit, once for each open context of any thread


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit matrix products to one thread while at least one such context is open.

    The limit holds for the whole process: the first of several overlapping contexts sets it, and
    the last one lifts it.
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
    """Limit the threads of matrix products to ``n_jobs``; yield the number for an engine.

    -1 means one for each core.  None changes no limit and yields 1.
    """
    if n_jobs is None:
        yield 1
        return
    count = (cpu_count() or 1) if n_jobs == -1 else int(n_jobs)
    with threadpool_limits(limits=count):
        yield count


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once: looking them up costs more than a small fit."""
    return ThreadpoolController().select(user_api="blas")
