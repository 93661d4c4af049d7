"""What texts in a table mean: names, units, numbers as people write them, marks of missing values.

    names      the first line; with the second one where that, too, holds no numbers and the first
               has blanks or the same name twice (merged cells of a spreadsheet)
    units      a line without numbers below the names, above columns of numbers
    numbers    1.234,5 or 1,234.5 or 1 234.5, with a currency, a per cent sign or a unit that is
               the same in all cells of the column
    missing    one of ``MARKS`` in a column of numbers

Whatever is found is said in one line, and an option overrules it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

MARKS = frozenset({"-", "--", "?", ".", "n/a", "n.a.", "na", "nan", "none", "null", "missing"})
GROUPS = ".,'\N{RIGHT SINGLE QUOTATION MARK} \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
UNSURE = re.compile(r"[-+]?\d{1,3},\d{3}")  # 1,234 can be either
SHOWN_CELLS = 1000  # of a column, which tell its decimal mark
SHOWN_NAMES = 8  # of columns in a remark


def _proof(mark: str) -> re.Pattern[str]:
    """Return the pattern of numbers that have this decimal mark and can have no other."""
    m, g = re.escape(mark), f"[{GROUPS.replace(mark, '')}]"
    return re.compile(
        rf"[-+]?(\d+{m}(\d{{1,2}}|\d{{4,}})|\d{{4,}}{m}\d+|0\d*{m}\d+|"
        rf"\d{{1,3}}({g}\d{{3}})+{m}\d+|\d{{1,3}}({g}\d{{3}}){{2,}})"
    )


COMMA, POINT = _proof(","), _proof(".")


@cache
def dressed(decimal: str) -> re.Pattern[str]:
    """Return the pattern of a number with a currency in front and a unit behind."""
    groups = GROUPS.replace(decimal, "")
    whole = rf"(?:\d{{1,3}}(?:[{groups}]\d{{3}})+|\d+)"
    return re.compile(
        rf"(?P<front>[$£¥€]?)\s*(?P<number>[-+\N{{MINUS SIGN}}]?{whole}(?:[{decimal}]\d+)?"
        r"(?:[eE][-+]?\d+)?)\s*(?P<behind>(?:[^\s\d.,;:/-]\S{0,11})?)"
    )


def is_dressed(cell: str) -> bool:
    """Whether a cell is a number, however people write it."""
    return any(dressed(mark).fullmatch(cell.strip()) for mark in ".,")


def is_text(column: Any) -> bool:
    """Whether a column of a data frame may hold texts."""
    from pandas.api import types

    return bool(types.is_object_dtype(column) or types.is_string_dtype(column))


def is_number(text: str) -> bool:
    """Whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def find_decimal(texts: Iterable[str], delimiter: str | None = None) -> str:
    """Return the decimal mark of a table's cells.

    Examples
    --------
    >>> find_decimal(["1,5", "2.300,25"]), find_decimal(["1,234.5"]), find_decimal(["1,234"], ";")
    (',', '.', ',')
    """
    cells = [text.strip() for text in texts]
    commas, points, unsure = (
        sum(pattern.fullmatch(cell) is not None for cell in cells)
        for pattern in (COMMA, POINT, UNSURE)
    )
    return "," if commas > points or (unsure and not points and delimiter == ";") else "."


def holds_no_number(cells: Sequence[str]) -> bool:
    """Whether a line of a table could be names or units: some texts, and no number."""
    known = [cell.strip() for cell in cells if cell.strip()]
    # A 1 is the unit of a pure number.
    return bool(set(known) - {"1"}) and not any(is_dressed(c) for c in known if c != "1")


