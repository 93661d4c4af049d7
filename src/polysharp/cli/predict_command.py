"""``polysharp predict``: a saved model on new rows.

Only the columns that the formula uses are needed and read (for intervals, also those of the
formulas that folds of the fit chose); what the table has besides must be known to the model, kept
or excluded, so that a misspelt column does not pass unseen.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from polysharp.cli import shared
from polysharp.cli.command import ExitCode
from polysharp.cli.messages import say
from polysharp.cli.recipe import Recipe
from polysharp.cli.table_columns import accuracy, find, joined, listed, numbers
from polysharp.cli.tables import write_table
from polysharp.errors import InputError
from polysharp.estimators.fitted import ShownRows, laws_of
from polysharp.estimators.intervals import calibrations
from polysharp.estimators.model import check_coverage
from polysharp.estimators.model_file.model_file import load_columns, load_model

COLUMN, LOWER, UPPER = "prediction", "lower", "upper"


def run_predict(options: Namespace) -> int:
    """Load, read, predict, write."""
    shared.check_outputs(options, "output", reads=("model", "table"))
    model = load_model(options.model)
    formulas = laws_of(model)
    polynomial, laws = formulas[0], list(formulas)
    made = [f"{COLUMN}_{law.response}" for law in formulas] if len(formulas) > 1 else [COLUMN]
    if options.interval is not None:
        measured = calibrations_of(model, options)
        laws += [fold.polynomial for own in measured for fold in own.folds]
        ends = [[name.replace(COLUMN, end, 1) for end in (LOWER, UPPER)] for name in made]
        made = [*made, *(name for pair in ends for name in pair)]
    recipe = Recipe.read(load_columns(options.model))
    raw = shared.read_frame(options)
    keep = list(raw.columns) if options.keep_all else shared.columns(options, "keep") or []
    used = sorted({i for law in laws for i in law.inputs})  # formulas of folds may use others
    needed = [polynomial.names[i] for i in used]
    check_columns(raw, options, laws, recipe, needed, keep, made)
    recipe.say_unseen(raw, needed)
    frame = recipe.apply(raw)
    X = np.zeros((len(frame), len(polynomial.names)))
    if used:
        X[:, used] = numbers(frame, options.table, needed, made_of=recipe.made_of).to_numpy()
    result, predicted = raw[keep].copy(), [law(X) for law in formulas]
    for name, values in zip(made, predicted, strict=False):
        result[name] = values
    if options.interval is not None:
        for (low, high), own in zip(ends, measured, strict=True):
            result[low], result[high] = own.ends(X, options.interval).T
    beyond = int(polynomial.outside(X).sum())
    if beyond:
        say(f"{beyond} of {len(X)} rows have inputs beyond those of the fit, which are clamped")
    write_table(result, options.output)
    if options.output != "-":
        named = ", ".join(law.response for law in formulas)
        print(f"wrote {len(result)} predictions of {named} to {options.output}")
    for law, values in zip(formulas, predicted, strict=True):
        compare(frame, options.table, law, X, values)
    return ExitCode.DONE


def calibrations_of(model: Any, options: Namespace) -> Sequence[Any]:
    """Return the errors on unseen rows that the model file holds, or say how to get some."""
    try:
        check_coverage(options.interval)
    except InputError as error:
        raise InputError(f"--interval: {error}") from error
    found = calibrations(model)
    if not found:
        raise InputError(
            f"--interval needs errors on unseen rows, which {options.model!r} does not hold: it "
            "was written by an earlier version, or fitted to fewer than 20 rows, or to many "
            "files; fit it again"
        )
    return found


def check_columns(
    frame: Any,
    options: Namespace,
    laws: list[Any],
    recipe: Any,
    needed: list[str],
    keep: list[str],
    made: list[str],
) -> None:
    """Refuse a table that lacks what the formulas need, or has what nobody knows."""
    exclude = shared.columns(options, "exclude") or []
    find(frame, options.table, keep, "--keep")
    find(frame, options.table, exclude, "--exclude")
    for name in made:
        if name in keep:
            raise InputError(f"--keep must not name {name!r}, a column of the predictions")
    columns = [name for name in frame.columns if name not in exclude]
    missing = [name for name in needed if name not in recipe.names(columns)]
    if missing:
        raise InputError(
            f"{options.table!r} must have the columns that the formula of {options.model!r} uses, "
            f"got no {listed(missing)}; it has {listed(columns)}"
        )
    known = {*laws[0].names, *(law.response for law in laws), *keep}
    unknown = [name for name in columns if not known & {name, *recipe.names([name])}]
    if unknown and not options.ignore_unknown:
        raise InputError(
            f"{options.table!r} has columns that {options.model!r} does not know, "
            f"{listed(unknown)}; leave them out with --exclude '{joined(unknown)}' "
            "or --ignore-unknown"
        )


def compare(frame: Any, source: str, polynomial: Any, X: Any, predicted: Any) -> None:
    """Say how far off the predictions are, where the table has the answer."""
    if polynomial.response not in frame.columns:
        return
    try:
        observed = numbers(frame, source, [polynomial.response]).to_numpy().ravel()
    except InputError:
        return  # the answer is not there for all rows, as one expects of new rows
    rows = ShownRows(X, observed, predicted, None)
    say(f"{accuracy(rows)} against the column {polynomial.response!r}")
