"""Every parameter of a fit, once: its name, rule, default, text, and option on the command line.

The table is ``parameters.txt``.  The checks (``parameters``), the help of the command line and the
arguments it hands over, and the tests of docstrings and defaults read it.  A new parameter takes a
line there, a field of the estimator, and whatever uses it.

A line holds name, rule (``-`` where the value is checked when it is read), default and option; two
blanks stand before the text of the option, which may go on in indented lines.  Options are written
as in ``cli/help``, and listed there in groups, which begin with a name in brackets; those of the
first group have texts of their own in the help of each command.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from math import isfinite
from numbers import Integral, Real
from typing import Any, NamedTuple

from polysharp.engines import ENGINES

BUDGETS, TERM_RULES, SEARCH = "budgets", "rules", "search"
FIT = ("each command", BUDGETS, TERM_RULES, SEARCH)  # groups of SparsePolynomialRegressor
LASSO = "of the polynomial Lasso"


def _integer(least: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, Integral) and not isinstance(v, bool) and int(v) >= least


def _real(v: Any) -> bool:
    return isinstance(v, Real) and not isinstance(v, bool)


def _positive(v: Any) -> bool:
    try:
        return _real(v) and isfinite(v) and v > 0
    except OverflowError:  # an integer beyond all floats
        return False


def _positives(v: Any) -> bool:
    """Whether v is None, or a list or array of positive finite numbers, at least one."""
    if v is None:
        return True
    if isinstance(v, str) or not isinstance(v, Iterable):
        return False
    values = list(v.ravel() if hasattr(v, "ravel") else v)
    return len(values) > 0 and all(map(_positive, values))


def _is(v: Any, *words: str | None) -> bool:
    """Whether v is one of the words; arrays and the like are not, whatever they compare to."""
    return (v is None or isinstance(v, str)) and v in words


def _flag(v: Any) -> bool:
    return isinstance(v, bool) or type(v).__name__ == "bool_"  # of NumPy


def _folds(v: Any) -> bool:
    several = isinstance(v, Iterable) or hasattr(v, "split") or _integer(2)(v)
    return several and not isinstance(v, str)


def _engine(v: Any) -> bool:
    return _is(v, *ENGINES) or (hasattr(v, "solve") and not isinstance(v, type))


class ValueRule(NamedTuple):
    """Which values a parameter takes, as a test and in words."""

    holds: Callable[[Any], bool]
    words: str


_one = _integer(1)
_AUTO = "'auto' or"
_LEAST = "an integer of at least"
RULES = {
    name: ValueRule(*rule)
    for name, rule in {
        "COUNT": (_one, f"{_LEAST} 1"),
        "LIMIT": (lambda v: v is None or _one(v), f"None or {_LEAST} 1"),
        "SIZE": (lambda v: _is(v, "auto") or _one(v), f"{_AUTO} {_LEAST} 1"),
        "POINTS": (_integer(2), f"{_LEAST} 2"),
        "CANDIDATES": (lambda v: _is(v, "auto", None) or _one(v), f"'auto', None or {_LEAST} 1"),
        "JOBS": (lambda v: v is None or (_integer(-1)(v) and v != 0), f"None, -1 or {_LEAST} 1"),
        "VERBOSE": (lambda v: _flag(v) or _integer(0)(v), f"{_LEAST} 0"),
        "FLAG": (_flag, "True or False"),
        "CLAMP": (lambda v: v is None or _flag(v), "None, True or False"),
        "GAMMA": (lambda v: _is(v, "auto") or _positive(v), f"{_AUTO} a positive finite number"),
        "RIDGE": (lambda v: v is None or _positive(v), "None or a positive finite number"),
        "GAMMAS": (
            lambda v: v is None or _positives(v),
            "None or an array of positive finite numbers",
        ),
        "SECONDS": (lambda v: v is None or _positive(v), "None or a positive number of seconds"),
        "GAP": (lambda v: _real(v) and 0 <= v < 1, "a number of at least 0 and less than 1"),
        "FRACTION": (lambda v: _real(v) and 0 < v < 1, "a number between 0 and 1"),
        "SHARE": (lambda v: _real(v) and isfinite(v) and v >= 0, "a finite number of at least 0"),
        "HEREDITY": (lambda v: _is(v, None, "weak", "strong"), "None, 'weak' or 'strong'"),
        "ENGINE": (_engine, f"one of {', '.join(map(repr, ENGINES))}"),
        "DEVICE": (
            lambda v: v is None or isinstance(v, str),
            "None, 'cpu', 'cuda' or the name of another PyTorch device",
        ),
        "FOLDS": (_folds, f"{_LEAST} 2, a splitter or an iterable of (train, test) indices"),
    }.items()
}


@dataclass(frozen=True)
class Parameter:
    """One line of the table."""

    name: str
    rule: ValueRule | None
    default: Any
    option: str
    text: str


def _read(table: str) -> dict[str, list[Parameter]]:
    """Return the parameters of each group."""
    groups: dict[str, list[Parameter]] = {}
    for entry in re.split(r"\n(?! )", table.strip()):
        if entry.startswith("["):
            group = groups.setdefault(entry.strip("[]"), [])
            continue
        words = " ".join(line.strip() for line in entry.split("\n"))
        name, rule, default, *rest = words.split(maxsplit=3)
        option, _, text = (rest or [""])[0].partition("  ")
        group.append(Parameter(name, RULES.get(rule), literal_eval(default), option, text))
    return groups


GROUPS = _read(files("polysharp.estimators").joinpath("parameters.txt").read_text("utf-8"))


def parameters_of(*groups: str) -> dict[str, Parameter]:
    """Return the parameters of some groups by name; a later one counts."""
    return {own.name: own for group in groups for own in GROUPS[group]}


def rules_of(*groups: str) -> dict[str, ValueRule]:
    """Return the rules of some groups, or of all but the Lasso's."""
    chosen = groups or tuple(group for group in GROUPS if group != LASSO)
    return {n: own.rule for n, own in parameters_of(*chosen).items() if own.rule is not None}


def option_help(group: str) -> str:
    """Return the options of a group as lines of help."""
    return "".join(f"{own.option}  {own.text}\n" for own in GROUPS[group])


def option_names() -> dict[str, str]:
    """Return the attribute of the parsed options behind each parameter that has an option."""
    flags = {own.name: own.option.split()[0] for own in parameters_of(*FIT).values() if own.option}
    return {n: f.replace("[no-]", "").strip("-").replace("-", "_") for n, f in flags.items()}
