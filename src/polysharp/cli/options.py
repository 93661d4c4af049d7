"""Options that several commands share: the table, its columns, the settings of the search."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from polysharp.cli.delimited import Format
from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.cli.columns import Sample

Parser = argparse.ArgumentParser


def add_command(
    commands: Any, name: str, run: Any, usage: str, summary: str, examples: str
) -> Parser:
    """Add a command with its help and its examples."""
    parser: Parser = commands.add_parser(
        name,
        help=summary,
        usage=f"polysharp {name} {usage}".rstrip() + " [options]",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_table(parser: Parser) -> None:
    """Add the options about the file."""
    group = parser.add_argument_group("the table")
    group.add_argument(
        "table",
        metavar="TABLE",
        help="CSV or other text (.gz too), Parquet, Feather or Excel; - is CSV from a pipe",
    )
    group.add_argument(
        "--delimiter", metavar="CHAR", help="of text; 'tab', 'whitespace'; found out if not given"
    )
    group.add_argument("--decimal", metavar="CHAR", default=".", help="decimal mark of text (.)")
    group.add_argument("--encoding", metavar="NAME", default="utf-8-sig", help="of text (UTF-8)")
    group.add_argument("--sheet", metavar="NAME", help="of Excel; the first if not given")


def add_columns(parser: Parser) -> None:
    """Add the options about columns."""
    group = parser.add_argument_group("columns")
    group.add_argument("--target", "-t", metavar="NAME", required=True, help="column to explain")
    group.add_argument(
        "--inputs",
        "-i",
        metavar="A,B,...",
        action="append",
        help="columns to explain it by; all others if not given",
    )
    group.add_argument(
        "--exclude", "-x", metavar="A,B,...", action="append", help="columns that are no inputs"
    )
    group.add_argument("--weights", metavar="NAME", help="column with weights of the rows")
    group.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with missing values"
    )


def add_search(parser: Parser) -> None:
    """Add the options of the search; what is not given keeps the library's default."""
    group = parser.add_argument_group("the search")
    group.add_argument(
        "--candidates",
        metavar="N",
        type=_word_or(int, auto="auto", all=None),
        help="inputs kept by the triage: a number, 'auto' or 'all'",
    )
    group.add_argument("--no-intercept", action="store_true", help="no free intercept")
    group.add_argument("--no-scale", action="store_true", help="take inputs in their own units")
    group.add_argument("--engine", metavar="NAME", help="how to search, see polysharp info")
    group.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=_word_or(float, none=None),
        help="for the search (60), or 'none'",
    )
    group.add_argument(
        "--gap-tol", metavar="SHARE", type=float, help="gap that counts as proved (0.0001)"
    )
    group.add_argument(
        "--jobs",
        "-j",
        metavar="N",
        type=int,
        help="cores to use, -1 for all; default: all to compare budgets, one for the proof",
    )
    group.add_argument("--device", metavar="NAME", help="PyTorch device, such as cuda")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of random choices (0)")
    group.add_argument("--quiet", "-q", action="store_true", help="show no progress")


def every_core(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return a context in which independent jobs take all cores, unless --jobs says how many."""
    if getattr(options, "jobs", None) is not None:
        return nullcontext()
    from joblib import parallel_config

    cores: AbstractContextManager[Any] = parallel_config("threading", n_jobs=-1)
    return cores


def add_rules(parser: Parser) -> None:
    """Add the options about which terms may stand in the formula."""
    group = parser.add_argument_group("rules about terms")
    group.add_argument("--max-interaction", metavar="N", type=int, help="inputs in one term")
    group.add_argument(
        "--interaction-degree", metavar="N", type=int, help="degree of terms of several inputs"
    )
    group.add_argument(
        "--heredity", choices=["weak", "strong"], help="a term needs its parents in the formula"
    )
    for verb, rule in (("include", "must"), ("exclude", "must not")):
        group.add_argument(
            f"--{verb}-term",
            metavar="TERM",
            action="append",
            help=f"a product such as 'x0^2 x3' that {rule} be in the formula",
        )
    group.add_argument(
        "--include-input", metavar="NAME", action="append", help="an input that must be in it"
    )


RENAMED = {
    "candidates": "n_candidates",
    "jobs": "n_jobs",
    "seed": "random_state",
    "include_term": "include_terms",
    "exclude_term": "exclude_terms",
    "include_input": "include_inputs",
}
PLAIN = (
    "degree",
    "max_terms",
    "max_inputs",
    "gamma",
    "engine",
    "time_limit",
    "gap_tol",
    "device",
    "max_interaction",
    "interaction_degree",
    "heredity",
)
NONE = object()  # what the user wrote as "none" or "all", where None means: not written


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the library that the user gave."""
    named = {**dict.fromkeys(PLAIN), **RENAMED}
    given = {
        parameter or option: getattr(options, option, None) for option, parameter in named.items()
    }
    found = {name: value for name, value in given.items() if value is not None}
    found = {name: None if value is NONE else value for name, value in found.items()}
    if getattr(options, "no_intercept", False):
        found["fit_intercept"] = False
    if getattr(options, "no_scale", False):
        found["scale"] = False
    if getattr(options, "center", None) is not None:
        found["center"] = options.center
    found["verbose"] = 0 if options.quiet else 1
    return found


def read_sample(options: argparse.Namespace) -> Sample:
    """Read the table and pick its columns."""
    from polysharp.cli.columns import choose, split_names
    from polysharp.cli.tables import read_table

    frame = read_table(options.table, table_format(options))
    return choose(
        frame,
        options.table,
        options.target,
        inputs=split_names(options.inputs),
        exclude=split_names(options.exclude) or (),
        weights=options.weights,
        drop_missing=options.drop_missing,
    )


def table_format(options: argparse.Namespace) -> Format:
    """Return what the user says about the file."""
    if len(options.decimal) != 1:
        raise InputError(f"--decimal must be one character, got {options.decimal!r}")
    return Format(options.delimiter, options.decimal, options.encoding, options.sheet)


def add_budgets(parser: Parser, *, degree: str, terms: str, gamma: str) -> None:
    """Add degree, budgets, ridge and coding; the words say what holds where none is given."""
    group = parser.add_argument_group("budgets")
    group.add_argument(
        "--degree", "-r", metavar="R", type=_list_of(int), help=f"largest degree{degree}"
    )
    group.add_argument("--max-terms", "-l", metavar="L", type=int, help=terms)
    group.add_argument(
        "--max-inputs",
        "-k",
        metavar="K",
        type=_list_of(int),
        help="at most so many inputs in all terms together",
    )
    group.add_argument(
        "--gamma",
        "-g",
        metavar="G",
        type=_word_or(_list_of(float), auto="auto"),
        help=f"the ridge on coefficients is 1 / gamma; 'auto' is 1 / sqrt(rows){gamma}",
    )
    group.add_argument(
        "--center",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="fit in coded variables (x - mean)",
    )


def _list_of(number: Callable[[str], Any]) -> Callable[[str], Any]:
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


def _word_or(number: Callable[[str], Any], **words: Any) -> Callable[[str], Any]:
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
