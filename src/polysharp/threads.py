"""Threads of the BLAS: many for the large products, one where the matrices are small.

Products of a few thousand numbers finish before a second thread has woken up; on a busy machine
waiting for it costs far more than the arithmetic.  So what works on small matrices asks for one
thread while it lasts.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which matrix products take one thread."""
    limited: AbstractContextManager[Any] = _blas().limit(limits=1)
    return limited


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once: the look-up costs more than a small fit."""
    return ThreadpoolController().select(user_api="blas")
