"""Every parameter of a fit, once: its name, rule, default, text, and option on the command line.

The checks (``parameters``), the help of the command line and the arguments it hands over, and the
tests of docstrings and defaults read this table.  A new parameter takes a line here, a field of the
estimator, and whatever uses it.

An option is written as in ``cli/help``: names, what its value is called, ``+`` where it may be
repeated.  Options without a group have texts of their own in the help of each command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any

from polysharp.engines import ENGINES

TERM_RULES, SEARCH, BUDGETS = "rules", "search", "budgets"


@dataclass(frozen=True)
class Rule:
    """Which values a parameter takes, as a test and in words."""

    holds: Callable[[Any], bool]
    words: str


@dataclass(frozen=True)
class Parameter:
    """One parameter of ``SparsePolynomialRegressor``, ``PolynomialLasso`` or a function."""

    name: str
    rule: Rule | None = None  # None where it is checked when it is read
    default: Any = None
    option: str = ""
    text: str = ""  # of the option
    group: str = ""  # of options in the help


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
    """Whether v is a list or array of positive finite numbers, at least one."""
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


_one = _integer(1)
COUNT = Rule(_one, "an integer of at least 1")
LIMIT = Rule(lambda v: v is None or _one(v), "None or an integer of at least 1")
FLAG = Rule(_flag, "True or False")
GAMMA = Rule(lambda v: _is(v, "auto") or _positive(v), "'auto' or a positive finite number")
CANDIDATES = Rule(
    lambda v: _is(v, "auto", None) or _one(v), "'auto', None or an integer of at least 1"
)
DEVICE = Rule(
    lambda v: v is None or isinstance(v, str),
    "None, 'cpu', 'cuda' or the name of another PyTorch device",
)
ENGINE = Rule(
    lambda v: _is(v, *ENGINES) or (hasattr(v, "solve") and not isinstance(v, type)),
    f"one of {', '.join(map(repr, ENGINES))}",
)
SECONDS = Rule(lambda v: v is None or _positive(v), "None or a positive number of seconds")
GAP = Rule(lambda v: _real(v) and 0 <= v < 1, "a number of at least 0 and less than 1")
SHARE = Rule(lambda v: _real(v) and isfinite(v) and v >= 0, "a finite number of at least 0")
JOBS = Rule(
    lambda v: v is None or (_integer(-1)(v) and v != 0), "None, -1 or an integer of at least 1"
)
VERBOSE = Rule(lambda v: _flag(v) or _integer(0)(v), "an integer of at least 0")
HEREDITY = Rule(lambda v: _is(v, None, "weak", "strong"), "None, 'weak' or 'strong'")
SIZE = Rule(lambda v: _is(v, "auto") or _one(v), "'auto' or an integer of at least 1")
GAMMAS = Rule(lambda v: v is None or _positives(v), "None or an array of positive finite numbers")
FOLDS = Rule(_folds, "an integer of at least 2, a splitter or an iterable of (train, test) indices")

FIT = (
    Parameter("degree", COUNT, 3, "--degree"),
    Parameter("max_terms", COUNT, 10, "--max-terms"),
    Parameter(
        "max_inputs",
        LIMIT,
        None,
        "--max-inputs -k K",
        "maximum number of different inputs in the formula",
        BUDGETS,
    ),
    Parameter("gamma", GAMMA, "auto", "--gamma"),
    Parameter(
        "n_candidates",
        CANDIDATES,
        "auto",
        "--candidates COUNT",
        "inputs kept by a first ranking: a number, 'auto' (default) or 'all'",
        SEARCH,
    ),
    Parameter("fit_intercept", FLAG, True, "--no-intercept", "fit no free intercept", SEARCH),
    Parameter("scale", FLAG, True, "--no-scale", "take inputs in their own units", SEARCH),
    Parameter("center", FLAG, False, "--[no-]center", "fit in coded variables (x - mean)", BUDGETS),
    Parameter("device", DEVICE, None, "--device NAME", "PyTorch device, such as cuda", SEARCH),
    Parameter(
        "engine", ENGINE, "auto", "--engine NAME", "search method, listed by polysharp info", SEARCH
    ),
    Parameter(
        "time_limit",
        SECONDS,
        60.0,
        "--time-limit LIMIT",
        "seconds for the search, or 'none' (60)",
        SEARCH,
    ),
    Parameter(
        "gap_tol",
        GAP,
        1e-4,
        "--gap-tol SHARE",
        "relative gap that counts as proved (0.0001)",
        SEARCH,
    ),
    Parameter(
        "n_jobs",
        JOBS,
        None,
        "--jobs -j N",
        "cores to use, -1 for all (default: all to compare budgets, one for the proof)",
        SEARCH,
    ),
    Parameter("verbose", VERBOSE, 0, "--quiet -q", "show no progress", SEARCH),
    Parameter("random_state", None, None, "--seed N=0", "random seed (0)", SEARCH),
    Parameter(
        "max_interaction",
        LIMIT,
        None,
        "--max-interaction N",
        "maximum number of different inputs in one term",
        TERM_RULES,
    ),
    Parameter(
        "interaction_degree",
        LIMIT,
        None,
        "--interaction-degree N",
        "largest degree of a term with several inputs",
        TERM_RULES,
    ),
    Parameter(
        "heredity",
        HEREDITY,
        None,
        "--heredity weak|strong",
        "a term needs one (weak) or all (strong) of its parents in the formula",
        TERM_RULES,
    ),
    Parameter(
        "include_terms",
        None,
        None,
        "--include-term TERM+",
        "a product such as 'x0^2 x3' that must be in the formula",
        TERM_RULES,
    ),
    Parameter(
        "exclude_terms",
        None,
        None,
        "--exclude-term TERM+",
        "a product such as 'x0^2 x3' that must not be in the formula",
        TERM_RULES,
    ),
    Parameter(
        "include_inputs",
        None,
        None,
        "--include-input NAME+",
        "an input that must be in the formula",
        TERM_RULES,
    ),
    Parameter("exclude_inputs"),
    Parameter(
        "coefficient_bounds",
        None,
        None,
        "--coefficient-bounds BOUNDS+",
        "interval of coefficients: LOW,HIGH for all terms, NAME=LOW,HIGH for those with an input, "
        "TERM=LOW,HIGH for one term; an end may be left out; write --coefficient-bounds=-1,1",
        TERM_RULES,
    ),
    Parameter("positive", FLAG, False, "--positive", "no coefficient may be negative", TERM_RULES),
    Parameter("clamp", FLAG, False),
    Parameter(
        "functions",
        None,
        None,
        "--functions NAMES+",
        "functions that may be factors too: inverse, square-root, log, exp, sin, cos, with commas; "
        "of all inputs, or of one: 'speed=inverse,log'",
        TERM_RULES,
    ),
    Parameter("units"),
    Parameter("constants"),
)
FUNCTIONS = (  # parameters of ``rivals``, ``stability`` and the search over budgets
    Parameter("refit", FLAG, True),
    Parameter("within", SHARE),
    Parameter("max_count", COUNT),
    Parameter("n_resamples", COUNT),
)
LASSO = (  # those in which the polynomial Lasso differs, and its own
    Parameter("max_terms", SIZE, "auto"),
    Parameter("gammas", GAMMAS),
    Parameter("cv", FOLDS, 5),
    Parameter("standardize", FLAG, True),
    Parameter("n_alphas", Rule(_integer(2), "an integer of at least 2"), 200),
    Parameter("eps", Rule(lambda v: _real(v) and 0 < v < 1, "a number between 0 and 1"), 1e-4),
)


def rules_of(*parameters: Parameter) -> dict[str, Rule]:
    """Return the rules by the names of the parameters; a later one counts."""
    return {own.name: own.rule for own in parameters if own.rule is not None}


def option_help(group: str) -> str:
    """Return the options of a group as lines of help."""
    chosen = [own for own in FIT if own.group == group]
    return "".join(f"{own.option}  {own.text}\n" for own in chosen)


def option_names() -> dict[str, str]:
    """Return the attribute of the parsed options behind each parameter that has an option."""
    flags = {own.name: own.option.split()[0] for own in FIT if own.option}
    return {n: f.replace("[no-]", "").strip("-").replace("-", "_") for n, f in flags.items()}