def find_header(lines: Sequence[Sequence[str]]) -> tuple[list[str], int, list[str] | None]:
    """Return names, how many lines they take, and the units of a line below them, if it is one.

    Examples
    --------
    >>> find_header([["flow", "", "load"], ["in", "out", "kN"], ["1", "2", "3"]])
    (['flow in', 'flow out', 'load kN'], 2, None)
    >>> find_header([["flow", "load"], ["l/s", "kN"], ["1", "3"]])
    (['flow', 'load'], 1, ['l/s', 'kN'])
    """
    first = [cell.strip() for cell in lines[0]]
    if len(lines) < 3 or len(lines[1]) != len(first) or not holds_no_number(lines[1]):
        return first, 1, None
    below = [line for line in lines[2:] if len(line) == len(first)]
    numeric = [any(is_dressed(line[i]) for line in below) for i in range(len(first))]
    # A column of texts may have a text in any row: numbers must be below what is taken for a unit.
    if not any(numeric) or any(
        cell.strip() and not below_it for cell, below_it in zip(lines[1], numeric, strict=True)
    ):
        return first, 1, None
    second = [cell.strip() for cell in lines[1]]
    filled = [name for name in first if name]
    nameless = any(not name and detail for name, detail in zip(first, second, strict=True))
    if not nameless and len(filled) == len(set(filled)):
        return first, 1, second
    names, last = [], ""
    for name, detail in zip(first, second, strict=True):
        last = name or last
        names.append(f"{last} {detail}".strip())
    return names, 2, None


def read_header(
    lines: Sequence[Sequence[str]], what: str, tell: Callable[[str], None]
) -> tuple[list[str], int]:
    """Return the names, and how many lines they and their units take; ``what`` lines are called."""
    names, taken, units = find_header(lines)
    if taken > 1:
        tell(f"two {what}s of names became one, such as {names[-1]!r}")
    if units is None:
        return names, taken
    tell(f"took the {what} below the names for units: {', '.join(filter(None, units))}")
    return names, taken + 1


def to_plain(column: Any, decimal: str) -> tuple[Any, str | None] | None:
    """Return a column of texts as numbers, and what was read as what; None where it holds texts."""
    cells = column.dropna()
    texts = cells[cells.map(lambda cell: isinstance(cell, str))].str.strip()
    if not len(texts):
        return None
    missing = texts.str.lower().isin(MARKS)
    first = texts[~missing].head(SHOWN_CELLS)
    if not all(map(dressed(decimal).fullmatch, first)):
        return None  # without looking at a million other cells
    parts = texts[~missing].str.extract(f"^{dressed(decimal).pattern}$")
    if parts["number"].isna().any() or len(parts) + len(cells) - len(texts) == 0:
        return None
    if parts["front"].nunique() > 1 or parts["behind"].nunique() > 1:
        return None
    groups = GROUPS.replace(decimal, "")
    plain = parts["number"].str.replace(f"[{groups}]", "", regex=True)
    plain = plain.str.replace(decimal, ".").str.replace("\N{MINUS SIGN}", "-")
    if not plain.map(is_number).all():
        return None
    found = column.astype(object)
    found[texts.index[missing]] = float("nan")
    found[plain.index] = plain.astype(float)
    said = []
    changed = plain[plain != texts[~missing]]
    if len(changed):
        said.append(f"{texts[changed.index[0]]!r} as {changed.iloc[0]}")
    if missing.any():
        said.append(f"{texts[missing].iloc[0]!r} as missing")
    return found.astype(float), ", ".join(said) or None


def tidy(frame: Any, form: Any, tell: Callable[[str], None]) -> Any:
    """Turn columns of dressed numbers into numbers; drop columns without a name and a value."""
    bare = [n for n in frame.columns if n.startswith("Unnamed: ") and frame[n].isna().all()]
    frame = frame.drop(columns=bare)
    texts = [name for name in frame.columns if is_text(frame[name])]
    decimal = form.decimal
    if decimal is None:
        cells = (cell for name in texts for cell in frame[name].head(SHOWN_CELLS))
        decimal = find_decimal(cell for cell in cells if isinstance(cell, str))
    read: dict[str, list[str]] = {}
    changed = {}
    for name in texts:
        if (found := to_plain(frame[name], decimal)) is not None:
            changed[name], said = found
            if said:
                read.setdefault(said, []).append(repr(name))
    for said, names in read.items():
        more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
        tell(f"read {said} in {', '.join(names[:SHOWN_NAMES])}{more}")
    return frame.assign(**changed) if changed else frame
