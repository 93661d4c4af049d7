"""The limit on BLAS threads: one for the whole process, whoever asks for it."""

from __future__ import annotations

import numpy as np  # loads the BLAS
import pytest
from support import one_blas_thread
from threadpoolctl import threadpool_info, threadpool_limits


def blas_threads():
    np.eye(2) @ np.eye(2)
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_contexts_that_overlap_leave_the_limit_as_it_was():
    with threadpool_limits(limits=2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS has one thread only")
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert blas_threads() == {1}
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}
