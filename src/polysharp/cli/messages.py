"""What commands say beside their results: one line each, on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

NOT_PROVED = "The model is not proved"  # the certificate that is printed says the same


def say(text: object) -> None:
    """Print a remark, on one line whatever it holds."""
    print(f"polysharp: {' '.join(str(text).split())}", file=sys.stderr)


@cache
def say_once(text: str) -> None:
    """Print a remark that a process makes once."""
    say(text)


def say_warning(message: Any, *_: Any, **__: Any) -> None:
    """Print a warning, in place of ``warnings.showwarning``."""
    say(f"warning: {message}")


@contextmanager
def warnings_as_remarks() -> Iterator[None]:
    """Print what the search warns of, such as degrees that it left out."""
    from sklearn.exceptions import ConvergenceWarning

    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, ConvergenceWarning):
            usual(message, category, *where, **more)
        elif not str(message).startswith(NOT_PROVED):
            say(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.showwarning = show
        yield
