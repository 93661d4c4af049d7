"""Where compiled kernels are cached: beside the code, in the user's cache, or in a folder of ours.

Numba refuses to compile with a cache where it finds no folder to write to, such as on a read-only
file system without a home.  There the kernels are cached in a folder of the temporary files that
belongs to this user alone, and without such a folder not at all: compiling them again takes some
ten seconds in every process, but works.

Numba looks at the file of a kernel to see whether what is cached is stale, but not at the files of
the kernels that it calls, and it stumbles over cached records whose names are no more.  Kernels
made by a ``Compiler`` are cached under a stamp of all their sources instead.

What a first fit compiles (25 inputs, degree 3, 20 terms, 300 rows) takes 7.7 s of a busy processor
that took 10.6 s while the passes of a relaxation over all monomials were compiled too, with a
record of eleven fields.  Less is compiled since kernels assign no slices (3.9 s: Numba compiles a
message about shapes, and how numbers become text), leaf enumeration is compiled when it is needed
(3.8 s), walks do not count compilation as time of the search (1.0 s), and no literal makes a second
type of an argument (0.5 s; ``i8(0)``).  Tried without gain: kernels that count no references,
loops of runtime length in place of unrolled ones, passes that only call a compiled bound (as much
less to compile as warm fits get slower).  LLVM at level 2 in place of 3 saves 9 %, but Numba has
one level for a process.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Lock
from time import perf_counter
from types import FunctionType
from typing import Any
from zlib import crc32

import numba

from polysharp.progress import announced


def can_cache() -> bool:
    """Whether kernels can be cached, if need be in the temporary folder."""
    if _numba_finds_a_folder():
        return True
    folder = _private_folder()
    if folder is None:
        return False
    numba.config.CACHE_DIR = str(folder)
    return _numba_finds_a_folder()


def _numba_finds_a_folder() -> bool:
    def probe() -> None:
        pass

    try:
        numba.njit(cache=True)(probe)
    except RuntimeError:
        return False
    return True


def _private_folder() -> Path | None:
    """Return a folder that nobody else can write to: what is cached there is run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"polysharp-kernels-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = not hasattr(os, "getuid") or found.st_uid == user
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return folder if own and private else None


CACHED = can_cache()


CONTRACTING = {"contract", "reassoc"}


class _Spent:
    """Seconds that this process has compiled so far."""

    seconds = 0.0


@contextmanager
def compiling() -> Iterator[None]:
    """Announce compilation, and keep its seconds apart from those of the search."""
    began = perf_counter()
    try:
        with announced("compiling (once)"):
            yield
    finally:
        _Spent.seconds += perf_counter() - began


def working_clock() -> float:
    """Return a time that stands still while kernels are compiled.

    A short search then comes as far in a new process as in one that has compiled before.
    """
    return perf_counter() - _Spent.seconds


class Compiler:
    """Compiles kernels from some source files, at once or, where not every fit needs them, later.

    ``later``: by ``compile``, or when Python calls the first of them.  Kernels that are not
    ``allocating`` count no references, which is less to compile.  Those that are ``contracting``
    may fuse and reorder sums and products, whatever their numbers are.
    """

    def __init__(
        self, *files: str, later: bool = False, allocating: bool = True, contracting: bool = False
    ) -> None:
        self._options: dict[str, Any] = {"_nrt": allocating}
        if contracting:
            self._options["fastmath"] = CONTRACTING
        self._later, self._waiting, self._lock = later, list[tuple[Any, Any]](), Lock()
        self.stamp = f"{crc32(b''.join(Path(file).read_bytes() for file in files)):08x}"

    def compile(self) -> None:
        """Compile what is waiting, or load it from the cache."""
        with self._lock, compiling():
            for dispatcher, signature in self._waiting:
                dispatcher.compile(signature)
                dispatcher.disable_compile()
            self._waiting.clear()

    def __call__(
        self,
        signature: Any = None,
        *,
        entry: bool = False,
        any_order: bool = False,
        contracting: bool = False,
    ) -> Callable[[Any], Any]:
        """Return a decorator; Python can call what is an ``entry``, kernels can call all.

        Without a signature a kernel is compiled for what it is called with, when it is.
        Sums in ``any_order`` can be vectorised; such kernels must not meet NaN.  Those that are
        ``contracting`` can be too, whatever their numbers are.
        """
        options = {"cache": CACHED, "nogil": True, "error_model": "numpy", **self._options}
        options["no_cfunc_wrapper"] = True  # nobody calls these from C
        if contracting:
            options["fastmath"] = CONTRACTING
        if any_order:
            options["fastmath"] = {"reassoc", "contract", "arcp", "nsz", "nnan", "ninf"}
        if not entry:
            options["no_cpython_wrapper"] = True

        def compiled(function: FunctionType) -> Any:
            stamped = FunctionType(function.__code__, function.__globals__, function.__name__)
            stamped.__qualname__ = f"{function.__name__}_{self.stamp}"
            stamped.__doc__, stamped.__module__ = function.__doc__, function.__module__
            dispatcher = numba.njit(**options)(stamped)
            if signature is None:
                return dispatcher
            self._waiting.append((dispatcher, signature))
            if self._later:
                return self._compiled_first(dispatcher) if entry else dispatcher
            self.compile()
            return dispatcher

        return compiled

    def _compiled_first(self, dispatcher: Any) -> Callable[..., Any]:
        @wraps(dispatcher.py_func)
        def call(*arguments: Any) -> Any:
            if self._waiting:
                self.compile()
            return dispatcher(*arguments)

        return call
