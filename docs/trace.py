"""Trace one fit from room to room, and write the page "One fit, traced".

    python docs/trace.py          (or make refresh)

The script fits the rides of the front page under ``sys.setprofile`` and keeps the *hops*.  A hop is
a call from one room to another, where

- a room is a package under ``polysharp``; the modules of the root (time, progress, threads, errors)
  are tools of every room, and no rooms;
- the call is to a function or to a class method that makes a record.  A method or property of a
  record that the caller already has is a question to that record, and not a hop; nor is a generated
  constructor, which only packs values;
- a call back into a room that is waiting further up is not a hop;
- each function counts once for each room that calls it.

The fit runs once before the trace, so that kernels are compiled.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import pandas as pd

import polysharp
from polysharp.datasets import cycling

PACKAGE = Path(polysharp.__file__).parent
PAGE = Path(__file__).parent / "trace.md"
MOST = 18  # hops that a reader should have to follow


class Hop(NamedTuple):
    """A call from a room to another one."""

    caller: str  # its room
    room: str
    module: str
    name: str  # of what is called
    purpose: str  # first line of its docstring
    returned: str  # name of the class of what it returns, "" for plain values


def place(code: CodeType) -> tuple[str, str]:
    """Return room and module of a code object, empty outside the package."""
    try:
        parts = Path(code.co_filename).relative_to(PACKAGE).parts
    except ValueError:
        return "", ""
    return (parts[0], "/".join(parts)) if len(parts) > 1 else ("", "")


def is_question(frame: FrameType) -> bool:
    """Whether a call is to a method of a record, which the caller has, or completes one."""
    code = frame.f_code
    return bool(code.co_argcount) and code.co_varnames[0] == "self" and code.co_name != "__init__"


def rooms_above(frame: FrameType) -> list[str]:
    """Return the rooms of the calls that wait for this one, the nearest first."""
    found, outer = [], frame.f_back
    while outer is not None:
        room, _ = place(outer.f_code)
        if room:
            found.append(room)
        outer = outer.f_back
    return found


def hops(run: Callable[[], Any]) -> list[Hop]:
    """Return the hops of a run, in the order of their calls."""
    found: dict[tuple[str, str, str], Hop] = {}
    open_calls: dict[int, tuple[str, str, str]] = {}

    def watch(frame: FrameType, event: str, result: Any) -> None:
        if event == "call":
            room, module = place(frame.f_code)
            above = rooms_above(frame) if room else []
            named = not frame.f_code.co_name.startswith("<")
            if not above or room in above or not named or is_question(frame):
                return
            key = above[0], module, frame.f_code.co_qualname
            if key not in found:
                found[key] = Hop(above[0], room, module, *described(frame), "")
                open_calls[id(frame)] = key
        elif event == "return" and id(frame) in open_calls:
            key = open_calls.pop(id(frame))
            kind = type(result)
            if kind.__module__.startswith("polysharp."):
                found[key] = found[key]._replace(returned=kind.__name__)

    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    return list(found.values())


def described(frame: FrameType) -> tuple[str, str]:
    """Return the name of a called function and the first sentence of its docstring."""
    code = frame.f_code
    name = code.co_qualname.removesuffix(".__init__")
    owner: Any = sys.modules[frame.f_globals["__name__"]]
    for part in name.split("."):
        owner = getattr(owner, part, None)
    text = inspect.getdoc(owner) or ""
    return name, " ".join(text.split("\n\n")[0].split()).removesuffix(".").replace("``", "`")


def fit() -> Any:
    """Fit the rides as the front page does."""
    rides = cycling()
    X, y = pd.DataFrame(rides.X, columns=rides.input_names), pd.Series(rides.y, name="power")
    settings = {"degree": 3, "max_terms": 5, "max_inputs": 4, "gamma": 1.0}
    return polysharp.SparsePolynomialRegressor(**settings).fit(X, y)


def page() -> str:
    """Return the page, with the hops of a fit that has run before."""
    fit()
    found = hops(fit)
    lines = [
        f"| {number} | `{hop.caller}` | `{hop.room}` | `{hop.module}`: `{hop.name}` | {hop.purpose}"
        f"{f' (`{hop.returned}`)' if hop.returned else ''} |"
        for number, hop in enumerate(found, start=1)
    ]
    _, _, rule = (__doc__ or "").partition("A hop is\n")
    rule = f"A hop is {rule}".replace("``", "`")
    return "\n".join(
        [
            "# One fit, traced",
            "",
            "This page follows one `fit` of the rides from room to room, for readers of the code. "
            f"A reader follows {len(found)} hops from the table to the formula. "
            "`docs/trace.py` writes the page from a real run.",
            "",
            rule.strip(),
            "",
            "| | from | to | call | what it does (and returns) |",
            "|---|---|---|---|---|",
            *lines,
            "",
            "The rooms are described on the page [Architecture](architecture.md).",
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
