"""Rows of results: one CSV file per experiment, one line per run, appended as runs finish.

A row is known by its key columns (data parameters, method, seed).  A file may end in half a line
when the process was killed; that line is dropped before anything is added.  A run that failed is
a row with status "failed": it is tried again, and the later of two rows with one key counts.

    python -m experiments.rows OUT.csv IN.csv IN.csv ...      # merge files of one experiment
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]
Key = tuple[str, ...]

FAILED = "failed"


def text(value: Any) -> str:
    """Return a value as it stands in the file: six digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read(path: Path) -> list[Row]:
    """Return the rows of a file, none where there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    return [dict(row) for row in csv.DictReader(whole)]


def finished(rows: Iterable[Row], key: Sequence[str]) -> list[Row]:
    """Return the rows of runs that did not fail, the latest of each key."""
    latest = {tuple(row[name] for name in key): row for row in rows}
    return [row for row in latest.values() if row["status"] != FAILED]


class Table:
    """A file that rows are appended to, and that knows which keys it has."""

    def __init__(self, path: Path, key: Sequence[str], columns: Sequence[str]) -> None:
        self.path, self.key, self.columns = path, tuple(key), list(columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.stat().st_size == 0:
            path.write_text(_line(self.columns), encoding="utf-8")
        self._drop_half_line()
        header = next(csv.reader(path.read_text(encoding="utf-8").splitlines()[:1]), [])
        if header != self.columns:
            raise SystemExit(
                f"{path} has other columns than this version writes; give another --output"
            )

    def done(self) -> set[Key]:
        """Return the keys of the runs that finished."""
        return {self.key_of(row) for row in finished(read(self.path), self.key)}

    def key_of(self, row: Mapping[str, Any]) -> Key:
        """Return the key of a row, or of a cell's parameters, as text."""
        return tuple(text(row[name]) for name in self.key)

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one line at once, so that a file is whole whenever the process ends."""
        line = _line([text(row.get(name)) for name in self.columns])
        with self.path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(line)

    def _drop_half_line(self) -> None:
        content = self.path.read_bytes()
        if not content.endswith(b"\n"):
            self.path.write_bytes(content[: content.rfind(b"\n") + 1])


def _line(values: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


def merge(out: Path, parts: Sequence[Path], key: Sequence[str]) -> int:
    """Write the finished rows of several files of one experiment into one; return their number."""
    rows = finished([row for part in parts for row in read(part)], key)
    text_of_all = _line(rows[0]) + "".join(_line(row.values()) for row in rows)
    out.write_text(text_of_all, encoding="utf-8")
    return len(rows)


def main() -> None:
    """Merge the files named on the command line."""
    if len(sys.argv) < 3:
        raise SystemExit("usage: python -m experiments.rows OUT.csv IN.csv [IN.csv ...]")
    from experiments.runner import load, name_of

    out, *parts = (Path(argument) for argument in sys.argv[1:])
    count = merge(out, parts, load(name_of(parts[0])).key)
    print(f"{count} rows in {out}")


if __name__ == "__main__":
    main()
