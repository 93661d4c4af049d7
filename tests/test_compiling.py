"""Kernels that wait for their first call."""

from __future__ import annotations

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, sleep

from numba import f8
from support import Compiler, compiling, home, working_clock

PACKAGE = Path(home("Compiler").__file__).parents[1]

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


def is_kernel(node):
    """Whether a function is compiled."""
    calls = (d for d in getattr(node, "decorator_list", ()) if isinstance(d, ast.Call))
    return any(isinstance(d.func, ast.Name) and d.func.id == "kernel" for d in calls)


def test_no_kernel_assigns_slices():
    """Numba compiles a message about shapes with each, and how numbers become text: a second."""
    files = [file for file in PACKAGE.rglob("*.py") if "= Compiler(" in file.read_text()]
    files += PACKAGE.rglob("relaxation_*.py")
    kernels = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    kernels = [node for node in kernels if is_kernel(node)]
    assert len(kernels) > 30
    for function in kernels:
        for node in ast.walk(function):
            for target in getattr(node, "targets", ()):
                for part in ast.walk(target):
                    assert not isinstance(part, ast.Slice), (function.name, node.lineno)


def test_a_working_clock_stands_still_while_kernels_are_compiled():
    before, began = working_clock(), perf_counter()
    with compiling():
        sleep(0.2)
    assert perf_counter() - began >= 0.2
    assert working_clock() - before < 0.1
    sleep(0.05)
    assert working_clock() - before >= 0.05
