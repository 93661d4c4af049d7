"""What commands leave behind: files, and the code that they end with."""

from __future__ import annotations

import os
from argparse import Namespace
from glob import escape, glob
from typing import Any

from polysharp.certificate.solution import Status, Stop
from polysharp.cli.command import ExitCode
from polysharp.data.file_writing import check_targets


def exit_code(solution: Any, require_proof: bool) -> ExitCode:
    """Return what scripts learn from a search."""
    if solution.stop is Stop.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if require_proof and solution.status is not Status.OPTIMAL:
        return ExitCode.NOT_PROVED
    return ExitCode.DONE


def check_outputs(options: Namespace, *names: str, reads: tuple[str, ...] = ("table",)) -> None:
    """Refuse outputs that cannot be written or would overwrite what is read, before the work.

    ``names`` are the options that name files to write and ``reads`` those that name files to
    read; "-" is a pipe and no file.
    """
    targets = {f"--{name}": getattr(options, name) for name in names}
    sources = [file for name in reads for file in _files(getattr(options, name))]
    check_targets({what: file for what, file in targets.items() if file != "-"}, sources)


def _files(given: str) -> list[str]:
    """Return the files that an argument stands for: one, those of a folder, or of a pattern."""
    if given == "-":
        return []
    if os.path.isdir(given):
        return glob(os.path.join(escape(given), "**"), recursive=True)
    return [given, *glob(given)]
