"""Kernels that wait for their first call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from numba import f8
from support import Compiler

kernel = Compiler(__file__, later=True)


@kernel(f8(f8))
def _twice(x):
    return 2.0 * x


@kernel(f8(f8), entry=True)
def _odd(x):
    return _twice(x) + 1.0


def test_kernels_that_wait_are_compiled_once_by_the_first_call_from_any_thread():
    assert not _twice.signatures
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(_odd, [1.0, 2.0, 3.0, 4.0])) == [3.0, 5.0, 7.0, 9.0]
    assert len(_twice.signatures) == 1


def test_what_is_ready_before_is_not_compiled_again():
    own = Compiler(__file__, later=True)
    dispatcher = own(f8(f8))(lambda x: x + 1.0)
    own.compile()
    own.compile()
    assert len(dispatcher.signatures) == 1
