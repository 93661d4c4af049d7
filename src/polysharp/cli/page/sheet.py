"""A table that was dropped on the page: under which name it is kept, and what is shown of it.

The file keeps its name as far as that is harmless, since messages and reports call it so; it stays
in one folder, whatever the name says.
"""

from __future__ import annotations

import re
import zipfile
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from polysharp.cli.delimited import Format
from polysharp.errors import InputError

ENDINGS = (".csv", ".tsv", ".txt", ".tab", ".dat", ".xlsx")
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)  # of Windows
LONGEST_STEM = 60
UNPACKED = 5  # times as large as a table may be is what an Excel file may unpack to
MOST_COLUMNS = 2_000
SHOWN_ROWS, SHOWN_CHARACTERS = 5, 200


@dataclass(frozen=True)
class Sheet:
    """The file of a table, how it is read, and what was found in it or why nothing was."""

    file: Path
    form: Format = field(default_factory=Format)
    rows: int = 0
    names: tuple[str, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    error: str | None = None

    @classmethod
    def called(cls, name: str, folder: Path) -> Sheet:
        """Return the place in a folder for a table of that name.

        Examples
        --------
        >>> Sheet.called("../../etc/p*wd.CSV", Path("here")).file.as_posix()
        'here/p_wd.csv'
        """
        last = re.split(r"[/\\]", name)[-1]
        stem, ending = last[: last.rindex(".")], last[last.rindex(".") :].lower()
        stem = re.sub(r"[^\w.() -]+", "_", stem).strip(" .-")[:LONGEST_STEM]
        return cls(folder / f"{'table' if not stem or DEVICES.match(stem) else stem}{ending}")

    def shown(self) -> dict[str, Any]:
        """Return what the page is told."""
        return {
            "name": self.file.name,
            "excel": self.file.suffix == ".xlsx",
            "rows": self.rows,
            "columns": self.columns,
            "error": self.error,
            "form": {
                "delimiter": self.form.delimiter or "",
                "decimal": self.form.decimal,
                "encoding": self.form.encoding,
                "header": self.form.header,
                "missing": self.form.missing[0] if self.form.missing else "",
            },
        }


def check_name(name: str) -> None:
    """Refuse files that are no tables for this page."""
    if not name.lower().endswith(ENDINGS):
        raise InputError(
            f"the name of a table must end in one of {', '.join(ENDINGS)}, got {name[-40:]!r}; "
            "polysharp fit reads more kinds"
        )


def look(sheet: Sheet, max_bytes: int) -> Sheet:
    """Read the table and return what it holds, or why it cannot be read."""
    from polysharp.cli.columns import kind_of
    from polysharp.cli.tables import read_table

    try:
        _check_unpacked(sheet.file, UNPACKED * max_bytes)
        with chdir(sheet.file.parent):
            frame = read_table(sheet.file.name, sheet.form)
        if frame.shape[1] > MOST_COLUMNS:
            raise InputError(
                f"a table on this page has at most {MOST_COLUMNS:,} columns, got "
                f"{frame.shape[1]:,}; polysharp fit takes more"
            )
        columns = tuple(
            {
                "name": _cut(name),
                "kind": kind_of(column).partition(" ")[0],
                "missing": int(column.isna().sum()),
                "cells": [_cut(cell) for cell in column.head(SHOWN_ROWS)],
            }
            for name, column in frame.items()
        )
    except (ValueError, ImportError, OSError, MemoryError) as error:
        return replace(sheet, error=str(error) or "the computer's memory is too small for this")
    return replace(sheet, rows=len(frame), names=tuple(frame.columns), columns=columns)


def _check_unpacked(file: Path, most: int) -> None:
    """Refuse an Excel file, which is a packed folder, that would fill the memory."""
    if file.suffix != ".xlsx" or not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as packed:
        size = sum(part.file_size for part in packed.infolist())
    if size > most:
        raise InputError(
            f"an Excel file on this page must unpack to at most {most:,} bytes, got {size:,}"
        )


def _cut(cell: object) -> str:
    text = str(cell)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"
