"""Text with a delimiter: CSV and its many relatives.

Encoding, delimiter, lines above the names, units below them and the decimal mark are found out
from the first lines, unless an option says them.  The delimiter is the one that cuts lines into
equal numbers of fields, the most of them.  Names are taken from the header as they are, since
pandas would rename double ones; rows longer than the header, which pandas would cut, are refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from polysharp.cli.table_cells import find_decimal, holds_no_number, is_number, read_header
from polysharp.errors import InputError
from polysharp.wording import plural

DELIMITERS = (",", ";", "\t", "|")
WHITESPACE = "whitespace"
BETWEEN_BLANKS = re.compile(r'(?:[^\s"]|"[^"]*"|")+')  # quoted parts are whole
SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
SAMPLE = 1 << 16  # characters looked at to find the delimiter
LONGEST_NAME = 10_000  # characters: what is longer is a line that was not cut
LOOKED_AT = 200  # lines that tell what stands above the names
MOST_SKIPPED = 20  # lines above the names that are found without being told
NAMELESS = "Unnamed: {}"  # columns without a name, numbered from 0 as pandas does
USUAL, WINDOWS = "utf-8-sig", "cp1252"  # UTF-8, with or without a mark at its beginning
BYTE_ORDERS = (b"\xff\xfe", b"\xfe\xff")  # marks at the beginning of UTF-16

Remark = Callable[[str], None]  # takes a sentence for the user


@dataclass(frozen=True)
class Format:
    """What the user says about a file; None where it is to be found out."""

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    header: bool = True  # whether the first line holds names
    missing: tuple[str, ...] = ()  # further texts that stand for no value
    skip_lines: int | None = None  # above the names


def read_text(pd: Any, source: str, form: Format, tell: Remark) -> Any:
    """Return a data frame of a file of text, or of standard input for ``-``."""
    opened, failed = _opener(source), None
    try:
        with opened() as file:
            guessed = ("utf-16",) if file.read(2) in BYTE_ORDERS else (USUAL, WINDOWS)
        tried = (form.encoding,) if form.encoding else guessed
        for encoding in tried:
            try:
                with opened() as file, io.TextIOWrapper(file, encoding, newline="") as text:
                    frame = _read(pd, source, text, form, tell)
            except UnicodeDecodeError as error:
                failed = error
                continue
            if failed is not None:
                tell(f"{source} is not UTF-8: read as Windows text; --encoding overrules it")
            return frame
    except LookupError as error:
        raise InputError(
            f"--encoding must be one that Python knows, got {form.encoding!r}"
        ) from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{source!r} is not a gzip file, or not a whole one") from error
    raise InputError(
        f"{source!r} is not text in the encoding {tried[0].removesuffix('-sig')}; name its own "
        "with --encoding, such as latin-1 or utf-16"
    ) from failed


def _opener(source: str) -> Callable[[], Any]:
    """Return a function that opens a table at its beginning, which a pipe does only once."""
    if Path(source).is_file():
        packed = source.lower().endswith(".gz")
        return lambda: gzip.open(source, "rb") if packed else open(source, "rb")
    if source != "-":
        with open(source, "rb") as file:
            content = file.read()
    else:
        binary = getattr(sys.stdin, "buffer", None)
        content = sys.stdin.read().encode() if binary is None else binary.read()
    return lambda: io.BytesIO(content)


def _read(pd: Any, source: str, file: TextIO, form: Format, tell: Remark) -> Any:
    sample = file.read(SAMPLE)
    while len(sample.lstrip().splitlines()) < 2 and (more := file.read(SAMPLE)):
        sample += more  # the whole first line at least
    if not sample.strip():
        raise InputError(f"{source!r} is empty")
    if not re.search(r"[^\s,;|]", sample):
        raise InputError(f"{source!r} has no names in its header")
    if "\0" in sample:
        raise InputError(
            f"{source!r} is not text, and its ending is none of those of Parquet, Feather and Excel"
        )
    remarks: list[str] = []
    layout = _layout(source, sample, form, remarks.append)
    check_names(source, layout["names"])
    file.seek(0)
    frame = _parse(pd, source, file, layout, form)
    for remark in remarks:  # of a file that was read: another encoding would say them again
        tell(remark)
    return frame


def _layout(source: str, sample: str, form: Format, tell: Remark) -> dict[str, Any]:
    """Find out from the first lines how to read a text; the options of pandas that say so."""
    delimiter = spelled(form.delimiter)
    # The last line of a sample that was cut off proves nothing.
    whole = sample if len(sample) < SAMPLE else sample[: sample.rfind("\n") + 1] or sample
    above = _lines_above(whole, delimiter) if form.skip_lines is None else form.skip_lines
    if form.skip_lines is None and above:
        tell(f"skipped {plural(above, 'line')} above the names; --skip-lines 0 reads all")
    body = "".join(_lines(whole)[above:])
    if not body.strip():
        raise InputError(f"--skip-lines must leave lines to read in {source!r}, got {above}")
    delimiter = delimiter or sniff(body)
    at, rows = zip(*_fields(body, delimiter), strict=True)
    names, taken = numbered(len(rows[0])), 0
    if form.header:
        found, taken = read_header(rows, "line", tell)
        names = _names(source, found)
    skipped = [*range(above), *(above + line for line in at[:taken])]
    decimal = form.decimal or find_decimal((c for row in rows[taken:] for c in row), delimiter)
    if form.decimal is None and decimal == ",":
        tell("read 1,5 as 1.5; --decimal . overrules it")
    return {"sep": delimiter, "names": names, "skiprows": skipped, "decimal": decimal}


def _lines_above(sample: str, delimiter: str | None) -> int:
    """Return how many lines of one field, or remarks, stand above the names.

    All lines from the names on have the same number of fields, more than one; names are no numbers.
    """
    lines = _lines(sample)[:LOOKED_AT]
    rows = [at for at, line in enumerate(lines) if line.strip()]
    marks = (delimiter,) if delimiter else DELIMITERS
    cut = {mark: [_fields(lines[at], mark)[0][1] for at in rows] for mark in marks}
    counts = [{len(fields) for fields in found} for found in cut.values()]
    if not rows or any(len(count) == 1 and max(count) > 1 for count in counts):
        return 0
    for found in cut.values():
        cells = zip(rows, found, strict=True)
        fields = [[lines[at]] if lines[at].startswith("#") else own for at, own in cells]
        wide = len(fields[-1])
        first = next(a for a, row in enumerate(fields) if len(row) == wide)
        even = all(len(row) == wide for row in fields[first:])
        above = all(len(row) == 1 for row in fields[:first])
        if wide > 1 and even and above and 0 < first <= min(MOST_SKIPPED, len(fields) - 3):
            return rows[first] * holds_no_number(fields[first])
    return 0


def _names(source: str, first: list[str]) -> list[str]:
    """Return the names of the first line, unless it is a row of numbers."""
    # Years are names; 0.11, -3 or the same number twice are not.
    names = len(set(first)) == len(first) and all(field.strip().isdigit() for field in first)
    if all(map(is_number, first)) and not names:
        raise InputError(
            f"{source!r} has numbers in its first line where names should be, such as "
            f"{first[0].strip()!r}; say --no-header, and the columns are x1, x2, ..."
        )
    return named(first)


def _parse(pd: Any, source: str, file: TextIO, layout: dict[str, Any], form: Format) -> Any:
    # Numbers as Python reads them, which pandas does by itself from version 3 on.
    exact = {"float_precision": "round_trip"} if pd.__version__.startswith("2.") else {}
    delimiter, names = layout["sep"], layout["names"]
    with warnings.catch_warnings():
        # pandas only warns if rows are longer than the header, and cuts them.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(
                file,
                **layout | {"sep": r"\s+" if delimiter == WHITESPACE else delimiter},
                header=None,
                index_col=False,
                na_values=list(form.missing),
                **exact,
                low_memory=False,
                skipinitialspace=True,
            )
        except pd.errors.EmptyDataError:
            return pd.DataFrame(columns=names)
        except pd.errors.ParserWarning as error:
            raise InputError(
                f"{source!r} has rows with more fields than its header, which has {len(names)}; "
                f"is the delimiter {delimiter!r} right?"
            ) from error
        except pd.errors.ParserError as error:
            raise InputError(_worded(source, str(error), delimiter)) from error


def _worded(source: str, message: str, delimiter: str) -> str:
    """Return pandas' complaint about a line in words that need no pandas."""
    counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if counts is None:
        return f"{source!r} cannot be read as text with the delimiter {delimiter!r}: {message}"
    expected, line, found = counts.groups()
    remarks = ", or are there lines above the names? say --skip-lines" * (expected == "1")
    return (
        f"{source!r} has {found} fields in line {line} where the lines before have {expected}; "
        f"is the delimiter {delimiter!r} right{remarks or '?'}"
    )


