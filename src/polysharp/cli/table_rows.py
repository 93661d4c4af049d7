"""From the options of a command to the rows of its table.

read_sample    the table of a fit: columns chosen, texts and missing cells dealt with, and a
recipe that repeats all of it
rows_for       the table of a saved model, read and split as its fit did
read_rows      the same for a proof, which knows the names of its columns only
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polysharp.cli.command import say
from polysharp.cli.delimited import Format
from polysharp.cli.recipe import Recipe
from polysharp.cli.table_cells import is_number
from polysharp.cli.table_columns import (
    choose_inputs,
    complete,
    counters,
    find,
    listed,
    numbers,
    split_names,
    targets_of,
    useless,
)
from polysharp.cli.tables import read_table
from polysharp.errors import InputError
from polysharp.estimators.model import formulas_of
from polysharp.estimators.model_file.model_file import load_columns
from polysharp.wording import plural


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a fit: inputs, target, weights where a column holds them, and the recipe."""

    X: Any
    y: Any  # a column, or a table where there are several targets
    sample_weight: Any
    recipe: Recipe

    def __len__(self) -> int:
        return len(self.y)

    @property
    def targets(self) -> list[str]:
        """Names of the targets."""
        return [str(self.y.name)] if self.y.ndim == 1 else list(map(str, self.y.columns))

    @property
    def given(self) -> tuple[Any, Any, Any]:
        """Inputs, target and weights, as ``fit`` takes them."""
        return self.X, self.y, self.sample_weight

    def rows(self, index: Any) -> Sample:
        """Return some of the rows."""
        X, y, weights = (part if part is None else part.iloc[index] for part in self.given)
        return Sample(X, y, weights, self.recipe)


def read_frame(options: Namespace) -> Any:
    """Read the table as the user describes it."""
    if options.decimal is not None and len(options.decimal) != 1:
        raise InputError(f"--decimal must be one character, got {options.decimal!r}")
    if options.skip_lines is not None and options.skip_lines < 0:
        raise InputError(f"--skip-lines must not be negative, got {options.skip_lines}")
    said = ("delimiter", "decimal", "encoding", "sheet", "skip_lines")
    form = Format(
        **{name: getattr(options, name) for name in said},
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


def read_sample(options: Namespace) -> Sample:
    """Read the table and pick its columns."""
    frame, source = read_frame(options), options.table
    targets = [column(options, name) for name in targets_of(frame.columns, options.target)]
    weights = _weights(options)
    inputs, exclude = columns(options, "inputs"), columns(options, "exclude") or []
    named = {"--target": targets, "--weights": weights, "--inputs": inputs or ()}
    for option, names in {**named, "--exclude": exclude}.items():
        find(frame, source, names, option)
    chosen = choose_inputs(frame, source, targets, inputs, {*exclude, *weights})
    if inputs is None:
        dropped = useless(frame, chosen, options.indicators)
        if 0 < len(dropped) < len(chosen):
            why = ", ".join(f"{name!r} ({reason})" for name, reason in dropped.items())
            say(f"left out {plural(len(dropped), 'column')}: {why}")
            chosen = [name for name in chosen if name not in dropped]
        for name in counters(frame, chosen):
            say(f"column {name!r} counts the rows: --exclude it unless it can be a cause")
    recipe = Recipe.learn(frame[chosen], indicators=options.indicators, impute=options.impute)
    recipe.say()
    used = recipe.names(chosen)
    sample = _sample(options, frame, recipe, used, targets, several=len(targets) > 1)
    others = [n for n in frame.columns if n not in {*chosen, *targets, *weights}]
    return replace(sample, recipe=recipe.kept(options, others, sample.X))


def _weights(options: Namespace) -> list[str]:
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
    """Return the inputs, targets and weights of a table as numbers."""
    source, weights = options.table, _weights(options)
    if all(map(is_number, frame.columns)):
        say(f"the numbers in the first line of {source} are taken for names; if not, --no-header")
    spared = inputs if hasattr(options, "exclude") else ()  # a model needs all of its inputs
    table = numbers(recipe.apply(frame), source, [*inputs, *targets, *weights], spared)
    table = complete(table, source, spared, options.drop_missing, recipe.made_of)
    if len(table) < 2:
        raise InputError(f"{source!r} must have at least 2 rows to fit, got {len(table)}")
    for target in targets:
        y = table[target]
        if y.min() == y.max():
            raise InputError(
                f"the target {target!r} of {source!r} is constant ({y.iloc[0]:g} in all "
                f"{len(y)} rows)"
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

    Without a recipe one is made: indicators as the names ask for them, and cells filled in.  With
    ``several``, y is a table even of one target.
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


def rows_for(options: Namespace, model: Any, file: str) -> tuple[Sample, Sample | None]:
    """Return the rows that a saved model was fitted to, and those that its fit held out.

    The options of the fit hold for its table as far as the user says nothing else.  A table with
    another number of rows is not split.
    """
    each, own = formulas_of(model), getattr(options, "target", None)
    recipe, several = Recipe.read(load_columns(file)), model.fitted_.scales is not None
    recipe.adopt(options)
    targets = [column(options, own) if own else polynomial.response for polynomial in each]
    sample = read_rows(options, each[0].names, targets, recipe, several=several)
    kept = recipe.reading
    if getattr(options, "holdout", None) is not None:
        return split(sample, options.holdout, options.seed)
    if "holdout" not in kept or kept["rows"] != len(sample):
        return sample, None
    return split(sample, kept["holdout"], kept["seed"])


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
