"""The exceptions of the library, all of them kinds of ``ValueError`` or ``RuntimeError``."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class InputError(ValueError):
    """Data or parameters break a rule; the message names parameter, rule and value."""


class InfeasibleError(InputError):
    """The budgets and requirements exclude every polynomial."""


class TooLargeError(InputError):
    """The problem is too large for the chosen engine."""


class MissingSolverError(ImportError):
    """An optional solver or library is needed and not installed."""


class ClusterError(RuntimeError):
    """A cluster cannot do the work: it has no workers, or keeps losing them."""


class CertificateError(RuntimeError):
    """A bound contradicts an objective: a bug, reported instead of a wrong certificate."""


class DataError(RuntimeError):
    """A data set is not available, or differs from the published one."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, its type if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def load_optional(module: str, what: str, extra: str) -> Any:
    """Import a module of an optional extra, or raise with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = error.name or module.partition(".")[0]
        raise MissingSolverError(
            f"{what} needs the package {package}, which is not installed; "
            f"run 'pip install polysharp[{extra}]'"
        ) from error
