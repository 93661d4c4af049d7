"""``polysharp fit`` on a folder or a glob: the rows are read in blocks, through Dask.

Without ``--scheduler`` the blocks are read by threads of this machine; with it, by the workers of
a cluster, which must see the same files.  What needs all rows in memory at once is refused.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from polysharp.cli import shared
from polysharp.cli.delimited import WHITESPACE, spelled
from polysharp.cli.messages import say, warnings_as_remarks
from polysharp.errors import InputError

WHOLE = ("holdout", "report", "sheet", "impute", "indicators", "no_header")  # need all rows at once


def stands_for_many(options: argparse.Namespace) -> bool:
    """Whether the table is a folder, a pattern, or left to a cluster."""
    if options.scheduler is not None:
        return True
    path = Path(options.table)
    return path.is_dir() or (any(mark in options.table for mark in "*?[") and not path.exists())


def fit_files(model: Any, options: argparse.Namespace) -> None:
    """Fit the model to all files that the table stands for."""
    from polysharp.data.cluster import cluster

    for name in WHOLE:
        if getattr(options, name):
            option = name.replace("_", "-")
            raise InputError(
                f"--{option} needs the rows in memory, and {options.table!r} is read in blocks"
            )
    with cluster(options.scheduler), warnings_as_remarks():
        opened = open_files(options)
        blocks = opened.X.npartitions
        p = len(opened.X.columns)
        inputs = f"{p} input{'s' if p > 1 else ''}"
        print(f"{options.table}: {blocks} blocks, {inputs}, target {options.target}", flush=True)
        with shared.every_core(options):
            model.fit(*opened)


def open_files(options: argparse.Namespace) -> Any:
    """Open the files and pick their columns."""
    from polysharp.cli.columns import listed
    from polysharp.data.scanning import scan

    inputs = shared.columns(options, "inputs")
    exclude = shared.columns(options, "exclude") or []
    opened = scan(
        options.table,
        options.target,
        inputs=inputs,
        exclude=exclude,
        weights=options.weights,
        drop_missing=options.drop_missing,
        csv_options=csv_options(options),
    )
    say(f"inputs {listed(list(opened.X.columns))}")
    if options.drop_missing:
        say("rows with missing values are left out, uncounted")
    return opened


def csv_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the user says about text, in the words of pandas."""
    found: dict[str, Any] = {"decimal": options.decimal, "encoding": options.encoding}
    if options.missing:
        found["na_values"] = options.missing
    mark = spelled(options.delimiter)
    if mark is not None:
        found["sep"] = r"\s+" if mark == WHITESPACE else mark
    return found
