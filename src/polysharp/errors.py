"""The exceptions of the library, all of them kinds of ``ValueError`` or ``RuntimeError``."""

from __future__ import annotations


class InputError(ValueError):
    """The user's data or parameters break a rule; the message names parameter, rule and value."""


class InfeasibleError(InputError):
    """The budgets and requirements exclude every polynomial."""


class TooLargeError(InputError):
    """The problem is beyond what the chosen engine accepts."""


class MissingSolverError(ImportError):
    """An optional solver or library is asked for and not installed."""


class ClusterError(RuntimeError):
    """A cluster cannot do the work: it has no workers, or keeps losing them."""


class CertificateError(RuntimeError):
    """A bound contradicts an objective: a bug, reported instead of a wrong certificate."""


class DataError(RuntimeError):
    """A data set cannot be had, or is not what was published."""
