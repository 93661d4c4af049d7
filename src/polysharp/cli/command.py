"""A command: its options, read from the text of its help; its exit codes; its remarks.

``help/fit.txt`` holds usage, summary, options and examples of ``polysharp fit``; ``{table}`` stands
for the lines of ``help/table.txt``, which several commands share.  In it

    --degree -r R=3         largest degree

is an option with two names, one value called R and a default; two blanks or more stand before
what it does, and lines that begin with a blank go on with that.  What the value is called says
what it must be (``KINDS``).  Besides,

    --quiet -q              an option without a value is a flag
    --[no-]center           a flag that can be said either way, None where nothing is said
    --target -t NAME!       must be given
    --include-term TERM+    may be given several times
    --inputs -i A,B,...     so may this, and each time with several names
    --heredity weak|strong  one of these words
    TABLE, [MODEL]          arguments without a name; the latter may be left out
    the search:             the title of what follows
    * --output FILE         shown by --help too; where no option is marked so, all are
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from importlib.resources import files
from typing import Any

from polysharp.estimators.parameters import BUDGETS, SEARCH, TERM_RULES, option_help

OptionReader = Callable[[str], Any]

NOT_PROVED = "The model is not proved"  # the certificate that is printed says the same
NONE = object()  # what the user wrote as "none" or "all", where None means: not written


class ExitCode(IntEnum):
    """What a script learns from the end of a command; ``polysharp.cli`` says it in words."""

    DONE = 0
    BAD_INPUT = 2
    NOT_PROVED = 3
    REJECTED = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


def list_of(number: OptionReader) -> OptionReader:
    """Return a reader of one number, or of several with commas between them."""

    def read(text: str) -> Any:
        try:
            values = [number(part) for part in text.split(",")]
        except ValueError:
            kind = "a whole number" if number is int else "a number"
            raise argparse.ArgumentTypeError(
                f"must be {kind}, or several with commas between them, got {text!r}"
            ) from None
        return values if len(values) > 1 else values[0]

    return read


def word_or(number: OptionReader, **words: Any) -> OptionReader:
    """Return a reader of a number or of one of the words."""

    def read(text: str) -> Any:
        if text in words:
            return NONE if words[text] is None else words[text]
        try:
            return number(text)
        except (ValueError, argparse.ArgumentTypeError):
            known = ", ".join(map(repr, words))
            raise argparse.ArgumentTypeError(f"must be a number or {known}, got {text!r}") from None

    return read


def bounds(text: str) -> tuple[str, tuple[float | None, ...]]:
    """Read an interval, with the term or input it is for, "*" for all."""
    whose, _, pair = text.rpartition("=")
    try:
        low, high = (float(end) if end.strip() else None for end in pair.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be LOW,HIGH or TERM=LOW,HIGH, of which an end may be left out, got {text!r}"
        ) from None
    return whose.strip() or "*", (low, high)


KINDS: dict[str, OptionReader] = {
    "BOUNDS": bounds,
    "N": int,
    "L": int,
    "K": list_of(int),
    "R": list_of(int),
    "G": word_or(list_of(float), auto="auto"),
    "COUNT": word_or(int, auto="auto", all=None),
    "LIMIT": word_or(float, none=None),
    "NUMBER": float,
    "SHARE": float,
    "SECONDS": float,
}


def add_command(commands: Any, name: str, *, everything: bool = True) -> None:
    """Add a command with the options of its file of help; not ``everything`` is shown to all."""
    head, _, examples = help_text(name).partition("\nexamples:\n")
    usage, summary, *_ = head.split("\n")
    first_ones = not everything and "\n* " in head
    more = f"\n\npolysharp {name} --help-all lists all options." if first_ones else ""
    parser = commands.add_parser(
        name,
        help=summary,
        usage=f"{usage} [options]",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples.rstrip()}{more}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--help-all", action="help", help="show all options and exit")
    group = parser
    for entry in re.split(r"\n+(?! )", head.strip("\n"))[2:]:
        if entry.endswith(":"):
            group = parser.add_argument_group(entry.rstrip(":"))
        else:
            words = " ".join(entry.split("\n"))
            hidden = first_ones and words.startswith("-")
            _add_option(group, words.removeprefix("* "), hidden=hidden)


def help_text(name: str) -> str:
    """Return a file of help, with those it names in braces put in, or the options of a group."""
    if name in (TERM_RULES, SEARCH, BUDGETS):
        title = {TERM_RULES: "rules about terms:\n", SEARCH: "the search:\n", BUDGETS: ""}[name]
        return title + option_help(name)
    text = files("polysharp.cli").joinpath("help", f"{name}.txt").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda part: help_text(part[1]).rstrip("\n"), text)


def _add_option(group: Any, entry: str, *, hidden: bool) -> None:
    names, _, words = entry.partition("  ")
    flags = [word for word in names.split() if word.startswith("-")]
    value, _, default = "".join(names.split()[len(flags) :]).partition("=")
    called = value.rstrip("!+")
    how: dict[str, Any] = {"metavar": called, "type": KINDS.get(called), "default": default or None}
    how["required"] = value.endswith("!")
    if not flags:
        how = {"nargs": "?"} if called.startswith("[") else {}
        called = called.strip("[]")
        how |= {"dest": called.lower(), "metavar": called}
    elif "[no-]" in flags[0]:
        flags[0] = flags[0].replace("[no-]", "")
        how = {"action": argparse.BooleanOptionalAction, "default": None}
    elif not called:
        how = {"action": "store_true"}
    elif "|" in called:
        how = {"choices": called.split("|"), "default": default or None}
    elif value.endswith(("+", "...")):
        how["action"] = "append"
    said = argparse.SUPPRESS if hidden else " ".join(words.split()).replace("%", "%%")
    group.add_argument(*flags, **how, help=said)


def say(text: object) -> None:
    """Print a remark, on one line whatever it holds."""
    print(f"polysharp: {' '.join(str(text).split())}", file=sys.stderr)


@cache
def say_once(text: str) -> None:
    """Print a remark that a process makes once."""
    say(text)


@contextmanager
def warnings_as_remarks() -> Iterator[None]:
    """Print what the search warns of, such as degrees that it left out."""
    from sklearn.exceptions import ConvergenceWarning

    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, ConvergenceWarning):
            usual(message, category, *where, **more)
        elif not str(message).startswith(NOT_PROVED):
            say(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", ConvergenceWarning)
        warnings.showwarning = show
        yield
