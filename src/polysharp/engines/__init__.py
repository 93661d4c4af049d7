"""The search engines, all behind ``Engine.solve``, each loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from polysharp.errors import InputError, MissingSolverError

if TYPE_CHECKING:
    from polysharp.engines.base import Engine

AUTO = "cutting-planes"

_HOMES = {
    "tree": ("tree", "Tree"),
    "cutting-planes": ("cutting_planes", "CuttingPlanes"),
    "cutting-planes-multitree": ("cutting_planes_multitree", "MultiTreeCuttingPlanes"),
    "cutting-planes-gurobi": ("cutting_planes_gurobi", "GurobiCuttingPlanes"),
    "big-m": ("big_m", "BigM"),
    "enumeration": ("enumeration", "Enumeration"),
    "local-search": ("local_search", "LocalSearch"),
}

ENGINES = ("auto", *_HOMES)


def make_engine(name: str) -> Engine:
    """Return the engine of that name with its default settings.

    Examples
    --------
    >>> make_engine("enumeration")
    Enumeration(max_supports=2000000)
    """
    if name not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {name!r}")
    module, cls = _HOMES[AUTO if name == "auto" else name]
    try:
        home = import_module(f"polysharp.engines.{module}")
    except ModuleNotFoundError as error:
        missing = error.name or "of its solver"
        if missing.startswith("polysharp"):
            raise
        raise MissingSolverError(
            f"engine={name!r} needs the package {missing}, which is not installed; "
            f"run 'pip install {missing}'"
        ) from error
    engine: Engine = getattr(home, cls)()
    return engine
