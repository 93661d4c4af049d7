"""``polysharp predict``: a saved model on new rows.

Only the columns that the formula uses are needed and read (for intervals, also those of the
formulas that folds of the fit chose).  Other columns must be known to the model, left out by its
fit, kept or excluded, so that a misspelt column does not pass unseen.

A row with a missing input has no prediction.  A row with an input beyond the range of the fit has
one, but no interval, and the column ``outside`` names the inputs.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from polysharp.cli.command import ExitCode, say
from polysharp.cli.recipe import Recipe, to_numbers
from polysharp.cli.table_columns import accuracy, find, joined, listed, numbers
from polysharp.cli.table_rows import columns, read_frame
from polysharp.cli.tables import check_outputs, write_table
from polysharp.errors import InputError
from polysharp.estimators.model import check_coverage, formulas_of
from polysharp.estimators.model_file.model_file import load_columns, load_model
from polysharp.estimators.scored_rows import ScoredRows

COLUMN, LOWER, UPPER, OUTSIDE = "prediction", "lower", "upper", "outside"


def run_predict(options: Namespace) -> int:
    """Load, read, predict, write."""
    check_outputs(options, "output", reads=("model", "table"))
    model = load_model(options.model)
    formulas = formulas_of(model)
    names, read = formulas[0].names, list(formulas)
    made = [f"{COLUMN}_{each.response}" for each in formulas] if len(formulas) > 1 else [COLUMN]
    pairs: list[list[str]] = []
    measured: Sequence[Any] = ()
    if options.interval is not None:
        measured = calibrations_of(model, options)
        read += [fold.polynomial for own in measured for fold in own.folds]
        pairs = [[name.replace(COLUMN, end, 1) for end in (LOWER, UPPER)] for name in made]
    recipe = Recipe.read(load_columns(options.model))
    recipe.adopt(options)
    raw = read_frame(options)
    keep = list(raw.columns) if options.keep_all else columns(options, "keep") or []
    used = sorted({i for each in read for i in each.inputs})  # formulas of folds may use others
    needed = [names[i] for i in used]
    written = [*made, *(name for pair in pairs for name in pair), OUTSIDE]
    check_columns(raw, options, formulas, recipe, needed, keep, written)
    recipe.say_unseen(raw, needed)
    frame = recipe.apply(raw)
    X = np.zeros((len(frame), len(names)))
    if used:
        X[:, used] = numbers(frame, options.table, needed).to_numpy()
    incomplete = np.isnan(X).any(axis=1)
    result, predicted = raw[keep].copy(), [each(np.nan_to_num(X)) for each in formulas]
    for name, values in zip(made, predicted, strict=True):
        result[name] = np.where(incomplete, np.nan, values)
    outside = recipe.outside(X[:, used], needed)
    beyond = np.array([bool(inputs) for inputs in outside])
    for pair, own in zip(pairs, measured, strict=True):
        limits = own.limits(np.nan_to_num(X), options.interval)
        result[pair] = np.where((incomplete | beyond)[:, None], np.nan, limits)
    if beyond.any():
        result[OUTSIDE] = outside
        clamped = "; their inputs were clamped" if formulas[0].ranges is not None else ""
        missing = ", and they have no interval" if pairs else ""
        say(
            f"{beyond.sum()} of {len(X)} rows lie outside the range of the fit, where nothing is "
            f"known of the error{missing}: the column {OUTSIDE!r} names the inputs{clamped}"
        )
    if incomplete.any():
        say(f"{incomplete.sum()} of {len(X)} rows have missing inputs and no prediction")
    write_table(result, options.output)
    if options.output != "-":
        named = ", ".join(each.response for each in formulas)
        print(f"wrote {len(result)} predictions of {named} to {options.output}")
    for each, values in zip(formulas, predicted, strict=True):
        compare(frame[~incomplete], each, X[~incomplete], values[~incomplete])
    return ExitCode.DONE


def calibrations_of(model: Any, options: Namespace) -> Sequence[Any]:
    """Return the errors on unseen rows that the model file holds, or say how to get some."""
    try:
        check_coverage(options.interval)
    except InputError as error:
        raise InputError(f"--interval: {error}") from error
    found: Sequence[Any] = model.fitted_.calibrations
    if not found:
        raise InputError(
            f"--interval needs errors on unseen rows, which {options.model!r} does not hold: it "
            "was fitted to fewer than 20 rows, or to many files, or saved before calibrate"
        )
    return found


def check_columns(
    frame: Any,
    options: Namespace,
    formulas: Sequence[Any],
    recipe: Recipe,
    needed: list[str],
    keep: list[str],
    made: list[str],
) -> None:
    """Refuse a table that lacks what the formulas need, or has what nobody knows."""
    exclude = columns(options, "exclude") or []
    find(frame, options.table, keep, "--keep")
    find(frame, options.table, exclude, "--exclude")
    for name in made:
        if name in keep:
            raise InputError(f"--keep must not name {name!r}, a column of the predictions")
    present = [name for name in frame.columns if name not in exclude]
    if missing := [name for name in needed if name not in recipe.names(present)]:
        raise InputError(
            f"{options.table!r} must have the columns that the formula of {options.model!r} uses, "
            f"got no {listed(missing)}; it has {listed(present)}"
        )
    known = {*formulas[0].names, *(each.response for each in formulas), *keep}
    known |= {*recipe.reading.get("left_out", ()), recipe.reading.get("weights")}
    unknown = [name for name in present if not known & {name, *recipe.names([name])}]
    if unknown and not options.ignore_unknown:
        raise InputError(
            f"{options.table!r} has columns that {options.model!r} does not know, "
            f"{listed(unknown)}; leave them out with --exclude '{joined(unknown)}' "
            "or --ignore-unknown"
        )


def compare(frame: Any, polynomial: Any, X: Any, predicted: Any) -> None:
    """Say how far off the predictions are, where the table has the answer."""
    if polynomial.response not in frame.columns or not len(frame):
        return
    observed = to_numbers(frame[polynomial.response]).to_numpy()
    if np.isfinite(observed).all():  # new rows may not have it, or have it in part
        rows = ScoredRows(X, observed, predicted, None)
        say(f"{accuracy(rows)} against the column {polynomial.response!r}")
