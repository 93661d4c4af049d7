"""What the options of a command ask for: parameters of the library, cores, files, an exit code."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from glob import escape, glob
from typing import Any

from joblib import parallel_config

from polysharp.certificate.solution import Status, Stop
from polysharp.cli.command import NONE, ExitCode
from polysharp.cli.table_rows import column
from polysharp.data.files import check_targets
from polysharp.errors import InputError
from polysharp.estimators.parameters import option_names


def settings(options: Namespace) -> dict[str, Any]:
    """Return the parameters of the library that the user gave; others keep their defaults."""
    found = {name: getattr(options, option) for name, option in option_names().items()}
    functions = options.functions and read_functions(options.functions)
    if isinstance(functions, dict):
        functions = {column(options, name): own for name, own in functions.items()}
    inputs, bounds = options.include_input, options.coefficient_bounds
    found |= {
        "functions": functions,
        "include_inputs": inputs and [column(options, name) for name in inputs],
        "fit_intercept": False if options.no_intercept else None,
        "scale": False if options.no_scale else None,
        "positive": options.positive or None,
        "coefficient_bounds": bounds and {column(options, name): limits for name, limits in bounds},
        "verbose": 0 if options.quiet else 1,
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {name: None if value is NONE else value for name, value in given.items()}


def read_functions(given: Sequence[str]) -> list[str] | dict[str, list[str]]:
    """Return functions of all inputs, or those of each input that is named.

    Examples
    --------
    >>> read_functions(["inverse,log"]), read_functions(["speed=inverse", "mass=log"])
    (['inverse', 'log'], {'speed': ['inverse'], 'mass': ['log']})
    """
    pairs = [text.rpartition("=") for text in given]
    if len({equals for _, equals, _ in pairs}) > 1:
        raise InputError(
            f"--functions must name inputs in all of its values or in none, got {list(given)}"
        )
    found: dict[str, list[str]] = {}
    for whose, _, names in pairs:
        found.setdefault(whose, []).extend(name.strip() for name in names.split(","))
    return found if pairs[0][1] else found[""]


def one_number(given: dict[str, Any], names: tuple[str, ...], where: str = "") -> None:
    """Refuse several values of a setting where only a search can compare them."""
    for name in names:
        if isinstance(given.get(name), list):
            option = name.replace("_", "-")
            raise InputError(f"--{option} must be one number{where}, got {given[name]}")


def every_core(options: Namespace) -> AbstractContextManager[Any]:
    """Return a context in which independent jobs take all cores, unless --jobs says how many."""
    if getattr(options, "jobs", None) is not None:
        return nullcontext()
    cores: AbstractContextManager[Any] = parallel_config("threading", n_jobs=-1)
    return cores


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
    targets = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    sources = [file for name in reads for file in _files(getattr(options, name))]
    check_targets({what: file for what, file in targets.items() if file != "-"}, sources)


def _files(given: str) -> list[str]:
    """Return the files that an argument stands for: one, those of a folder, or of a pattern."""
    if given == "-":
        return []
    if os.path.isdir(given):
        return glob(os.path.join(escape(given), "**"), recursive=True)
    return [given, *glob(given)]
