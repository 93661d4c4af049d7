"""Placeholder while the tree engine is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Proof:
    """To be replaced by the tree engine's proof."""
