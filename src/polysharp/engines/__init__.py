"""The search engines, all behind ``Engine.solve``, each loaded when first asked for.

An engine named ``"some-name"`` lives in the module ``some_name`` and bears that ``name``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.engines.base import Engine

AUTO = "tree"

ENGINES = (
    "auto",
    "tree",
    "cutting-planes",
    "cutting-planes-multitree",
    "cutting-planes-gurobi",
    "big-m",
    "enumeration",
    "local-search",
)


def make_engine(name: str) -> Engine:
    """Return the engine of that name with its default settings.

    Examples
    --------
    >>> make_engine("enumeration")
    Enumeration(max_supports=2000000)
    """
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    chosen = AUTO if name == "auto" else name
    home = import_module(f"polysharp.engines.{chosen.replace('-', '_')}")
    engine: Engine = next(
        cls for cls in vars(home).values() if getattr(cls, "name", None) == chosen
    )()
    return engine
