"""Tables as files: everything about formats stands here, nothing about what columns mean.

A file's ending tells its kind: Parquet, Feather (Arrow), Excel, and text with a delimiter for
all others (``delimited``).  What the cells mean is found out (``table_cells``) and said; names that
are double and rows longer than the header are refused.

``read_table`` is the one door: a new kind of source gets a line there.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import AbstractContextManager, nullcontext
from glob import escape, glob
from pathlib import Path
from typing import Any

from joblib import parallel_config

from polysharp.cli.command import say
from polysharp.cli.delimited import Format, Remark, check_names, named, numbered, read_text
from polysharp.cli.table_cells import is_number, read_header, tidy
from polysharp.data.files import check_targets, replacement
from polysharp.errors import InputError, MissingSolverError, first_line, load_optional
from polysharp.wording import plural

PARQUET = frozenset({".parquet", ".pq"})
FEATHER = frozenset({".feather", ".arrow"})
EXCEL = frozenset({".xlsx", ".xlsm", ".xls", ".ods"})


def read_table(source: str, form: Format | None = None, tell: Remark = say) -> Any:
    """Return a data frame of the file, or of standard input for ``-``, with distinct names.

    ``tell`` is called with a sentence for everything that was found out and is not the usual.
    """
    form = form or Format()
    pd = need("pandas", "reading tables")
    path = Path(source)
    if "://" in source and not path.exists():
        raise InputError(f"{source!r} is an address and no file; download it first")
    if source != "-" and path.is_dir():
        raise InputError(f"{source!r} is a folder; give a file")
    if source != "-" and not path.exists():
        raise InputError(f"{source!r} is not there")
    kind = path.suffix.lower()
    if form.sheet is not None and kind not in EXCEL:
        raise InputError(f"--sheet is for Excel files, which {source!r} is not")
    if kind in PARQUET:
        frame = _read_arrow(source, "Parquet")
    elif kind in FEATHER:
        frame = _read_arrow(source, "Feather")
    elif kind in EXCEL:
        frame = _read_excel(pd, source, form, tell)
    else:
        frame = read_text(pd, source, form, tell)
    frame.columns = [str(name) for name in frame.columns]
    check_names(source, list(frame.columns))
    if form.missing and kind in PARQUET | FEATHER | EXCEL:
        marks = [*form.missing, *map(float, filter(is_number, form.missing))]
        frame = frame.mask(frame.isin(marks))
    if not len(frame):
        raise InputError(f"{source!r} has a header and no rows")
    return tidy(frame, form, tell)


def check_outputs(options: Namespace, *names: str, reads: tuple[str, ...] = ("table",)) -> None:
    """Refuse outputs that cannot be written or would overwrite what is read, before the work.

    ``names`` are the options that name files to write and ``reads`` those that name files, folders
    or patterns to read; "-" is a pipe and no file.
    """
    targets = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    sources = [given for name in reads if (given := getattr(options, name)) != "-"]
    for given in list(sources):
        inside = Path(given).is_dir()
        sources += glob(str(Path(escape(given), "**")) if inside else given, recursive=inside)
    check_targets({what: file for what, file in targets.items() if file != "-"}, sources)


def every_core(options: Namespace) -> AbstractContextManager[Any]:
    """Return a context in which independent jobs take all cores, unless --jobs says how many."""
    if getattr(options, "jobs", None) is not None:
        return nullcontext()
    return parallel_config("threading", n_jobs=-1)  # type: ignore[no-any-return]


def write_table(frame: Any, target: str) -> None:
    """Write a data frame in the kind that the ending tells; ``-`` is CSV to standard output."""
    kind = Path(target).suffix.lower()
    if target == "-":
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    if kind in EXCEL:
        need("openpyxl", "writing Excel")
    elif kind in PARQUET | FEATHER:
        need("pyarrow", "writing Parquet and Feather")
    with replacement(target) as place:
        if kind in PARQUET:
            frame.to_parquet(place, index=False)
        elif kind in FEATHER:
            frame.to_feather(place)
        elif kind in EXCEL:
            frame.to_excel(place, index=False)
        else:
            frame.to_csv(place, index=False, sep="\t" if kind == ".tsv" else ",")


def need(package: str, purpose: str) -> Any:
    """Return a library that is not always installed, or say how to install it."""
    return load_optional(package, purpose, "cli")


def _read_arrow(source: str, kind: str) -> Any:
    need("pyarrow", f"reading {kind}")
    from pyarrow import ArrowException, feather, parquet

    try:
        if kind == "Parquet":
            table = parquet.ParquetFile(source).read()
        else:
            table = feather.read_table(source)
    except (ArrowException, ValueError) as error:
        raise InputError(f"{source!r} cannot be read as {kind}: {first_line(error)}") from error
    # Without pandas' own notes, which would turn columns into an index.
    return table.to_pandas(ignore_metadata=True)


def _read_excel(pd: Any, source: str, form: Format, tell: Remark) -> Any:
    if Path(source).suffix.lower() in {".xlsx", ".xlsm"}:
        need("openpyxl", "reading Excel")
    try:
        cells = pd.read_excel(
            source, sheet_name=form.sheet or 0, header=None, skiprows=form.skip_lines
        )
    except ImportError as error:
        raise MissingSolverError(f"reading {source!r}: {first_line(error)}") from error
    except Exception as error:  # each engine has errors of its own, and no base class
        raise InputError(f"{source!r} cannot be read as Excel: {first_line(error)}") from error
    if not len(cells):
        raise InputError(f"{source!r} is empty")
    if not form.header:
        return cells.set_axis(numbered(cells.shape[1]), axis=1)
    if form.skip_lines is None:
        filled = cells.head(21).notna().sum(axis=1).tolist()
        above = next((at for at, count in enumerate(filled) if count > 1), 0)
        if above:  # titles, of at most one cell
            tell(f"skipped {plural(above, 'row')} above the names; --skip-lines 0 reads all")
        cells = cells.iloc[above:]
    lines = [["" if pd.isna(c) else str(c) for c in row] for row in cells.head(50).to_numpy()]
    names, taken = read_header(lines, "row", tell)
    frame = cells.iloc[taken:].reset_index(drop=True)
    frame.columns = named(names)
    # The header made every column one of mixed cells: let each find its type again.
    return frame.infer_objects()
