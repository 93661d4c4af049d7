"""What someone chose on the page, as the words of ``polysharp fit``.

Columns are named by their numbers, so that no name of a column can be misread on its way; whatever
does not fit is refused here, since a request may come from something other than the page.
"""

from __future__ import annotations

from typing import Any

from polysharp.cli.columns import joined
from polysharp.cli.delimited import DELIMITERS, WHITESPACE, Format
from polysharp.cli.page.sheet import Sheet
from polysharp.errors import InputError

FILES = {"model": "model.json", "report": "report.html", "proof": "model.proof"}
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1", "utf-16")
MISSING = {"refuse": None, "leave out": "--drop-missing", "fill": "--impute=median"}
LONGEST_MARK = 100  # characters that stand for a missing value


def form_of(wish: dict[str, Any]) -> Format:
    """Return how a table is to be read."""
    missing = str(wish.get("missing", ""))[:LONGEST_MARK]
    return Format(
        delimiter=_one_of(wish, "delimiter", ("", *DELIMITERS, WHITESPACE)) or None,
        decimal=_one_of(wish, "decimal", (".", ",")),
        encoding=_one_of(wish, "encoding", ENCODINGS),
        header=wish.get("header") is not False,
        missing=(missing,) if missing else (),
    )


def words_of(sheet: Sheet, wish: dict[str, Any]) -> list[str]:
    """Return the command that fits a table."""
    count = len(sheet.names)
    target = _number(wish, "target", 0, count - 1)
    given = wish.get("inputs")
    if not isinstance(given, list) or len(given) > count:
        raise InputError(f"inputs must be a list of at most {count} columns, got {given!r:.40}")
    inputs = {_number({"inputs": i}, "inputs", 0, count - 1) for i in given} - {target}
    if not inputs:
        raise InputError("inputs must hold a column beside the target, got none")
    others = [name for i, name in enumerate(sheet.names) if i != target and i not in inputs]
    kinds = {sheet.columns[i]["kind"] for i in inputs}
    chosen = [
        f"--target={sheet.names[target]}",
        *([f"--exclude={joined(others)}"] if others else []),
        *(["--indicators"] if "few" in kinds else []),
        MISSING[_one_of(wish, "missing", tuple(MISSING))],
        *(_option(wish, name, most) for name, most in (("degree", 20), ("max-terms", 1000))),
        _option(wish, "time-limit", 86_400),
    ]
    outputs = ("--output", FILES["model"], "--report", FILES["report"], "--proof", FILES["proof"])
    return ["fit", sheet.file.name, *_reading(sheet.form), *filter(None, chosen), *outputs]


def _reading(form: Format) -> list[str]:
    """Return the options that say how the table is read, where they are not the usual ones."""
    usual = Format()
    said = [
        form.delimiter and f"--delimiter={form.delimiter}",
        form.decimal != usual.decimal and f"--decimal={form.decimal}",
        form.encoding != usual.encoding and f"--encoding={form.encoding}",
        not form.header and "--no-header",
        *(f"--missing={mark}" for mark in form.missing),
    ]
    return [word for word in said if word]


def _option(wish: dict[str, Any], name: str, most: int) -> str | None:
    if wish.get(name) is None:
        return None
    return f"--{name}={_number(wish, name, 1, most)}"


def _number(wish: dict[str, Any], name: str, least: int, most: int) -> int:
    value = wish.get(name)
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {value!r:.40}")
    return value


def _one_of(wish: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = wish.get(name, known[0])
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r:.40}")
    return str(value)
