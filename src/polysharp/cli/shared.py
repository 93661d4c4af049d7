"""Options that several commands share: the table, its columns, the settings of the search."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from glob import escape, glob
from typing import TYPE_CHECKING, Any

from polysharp.cli.command import NONE
from polysharp.cli.delimited import Format
from polysharp.errors import InputError

if TYPE_CHECKING:
    from polysharp.cli.columns import Sample
    from polysharp.cli.recipe import Recipe

PARAMETERS = {  # of the library, and what the command line calls them
    **{
        name: name
        for name in (
            *("degree", "max_terms", "max_inputs", "gamma", "center", "engine", "time_limit"),
            *("gap_tol", "device", "max_interaction", "interaction_degree", "heredity"),
            "basis",
        )
    },
    "n_candidates": "candidates",
    "n_jobs": "jobs",
    "random_state": "seed",
    "include_terms": "include_term",
    "exclude_terms": "exclude_term",
    "include_inputs": "include_input",
}


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of the library that the user gave; others keep their defaults."""
    given = {name: getattr(options, option, None) for name, option in PARAMETERS.items()}
    found = {name: value for name, value in given.items() if value is not None}
    found = {name: None if value is NONE else value for name, value in found.items()}
    if getattr(options, "functions", None):
        found["functions"] = read_functions(options.functions)
    if getattr(options, "no_intercept", False):
        found["fit_intercept"] = False
    if getattr(options, "no_scale", False):
        found["scale"] = False
    if getattr(options, "positive", False):
        found["positive"] = True
    given_bounds = dict(getattr(options, "coefficient_bounds", None) or ())
    if given_bounds:
        found["coefficient_bounds"] = {
            "*" if whose is None else whose: pair for whose, pair in given_bounds.items()
        }
    return {**found, "verbose": 0 if options.quiet else 1}


def read_functions(given: Sequence[str]) -> list[str] | dict[str, list[str]]:
    """Return functions of all inputs, or those of each input that is named.

    Examples
    --------
    >>> read_functions(["inverse,log"]), read_functions(["speed=inverse", "mass=log"])
    (['inverse', 'log'], {'speed': ['inverse'], 'mass': ['log']})
    """
    pairs = [text.rpartition("=") for text in given]
    names = [[name.strip() for name in names.split(",")] for _, _, names in pairs]
    if not any(equals for _, equals, _ in pairs):
        return [name for some in names for name in some]
    if not all(equals for _, equals, _ in pairs):
        raise InputError(
            f"--functions must name inputs in all of its values or in none, got {list(given)}"
        )
    found: dict[str, list[str]] = {}
    for (name, _, _), some in zip(pairs, names, strict=True):
        found[name] = found.get(name, []) + some
    return found


def one_number(given: dict[str, Any], names: tuple[str, ...], where: str = "") -> None:
    """Refuse several values of a setting where only a search can compare them."""
    for name in names:
        if isinstance(given.get(name), list):
            option = name.replace("_", "-")
            raise InputError(f"--{option} must be one number{where}, got {given[name]}")


def every_core(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Return a context in which independent jobs take all cores, unless --jobs says how many."""
    if getattr(options, "jobs", None) is not None:
        return nullcontext()
    from joblib import parallel_config

    cores: AbstractContextManager[Any] = parallel_config("threading", n_jobs=-1)
    return cores


def check_outputs(
    options: argparse.Namespace, *names: str, reads: tuple[str, ...] = ("table",)
) -> None:
    """Refuse outputs that cannot be written or would overwrite what is read, before the work.

    ``names`` are the options that name files to write and ``reads`` those that name files to
    read; "-" is a pipe and no file.
    """
    from polysharp.files import check_targets

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


def read_sample(options: argparse.Namespace, *, several: bool = False) -> Sample:
    """Read the table and pick its columns; where ``several`` targets will do, all that are named.

    A target is a column of just that name, or else names with commas between them.
    """
    from polysharp.cli.columns import Wish, choose, listed, targets_of

    frame = read_frame(options)
    targets = targets_of(frame.columns, options.target)
    if len(targets) > 1 and not several:
        raise InputError(f"--target must be one column here, got {listed(targets)}")
    wish = Wish(
        targets=tuple(column(options, target) or "" for target in targets),
        inputs=columns(options, "inputs"),
        exclude=columns(options, "exclude") or (),
        weights=column(options, options.weights),
        drop_missing=options.drop_missing,
        impute=options.impute,
        indicators=options.indicators,
    )
    return choose(frame, options.table, wish)


def load_single(path: str, command: str) -> Any:
    """Return the model of a file, which must be one of a single response."""
    from polysharp.estimators.fitted import laws_of
    from polysharp.estimators.model_file.model_file import load_model

    model = load_model(path)
    if not hasattr(model, "polynomial_"):
        raise InputError(
            f"polysharp {command} is for models of one response, and {path!r} has "
            f"{len(laws_of(model))}"
        )
    return model


def read_rows(
    options: argparse.Namespace,
    names: Sequence[str],
    targets: Sequence[str],
    recipe: Recipe | None = None,
    impute: str | None = None,
) -> Sample:
    """Return columns of the table that a model or a proof knows, in its order.

    Without a recipe one is made: indicators as the names ask for them, and cells filled in.
    """
    from polysharp.cli.columns import Wish, choose, listed
    from polysharp.cli.recipe import Recipe

    frame = read_frame(options)
    recipe = Recipe.of_names(names, frame, impute) if recipe is None else recipe
    known = recipe.apply(frame).columns
    missing = [name for name in (*names, *targets) if name not in known]
    if missing:
        raise InputError(
            f"{options.table!r} must have the inputs and the target of the fit, "
            f"got no {listed(missing)}; it has {listed(list(frame.columns))}"
        )
    weights = column(options, options.weights)
    wish = Wish(tuple(targets), names, weights=weights, drop_missing=options.drop_missing)
    return choose(frame, options.table, wish, recipe)


def resampled(
    options: argparse.Namespace,
    model: Any,
    sample: Any,
    count: int,
    seconds: float,
    within: float = 0.0,
) -> Any:
    """Return what resamples of the rows find in some seconds; None where none is wanted."""
    if count < 0:
        raise InputError(f"--resamples must not be negative, got {count}")
    if count == 0:
        return None
    from polysharp.estimators.stability import stability

    with every_core(options):
        return stability(
            model,
            sample.X,
            sample.y,
            sample.sample_weight,
            n_resamples=count,
            within=within,
            time_limit=seconds,
            random_state=options.seed,
        )


def split(sample: Any, share: float | None, seed: int) -> tuple[Any, Any]:
    """Return the rows to fit and the held-out rows, None without any."""
    if share is None:
        return sample, None
    if not 0.0 < share < 1.0:
        raise InputError(f"--holdout must be between 0 and 1, got {share:g}")
    import numpy as np

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


def read_frame(options: argparse.Namespace) -> Any:
    """Read the table as the user describes it."""
    from polysharp.cli.tables import read_table

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


def columns(options: argparse.Namespace, name: str) -> list[str] | None:
    """Return the columns that an option names, None where it was not given."""
    from polysharp.cli.columns import split_names

    given = split_names(getattr(options, name))
    return None if given is None else [column(options, each) or "" for each in given]


def column(options: argparse.Namespace, name: str | None) -> str | None:
    """Return what a column is called; without a header, its number will do."""
    return f"x{name}" if name and options.no_header and name.isdigit() else name
