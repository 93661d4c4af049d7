"""Every parameter of a fit, once: its name, rule, default, text, and option on the command line.

The table is ``parameters.txt``.  The checks, the help of the command line and the arguments that it
hands over, and the tests of docstrings and defaults read it.  A new parameter takes a line there, a
field of the estimator, and whatever uses it.

A line holds name, rule (``-`` if the value is checked when it is read), default and option; two
blanks stand before the text of the option, which may go on in indented lines.  Options are written
as in ``cli/help``, and listed there in groups, which begin with a name in brackets; those of the
first group have texts of their own in the help of each command.

Every refusal is one sentence with the parameter, the rule and the value received.  Budgets
larger than what exists (k > p, l > f, p' > p) are no error: "at most" stays true.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import inf, isfinite, log10
from numbers import Integral, Real
from typing import Any, NamedTuple

from polysharp.engines import ENGINES
from polysharp.errors import InputError

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


def _or(word: str | None, holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: _is(v, word) or holds(v)


class ValueRule(NamedTuple):
    """Which values a parameter takes, as a test and in words."""

    holds: Callable[[Any], bool]
    words: str


_one = _integer(1)
_LEAST = "an integer of at least"
KINDS = {
    "COUNT": ValueRule(_one, f"{_LEAST} 1"),
    "LIMIT": ValueRule(_or(None, _one), f"None or {_LEAST} 1"),
    "SIZE": ValueRule(_or("auto", _one), f"'auto' or {_LEAST} 1"),
    "POINTS": ValueRule(_integer(2), f"{_LEAST} 2"),
    "CANDIDATES": ValueRule(_or("auto", _or(None, _one)), f"'auto', None or {_LEAST} 1"),
    "JOBS": ValueRule(_or(None, lambda v: _integer(-1)(v) and v != 0), f"None, -1 or {_LEAST} 1"),
    "VERBOSE": ValueRule(lambda v: _flag(v) or _integer(0)(v), f"{_LEAST} 0"),
    "FLAG": ValueRule(_flag, "True or False"),
    "CLAMP": ValueRule(_or(None, _flag), "None, True or False"),
    "GAMMA": ValueRule(_or("auto", _positive), "'auto' or a positive finite number"),
    "RIDGE": ValueRule(_or(None, _positive), "None or a positive finite number"),
    "GAMMAS": ValueRule(_or(None, _positives), "None or an array of positive finite numbers"),
    "SECONDS": ValueRule(_or(None, _positive), "None or a positive number of seconds"),
    "GAP": ValueRule(lambda v: _real(v) and 0 <= v < 1, "a number of at least 0 and less than 1"),
    "FRACTION": ValueRule(lambda v: _real(v) and 0 < v < 1, "a number between 0 and 1"),
    "SHARE": ValueRule(
        lambda v: _real(v) and isfinite(v) and v >= 0, "a finite number of at least 0"
    ),
    "HEREDITY": ValueRule(lambda v: _is(v, None, "weak", "strong"), "None, 'weak' or 'strong'"),
    "ENGINE": ValueRule(_engine, f"one of {', '.join(map(repr, ENGINES))}"),
    "DEVICE": ValueRule(
        lambda v: v is None or isinstance(v, str),
        "None, 'cpu', 'cuda' or the name of another PyTorch device",
    ),
    "FOLDS": ValueRule(_folds, f"{_LEAST} 2, a splitter or an iterable of (train, test) indices"),
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
        group.append(Parameter(name, KINDS.get(rule), literal_eval(default), option, text))
    return groups


GROUPS = _read(files("polysharp.estimators").joinpath("parameters.txt").read_text("utf-8"))


def parameters_of(*groups: str) -> dict[str, Parameter]:
    """Return the parameters of some groups by name; a later one counts."""
    return {own.name: own for group in groups for own in GROUPS[group]}


def _rules_of(*groups: str) -> dict[str, ValueRule]:
    return {n: own.rule for n, own in parameters_of(*groups).items() if own.rule is not None}


RULES = _rules_of(*(group for group in GROUPS if group != LASSO))
LASSO_RULES = RULES | _rules_of(LASSO)


def option_help(group: str) -> str:
    """Return the options of a group as lines of help."""
    return "".join(f"{own.option}  {own.text}\n" for own in GROUPS[group])


def option_names() -> dict[str, str]:
    """Return the attribute of the parsed options behind each parameter that has an option."""
    flags = {own.name: own.option.split()[0] for own in parameters_of(*FIT).values() if own.option}
    return {n: f.replace("[no-]", "").strip("-").replace("-", "_") for n, f in flags.items()}


def check_parameters(parameters: dict[str, Any], rules: dict[str, ValueRule] = RULES) -> None:
    """Raise InputError for the first parameter that breaks its rule."""
    for name, rule in rules.items():
        if name in parameters and not rule.holds(parameters[name]):
            raise InputError(f"{name} must be {rule.words}, got {_shown(parameters[name])}")


def _shown(value: Any) -> str:
    """Write a value for a message; integers of very many digits are not written out."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of about {int(value.bit_length() * log10(2)) + 1} digits"
    return repr(value)


def several(given: Any) -> tuple[Any, ...]:
    """Return one value or several as a tuple."""
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    if not listed and not getattr(given, "ndim", 0):
        return (given,)
    return tuple(given)


def check_several(name: str, given: Any, *, auto: bool = False) -> None:
    """Refuse what an estimator would not take as its parameter ``name``, value by value.

    With ``auto`` the word "auto" is taken, too.
    """
    rule, values = RULES[name], several(given)
    if auto and values == ("auto",):
        return
    if not values:
        raise InputError(f"{name} must have at least one value, got {given!r}")
    for value in values:
        if not rule.holds(value):
            raise InputError(
                f"{name} must be {rule.words}, or a sequence of such, got {_shown(value)}"
            )
        if isinstance(value, str) and len(values) > 1:
            raise InputError(f"{name} must not mix {value!r} with numbers, got {given!r}")


def sizes(max_terms: Any) -> tuple[int, ...]:
    """Return the numbers of terms to compare: all up to a number, or those of a sequence."""
    if isinstance(max_terms, Integral):
        return tuple(range(1, int(max_terms) + 1))
    return tuple(sorted({int(size) for size in max_terms}))


def input_limits(max_inputs: Any) -> tuple[int | None, ...]:
    """Return the limits on the number of inputs to compare, the widest first."""
    limits = {None if k is None else int(k) for k in several(max_inputs)}
    return tuple(sorted(limits, key=lambda k: -inf if k is None else -k))


def check_seed(random_state: Any) -> int:
    """Draw a seed from what scikit-learn accepts as ``random_state``, or from a Generator."""
    import numpy as np  # not above: the help of the command line reads this file, and is quick
    from sklearn.utils import check_random_state

    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return int(check_random_state(random_state).randint(2**31 - 1))
