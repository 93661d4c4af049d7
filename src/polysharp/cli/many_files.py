"""``polysharp fit`` on a folder or a glob: the rows are read in blocks, through Dask.

Without ``--scheduler`` the blocks are read by threads of this machine; with it, by the workers of
a cluster, which must see the same files.  What needs all rows in memory at once is refused.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from polysharp.cli.delimited import WHITESPACE, spelled
from polysharp.cli.messages import say, warnings_as_remarks
from polysharp.cli.settings import every_core
from polysharp.cli.table_columns import listed
from polysharp.cli.table_rows import columns
from polysharp.data.cluster import cluster
from polysharp.data.files import scan
from polysharp.errors import InputError
from polysharp.wording import plural

WHOLE = (
    "holdout",
    "report",
    "size_table",
    "sheet",
    "impute",
    "indicators",
    "no_header",
    "skip_lines",
)  # need all rows at once


def stands_for_many(options: Namespace) -> bool:
    """Whether the table is a folder, a pattern, or left to a cluster."""
    if options.scheduler is not None:
        return True
    path = Path(options.table)
    return path.is_dir() or (any(mark in options.table for mark in "*?[") and not path.exists())


def fit_files(model: Any, options: Namespace) -> None:
    """Fit the model to all files that the table stands for."""
    for name in WHOLE:
        if getattr(options, name):
            option = name.replace("_", "-")
            raise InputError(
                f"--{option} needs the rows in memory, and {options.table!r} is read in blocks"
            )
    with cluster(options.scheduler), warnings_as_remarks():
        opened = scan(
            options.table,
            options.target,
            inputs=columns(options, "inputs"),
            exclude=columns(options, "exclude") or [],
            weights=options.weights,
            drop_missing=options.drop_missing,
            csv_options=csv_options(options),
        )
        say(f"inputs {listed(list(opened.X.columns))}")
        if options.drop_missing:
            say("rows with missing values are left out, uncounted")
        blocks, inputs = opened.X.npartitions, plural(len(opened.X.columns), "input")
        print(f"{options.table}: {blocks} blocks, {inputs}, target {options.target}", flush=True)
        with every_core(options):
            model.fit(*opened)


def csv_options(options: Namespace) -> dict[str, Any]:
    """Return what the user says about text, in the words of pandas."""
    found: dict[str, Any] = {
        "decimal": options.decimal or ".",
        "encoding": options.encoding or "utf-8-sig",
    }
    if options.missing:
        found["na_values"] = options.missing
    mark = spelled(options.delimiter)
    if mark is not None:
        found["sep"] = r"\s+" if mark == WHITESPACE else mark
    return found
