"""Warnings of the library as remarks of a command, one line each on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

NOT_PROVED = "The model is not proved"  # the certificate that is printed says the same


@contextmanager
def warnings_as_remarks() -> Iterator[None]:
    """Print what the search warns of, such as degrees that it left out."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        try:
            yield
        finally:
            raised = list(caught)
    for warning in raised:
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif not str(warning.message).startswith(NOT_PROVED):
            print(f"polysharp: {warning.message}", file=sys.stderr)
