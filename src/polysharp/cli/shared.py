"""What several commands do: settings of the search, the table and its columns, saved models."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from glob import escape, glob
from typing import Any

import numpy as np
from joblib import parallel_config

from polysharp.certificate.solution import Status, Stop
from polysharp.cli.command import NONE, ExitCode
from polysharp.cli.delimited import Format, is_number
from polysharp.cli.messages import say
from polysharp.cli.recipe import Recipe
from polysharp.cli.table_columns import (
    Sample,
    choose_inputs,
    find,
    listed,
    numbers,
    split_names,
    targets_of,
)
from polysharp.cli.tables import read_table
from polysharp.errors import InputError
from polysharp.estimators.fitted import laws_of
from polysharp.estimators.model_file.model_file import load_columns, load_model
from polysharp.estimators.stability import stability
from polysharp.files import check_targets

SAME = """degree max_terms max_inputs gamma center engine time_limit gap_tol device max_interaction
interaction_degree heredity"""
PARAMETERS = {  # of the library, and what the command line calls them
    **{name: name for name in SAME.split()},
    "n_candidates": "candidates",
    "n_jobs": "jobs",
    "random_state": "seed",
    "include_terms": "include_term",
    "exclude_terms": "exclude_term",
}


def settings(options: Namespace) -> dict[str, Any]:
    """Return the parameters of the library that the user gave; others keep their defaults."""
    functions = options.functions and read_functions(options.functions)
    if isinstance(functions, dict):
        functions = {column(options, name): own for name, own in functions.items()}
    inputs, bounds = options.include_input, options.coefficient_bounds
    found = {name: getattr(options, option) for name, option in PARAMETERS.items()} | {
        "functions": functions,
        "include_inputs": inputs and [column(options, name) for name in inputs],
        "fit_intercept": False if options.no_intercept else None,
        "scale": False if options.no_scale else None,
        "positive": options.positive or None,
        "coefficient_bounds": bounds and {column(options, name): ends for name, ends in bounds},
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


def read_frame(options: Namespace) -> Any:
    """Read the table as the user describes it."""
    if len(options.decimal) != 1:
        raise InputError(f"--decimal must be one character, got {options.decimal!r}")
    form = Format(
        options.delimiter,
        options.decimal,
        options.encoding,
        options.sheet,
        header=not options.no_header,
        missing=tuple(options.missing or ()),
    )
    return read_table(options.table, form)


def columns(options: Namespace, name: str) -> list[str] | None:
    """Return the columns that an option names, None where it was not given."""
    given = split_names(getattr(options, name))
    return None if given is None else [column(options, each) for each in given]


def column(options: Namespace, name: str) -> str:
    """Return what a column is called; without a header, its number will do."""
    return f"x{name}" if options.no_header and name.isdigit() else name


def read_sample(options: Namespace, *, several: bool = False) -> Sample:
    """Read the table and pick its columns; where ``several`` targets will do, all that are named.

    A target is a column of just that name, or else names with commas between them.
    """
    frame, source = read_frame(options), options.table
    named = targets_of(frame.columns, options.target)
    if len(named) > 1 and not several:
        raise InputError(f"--target must be one column here, got {listed(named)}")
    targets, weights = [column(options, target) for target in named], _weights(options)
    inputs, exclude = columns(options, "inputs"), columns(options, "exclude") or []
    find(frame, source, targets, "--target")
    find(frame, source, weights, "--weights")
    find(frame, source, inputs or (), "--inputs")
    find(frame, source, exclude, "--exclude")
    chosen = choose_inputs(frame, source, targets, inputs, {*exclude, *weights})
    recipe = Recipe.learn(frame[chosen], indicators=options.indicators, impute=options.impute)
    recipe.say()
    used = recipe.names(chosen)
    return _sample(options, frame, recipe, used, targets, several=len(targets) > 1)


def _weights(options: Namespace) -> list[str]:
    """Return the column of weights, if there is one."""
    return [] if options.weights is None else [column(options, options.weights)]


def _sample(
    options: Namespace,
    frame: Any,
    recipe: Recipe,
    inputs: Sequence[str],
    targets: Sequence[str],
    *,
    several: bool,
) -> Sample:
    """Treat a table by a recipe, and check that inputs and targets are numbers to fit."""
    source, weights = options.table, _weights(options)
    if all(map(is_number, frame.columns)):
        say(f"the numbers in the first line of {source} are taken for names; if not, --no-header")
    made, names = recipe.apply(frame), [*inputs, *targets, *weights]
    table = numbers(
        made,
        source,
        names,
        spared=inputs if hasattr(options, "exclude") else (),  # a model needs all of its inputs
        drop_missing=options.drop_missing,
        made_of=recipe.made_of,
    )
    if len(table) < 2:
        raise InputError(f"{source!r} must have at least 2 rows to fit, got {len(table)}")
    for target in targets:
        y = table[target]
        if y.min() == y.max():
            raise InputError(
                f"the target {target!r} must vary, got {y.iloc[0]:g} in all {len(y)} rows of "
                f"{source!r}"
            )
    y = table[list(targets)] if several else table[targets[0]]
    return Sample(table[list(inputs)], y, table[weights[0]] if weights else None, recipe)


def read_rows(
    options: Namespace,
    names: Sequence[str],
    targets: Sequence[str],
    recipe: Recipe | None = None,
    *,
    several: bool,
) -> Sample:
    """Return columns of the table that a model or a proof knows, in its order.

    Without a recipe one is made: indicators as the names ask for them, and cells filled in.  What
    is for ``several`` targets takes a table of them, be there only one.
    """
    frame = read_frame(options)
    recipe = Recipe.of_names(names, frame, options.impute) if recipe is None else recipe
    known = recipe.apply(frame).columns
    missing = [name for name in (*names, *targets) if name not in known]
    if missing:
        raise InputError(
            f"{options.table!r} must have the inputs and the target of the fit, "
            f"got no {listed(missing)}; it has {listed(list(frame.columns))}"
        )
    find(frame, options.table, _weights(options), "--weights")
    return _sample(options, frame, recipe, names, targets, several=several)


def rows_for(options: Namespace, model: Any, file: str) -> Sample:
    """Return the rows of the table that a saved model is about."""
    laws, own = laws_of(model), getattr(options, "target", None)
    targets = [column(options, own) if own else law.response for law in laws]
    recipe, several = Recipe.read(load_columns(file)), hasattr(model, "polynomials_")
    return read_rows(options, laws[0].names, targets, recipe, several=several)


def load_single(path: str, command: str) -> Any:
    """Return the model of a file, which must be one of a single response."""
    model = load_model(path)
    check_single(model, path, f"polysharp {command}")
    return model


def check_single(model: Any, path: str, what: str) -> None:
    """Refuse a model of several responses for what is about one."""
    if not hasattr(model, "polynomial_"):
        raise InputError(
            f"{what} is for models of one response, got {path!r} with a {type(model).__name__}"
        )


def resampled(options: Namespace, model: Any, sample: Any, count: int, **how: Any) -> Any:
    """Return what so many resamples of the rows find; None where none is wanted."""
    if count < 0:
        raise InputError(f"--resamples must not be negative, got {count}")
    if count == 0:
        return None
    how |= {"n_resamples": count, "random_state": options.seed}
    with every_core(options):
        return stability(model, *sample.given, **how)


def split(sample: Sample, share: float | None, seed: int) -> tuple[Sample, Sample | None]:
    """Return the rows to fit and the held-out rows, None without any."""
    if share is None:
        return sample, None
    if not 0.0 < share < 1.0:
        raise InputError(f"--holdout must be between 0 and 1, got {share:g}")
    aside = max(1, round(share * len(sample)))
    if len(sample) - aside < 2:
        raise InputError(
            f"--holdout must leave at least 2 rows to fit, got {share:g} of {len(sample)} rows"
        )
    order = np.random.default_rng(seed).permutation(len(sample))
    fitted, held_out = sample.rows(np.sort(order[aside:])), sample.rows(np.sort(order[:aside]))
    weights = held_out.sample_weight
    if weights is not None and not (weights > 0.0).any():
        raise InputError(f"--holdout must hold out rows of positive weight, got {aside} of zero")
    return fitted, held_out
