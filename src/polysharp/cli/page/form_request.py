"""A table that was dropped on the page, and what someone chose there, as words of a command.

The file keeps its name as far as that is harmless, since messages and reports call it so; it stays
in one folder, whatever the name says.  Columns are named by their numbers, so that no name of a
column can be misread on its way; whatever does not fit is refused here, since a request may come
from something other than the page.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polysharp.cli.delimited import DELIMITERS, WHITESPACE, Format
from polysharp.cli.table_columns import joined, kind_of
from polysharp.cli.tables import read_table
from polysharp.errors import InputError

ENDINGS = (".csv", ".tsv", ".txt", ".tab", ".dat", ".xlsx")
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)  # of Windows
LONGEST_STEM = 60
UNPACKED = 5  # times as large as a table may be is what an Excel file may unpack to
MOST_COLUMNS = 2_000
SHOWN_ROWS, SHOWN_CHARACTERS = 5, 200
FILES = {"model": "model.json", "report": "report.html", "proof": "model.proof"}
READING = ("delimiter", "decimal", "encoding")
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1", "utf-16")
MISSING = {"refuse": None, "leave out": "--drop-missing", "fill": "--impute=median"}
LIMITS = {"degree": 20, "max-terms": 1000, "time-limit": 86_400}
LONGEST_MARK = 100  # characters that stand for a missing value


@dataclass(frozen=True)
class UploadedTable:
    """The file of a table, how it is read, and what was found in it or why nothing was."""

    file: Path
    form: Format = field(default_factory=Format)
    rows: int = 0
    names: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    error: str | None = None
    remarks: tuple[str, ...] = ()

    @classmethod
    def called(cls, name: str, folder: Path) -> UploadedTable:
        """Return the place in a folder for a table of that name, or refuse what is none.

        Examples
        --------
        >>> UploadedTable.called("../../etc/p*wd.CSV", Path("here")).file.as_posix()
        'here/p_wd.csv'
        """
        if not name.lower().endswith(ENDINGS):
            raise InputError(
                f"the name of a table must end in one of {', '.join(ENDINGS)}, got {name[-40:]!r}; "
                "polysharp fit reads more kinds"
            )
        last = re.split(r"[/\\]", name)[-1]
        stem, ending = last[: last.rindex(".")], last[last.rindex(".") :].lower()
        stem = re.sub(r"[^\w.() -]+", "_", stem).strip(" .-")[:LONGEST_STEM]
        return cls(folder / f"{'table' if not stem or DEVICES.match(stem) else stem}{ending}")

    def shown(self) -> dict[str, Any]:
        """Return what the page is told."""
        form = {
            name: getattr(self.form, name) or "" for name in ("delimiter", "decimal", "encoding")
        }
        form |= {"header": self.form.header, "missing": "".join(self.form.missing)}
        own = {name: getattr(self, name) for name in ("rows", "columns", "error", "remarks")}
        excel = self.file.suffix == ".xlsx"
        return {"name": self.file.name, "excel": excel, "form": form, **own}


def look(table: UploadedTable, max_bytes: int) -> UploadedTable:
    """Read the table and return what it holds, or why it cannot be read."""
    remarks: list[str] = []
    try:
        if table.file.suffix == ".xlsx" and zipfile.is_zipfile(table.file):  # a packed folder
            with zipfile.ZipFile(table.file) as packed:
                size = sum(part.file_size for part in packed.infolist())
            if size > UNPACKED * max_bytes:  # it would fill the memory
                raise InputError(
                    "an Excel file on this page must unpack to at most "
                    f"{UNPACKED * max_bytes:,} bytes, got {size:,}"
                )
        with chdir(table.file.parent):
            frame = read_table(
                table.file.name, table.form, lambda said: remarks.append(said.partition("; --")[0])
            )
        if frame.shape[1] > MOST_COLUMNS:
            raise InputError(
                f"a table on this page has at most {MOST_COLUMNS:,} columns, got "
                f"{frame.shape[1]:,}; polysharp fit takes more"
            )
        columns = tuple(
            {
                "name": _cut(name),
                "kind": kind_of(column).partition(" ")[0] if column.notna().any() else "empty",
                "missing": int(column.isna().sum()),
                "cells": [_cut(cell) for cell in column.head(SHOWN_ROWS)],
            }
            for name, column in frame.items()
        )
    except (ValueError, ImportError, OSError, MemoryError) as error:
        return replace(table, error=str(error) or "the computer's memory is too small for this")
    names = tuple(frame.columns)
    return replace(table, rows=len(frame), names=names, columns=columns, remarks=tuple(remarks))


def _cut(cell: object) -> str:
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def form_of(request: dict[str, Any]) -> Format:
    """Return how a table is to be read."""
    missing = str(request.get("missing", ""))[:LONGEST_MARK]
    return Format(
        delimiter=_one_of(request, "delimiter", ("", *DELIMITERS, WHITESPACE)) or None,
        decimal=_one_of(request, "decimal", ("", ".", ",")) or None,
        encoding=_one_of(request, "encoding", ("", *ENCODINGS)) or None,
        header=request.get("header") is not False,
        missing=(missing,) if missing else (),
    )


def words_of(table: UploadedTable, request: dict[str, Any]) -> list[str]:
    """Return the command that fits a table."""
    count = len(table.names)
    target = _number(request, "target", 0, count - 1)
    named = request.get("inputs")
    if not isinstance(named, list) or len(named) > count:
        raise InputError(f"inputs must be a list of at most {count} columns, got {named!r:.40}")
    inputs = {_number({"inputs": i}, "inputs", 0, count - 1) for i in named} - {target}
    if not inputs:
        raise InputError("inputs must hold a column beside the target, got none")
    others = [name for i, name in enumerate(table.names) if i != target and i not in inputs]
    limits = [name for name in LIMITS if request.get(name) is not None]
    kinds = {table.columns[i]["kind"] for i in inputs}
    chosen = [
        f"--target={table.names[target]}",
        *([f"--exclude={joined(others)}"] if others else []),
        *(["--indicators"] if "few" in kinds else []),
        MISSING[_one_of(request, "missing", tuple(MISSING))],
        *(f"--{name}={_number(request, name, 1, LIMITS[name])}" for name in limits),
    ]
    outputs = ("--output", FILES["model"], "--report", FILES["report"], "--proof", FILES["proof"])
    known = {name: getattr(table.form, name) for name in READING}
    reading = [f"--{name}={value}" for name, value in known.items() if value]
    reading += [] if table.form.header else ["--no-header"]
    reading += [f"--missing={mark}" for mark in table.form.missing]
    return ["fit", table.file.name, *reading, *filter(None, chosen), *outputs]


def _number(request: dict[str, Any], name: str, least: int, most: int) -> int:
    value = request.get(name)
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {value!r:.40}")
    return value


def _one_of(request: dict[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = request.get(name, known[0])
    if value not in known:
        raise InputError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r:.40}")
    return str(value)