def sniff(sample: str) -> str:
    r"""Return the delimiter that cuts all lines into the same number of fields, the most of them.

    Examples
    --------
    >>> sniff("a;b;c\n1,5;2;3\n")
    ';'
    >>> sniff("a b  c\n1 2  3\n")
    'whitespace'
    >>> sniff('18.0   8   307.0\t"a car"\n15.0   8   350.0\t"a van"\n')
    'whitespace'
    """
    fields = {mark: [len(row) for _, row in _fields(sample, mark)] for mark in DELIMITERS}
    blanks = {len(row) for _, row in _fields(sample, WHITESPACE)}
    aligned = len(blanks) == 1 and blanks.pop() > 1 and "\n" in sample.strip()
    even = [mark for mark in DELIMITERS if len(set(fields[mark])) == 1 and fields[mark][0] > 1]
    if even:
        best = max(even, key=lambda mark: fields[mark][0])
        # A field of several numbers is several fields, as in files that put a tab before the last.
        last = _fields(sample, best)[-1][1]
        split = any(len(field.split()) > 1 and all(map(is_number, field.split())) for field in last)
        return WHITESPACE if aligned and split else best
    # No mark does: take what the header has, so that the odd line is the one complained about.
    headed = [mark for mark in DELIMITERS if fields[mark][0] > 1]
    if headed:
        return max(headed, key=lambda mark: fields[mark][0])
    return WHITESPACE if aligned else ","


