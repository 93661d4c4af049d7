"""The search engines, all behind ``Engine.solve``, each loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.engines.base import Engine

HOMES = {  # the module in which the class of each engine bears its name
    "tree": "tree",
    "cutting-planes": "cutting_planes",
    "cutting-planes-multitree": "cutting_planes",
    "cutting-planes-gurobi": "cutting_planes",
    "big-m": "big_m",
    "enumeration": "enumeration",
    "local-search": "local_search",
}
AUTO = "tree"
ENGINES = ("auto", *HOMES)


def engine_class(name: str) -> type[Engine]:
    """Return the class of an engine, whose traits are class variables.

    Examples
    --------
    >>> engine_class("big-m").packages
    ('pyscipopt',)
    """
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    name = AUTO if name == "auto" else name
    home = import_module(f"polysharp.engines.{HOMES[name]}")
    found: type[Engine] = next(
        cls for cls in vars(home).values() if getattr(cls, "name", None) == name
    )
    return found


def make_engine(name: str) -> Engine:
    """Return the engine of that name with its default settings.

    Examples
    --------
    >>> make_engine("enumeration")
    Enumeration(max_supports=2000000)
    """
    return engine_class(name)()
