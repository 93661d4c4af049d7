"""Text with a delimiter: CSV and its many relatives.

The delimiter is the one that cuts the first lines into equal numbers of fields, the most of them.
Names are taken from the header as they are, since pandas would rename double ones; rows longer
than the header, which pandas would cut, are refused.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from polysharp.errors import InputError

DELIMITERS = (",", ";", "\t", "|")
WHITESPACE = "whitespace"
BETWEEN_BLANKS = re.compile(r'(?:[^\s"]|"[^"]*"|")+')  # quoted parts are whole
SPELLED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
SAMPLE = 1 << 16  # characters looked at to find the delimiter
LONGEST_NAME = 10_000  # characters: what is longer is a line that was not cut
NAMELESS = "Unnamed: {}"  # columns without a name, numbered from 0 as pandas does


@dataclass(frozen=True)
class Format:
    """What the user says about a file; None where it is to be found out."""

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8-sig"  # UTF-8, with or without a mark at its beginning
    sheet: str | None = None
    header: bool = True  # whether the first line holds names
    missing: tuple[str, ...] = ()  # further texts that stand for no value


def read_text(pd: Any, source: str, form: Format) -> Any:
    """Return a data frame of a file of text, or of standard input for ``-``."""
    try:
        with _opened(source, form.encoding) as file:
            sample = file.read(SAMPLE)
            while len(sample.lstrip().splitlines()) < 2 and (more := file.read(SAMPLE)):
                sample += more  # the whole first line at least
            _check_beginning(source, sample, form.header)
            delimiter = spelled(form.delimiter) or sniff(sample)
            first = _fields(sample, delimiter)[0]
            names = _names(source, first) if form.header else numbered(len(first))
            check_names(source, names)
            file.seek(0)
            return _parse(pd, source, file, names, delimiter, form)
    except UnicodeDecodeError as error:
        encoding = form.encoding.removesuffix("-sig")
        raise InputError(
            f"{source!r} is not text in the encoding {encoding}; name its own with --encoding, "
            "such as latin-1 or utf-16"
        ) from error
    except LookupError as error:
        raise InputError(
            f"--encoding must be one that Python knows, got {form.encoding!r}"
        ) from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{source!r} is not a gzip file, or not a whole one") from error


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


def _parse(pd: Any, source: str, file: Any, names: list[str], delimiter: str, form: Format) -> Any:
    # Numbers as Python reads them, which pandas does by itself from version 3 on.
    exact = {"float_precision": "round_trip"} if pd.__version__.startswith("2.") else {}
    with warnings.catch_warnings():
        # pandas only warns when rows are longer than the header, and cuts them.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(
                file,
                sep=r"\s+" if delimiter == WHITESPACE else delimiter,
                header=0 if form.header else None,
                names=names,
                index_col=False,
                decimal=form.decimal,
                na_values=list(form.missing),
                **exact,
                low_memory=False,
                skipinitialspace=True,
            )
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
    remarks = ", or are there remarks above the line of names? remove them" * (expected == "1")
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
    # The last line of a sample that was cut off proves nothing.
    lines = sample if len(sample) < SAMPLE else sample[: sample.rfind("\n") + 1] or sample
    fields = {mark: [len(row) for row in _fields(lines, mark)] for mark in DELIMITERS}
    blanks = {len(row) for row in _fields(lines, WHITESPACE)}
    aligned = len(blanks) == 1 and blanks.pop() > 1 and "\n" in lines.strip()
    even = [mark for mark in DELIMITERS if len(set(fields[mark])) == 1 and fields[mark][0] > 1]
    if even:
        best = max(even, key=lambda mark: fields[mark][0])
        # A field of several numbers is several fields, as in files that put a tab before the last.
        last = _fields(lines, best)[-1]
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


def is_number(name: str) -> bool:
    """Whether a name is a number."""
    try:
        float(name)
    except ValueError:
        return False
    return True


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


def _fields(text: str, delimiter: str) -> list[list[str]]:
    """Return the fields of every line that is not blank."""
    if delimiter == WHITESPACE:
        return [BETWEEN_BLANKS.findall(line) for line in text.splitlines() if line.strip()]
    lines = io.StringIO(text, newline=None)  # whatever ends a line
    # A line that is not cut at this mark is one field, however long.
    usual = csv.field_size_limit(len(text) + 1)
    try:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        return [row for row in reader if any(field.strip() for field in row)]
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


def _check_beginning(source: str, sample: str, header: bool) -> None:
    """Refuse what is no text, and a remark above the header, which may itself begin with '#'."""
    if not sample.strip():
        raise InputError(f"{source!r} is empty")
    if not re.search(r"[^\s,;|]", sample):
        raise InputError(f"{source!r} has no names in its header")
    if "\0" in sample:
        raise InputError(
            f"{source!r} is not text, and its ending is none of those of Parquet, Feather and Excel"
        )
    lines = [line.strip() for line in sample.splitlines() if line.strip()][:2]
    cuts = {sum(map(line.count, DELIMITERS)) for line in lines}
    if header and lines[0].startswith("#") and len(cuts) > 1:
        raise InputError(
            f"{source!r} must begin with a line of names, got the remark {lines[0][:40]!r}; "
            "remove the lines above the names"
        )


@contextmanager
def _opened(source: str, encoding: str) -> Iterator[TextIO]:
    """Open a file from which reading can begin anew."""
    if source == "-":
        binary = getattr(sys.stdin, "buffer", None)
        text = sys.stdin.read() if binary is None else codecs.decode(binary.read(), encoding)
        yield io.StringIO(text, newline="")
        return
    opener: Any = gzip.open if source.lower().endswith(".gz") else open
    with opener(source, "rt", encoding=encoding, newline="") as file:
        yield file if file.seekable() else io.StringIO(file.read())