def named(header: list[str]) -> list[str]:
    """Return the names of a header, and numbers for columns that have none."""
    stripped = [name.strip() for name in header]
    return [name or NAMELESS.format(i) for i, name in enumerate(stripped)]


def numbered(count: int) -> list[str]:
    """Return names for the columns of a table without any: x1, x2, ..."""
    return [f"x{i}" for i in range(1, count + 1)]


def check_names(source: str, names: list[str]) -> None:
    """Refuse a table in which a name would mean two columns."""
    longest = max(names, key=len)
    if len(longest) > LONGEST_NAME:
        raise InputError(
            f"{source!r} must have names of at most {LONGEST_NAME:,} characters, got one of "
            f"{len(longest):,}: {longest[:40]!r}...; is the delimiter right? say --delimiter"
        )
    double = [name for name, count in Counter(names).items() if count > 1]
    if double:
        shown = ", ".join(map(repr, double))
        hint = "; if its first line holds no names, say --no-header" * any(map(is_number, double))
        raise InputError(f"{source!r} has several columns named {shown}; rename them{hint}")


def _lines(text: str) -> list[str]:
    """Return the lines with what ends them."""
    return io.StringIO(text, newline="").readlines()


def _fields(text: str, delimiter: str) -> list[tuple[int, list[str]]]:
    """Return the fields of every record that is not blank, with its number among all records."""
    if delimiter == WHITESPACE:
        lines = enumerate(_lines(text))
        return [(at, BETWEEN_BLANKS.findall(line)) for at, line in lines if line.strip()]
    # A line that is not cut at this mark is one field, however long.
    usual = csv.field_size_limit(len(text) + 1)
    try:
        source = io.StringIO(text, newline=None)  # whatever ends a line
        records = enumerate(csv.reader(source, delimiter=delimiter, skipinitialspace=True))
        return [(at, row) for at, row in records if any(field.strip() for field in row)]
    finally:
        csv.field_size_limit(usual)


def spelled(delimiter: str | None) -> str | None:
    """Return the delimiter that a user names, None where none was named."""
    if delimiter is None:
        return None
    mark = SPELLED.get(delimiter, delimiter)
    if mark != WHITESPACE and (len(mark) != 1 or mark in '"\n\r'):
        raise InputError(
            f"--delimiter must be one character, 'tab' or 'whitespace', got {delimiter!r}"
        )
    return mark
