"""The one door through which tests reach inner modules.

    from support import Basis, Problem         # names that one file of src/polysharp defines
    IN = inner("IN", "problem")                # a name that several files define: which room
    monkeypatch.setattr(home("assemble"), ...) # the module that defines a name

Contracts are tested through public names (``polysharp`` and its modules ``cli``, ``datasets``,
``engines``, ``errors``, ``metrics``, ``plots``, ``pysindy``, ``report``, ``synthetic``).
Names that only a test of the inside needs come from here.  They are looked up where they are
defined, so that files can be split and renamed without touching a test.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "polysharp"
DEFINED = re.compile(
    r"^(?:class|(?:async )?def) (?P<one>\w+)|^(?P<several>\w+(?:, \w+)*)(?:: [^=\n]+)? = ", re.M
)


@cache
def _homes():
    """Return the modules that define each name at their top level."""
    root = Path(find_spec(PACKAGE).origin).parent
    homes = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for match in DEFINED.finditer(file.read_text(encoding="utf-8")):
            for name in match["one"], *(match["several"] or "").split(", "):
                if name:
                    homes.setdefault(name, set()).add(module)
    return homes


def home(name, room=None):
    """Return the module that defines a name; of several, the one in a room, or of that name."""
    found = sorted(_homes().get(name, ()))
    if room is not None:
        found = [module for module in found if room in module.split(".")]
    if len(found) != 1:
        where = ", ".join(found) or "nowhere"
        raise ImportError(f"{name} is not defined once in src/{PACKAGE}, but in: {where}")
    return import_module(found[0])


def inner(name, room):
    """Return what a room defines under a name that other rooms define too."""
    return getattr(home(name, room), name)


def __getattr__(name):
    if name not in _homes():
        raise AttributeError(f"src/{PACKAGE} does not define {name}")
    return getattr(home(name), name)
