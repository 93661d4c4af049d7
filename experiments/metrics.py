"""Metrics: what a row says about the monomials found, beside the paper's A% and F%."""

from __future__ import annotations

from typing import Any

from experiments.data import Planted
from experiments.methods import Found
from polysharp.metrics import accuracy, false_alarm

MEASURES = ("A", "F", "terms", "seconds", "gamma", "objective", "gap")


def measure(data: Planted, found: Found) -> dict[str, Any]:
    """Return the columns ``MEASURES`` and the status of one run."""
    return {
        "A": accuracy(found.monomials, data.law),
        "F": false_alarm(found.monomials, data.law),
        "terms": len(found.monomials),
        "seconds": found.seconds,
        "gamma": found.gamma,
        "objective": found.objective,
        "gap": found.gap,
        "status": found.status,
    }
