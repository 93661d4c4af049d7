"""``polysharp explain``: firmness of coefficients, shares of inputs, stationary points."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli import shared
from polysharp.cli.command import ExitCode
from polysharp.progress import plural

COEFFICIENTS = """\
What it is not: an interval holds the middle 90 % of the coefficients that resamples of the rows
give, zero where they do not pick the term. That is no confidence interval of a true coefficient:
the ridge shrinks all of them alike, by what the last column shows, and resamples repeat whatever
is wrong with the rows."""
INPUTS = """\
alone, in all: first-order and total Sobol indices, the variance of the predictions that is due to
an input by itself, and to all terms it is in, were the inputs to vary independently of each other.
over the rows: what the other terms cannot make up for on the rows as they are; small where other
inputs stand in for this one. None of them is about causes, or about what the formula leaves out."""
STATIONARY = """\
What it is not: a point of the formula, not of the process; outside the range seen it is a guess,
and where the surface is nearly flat a little noise moves it far."""


def run(options: argparse.Namespace) -> int:
    """Load, read, resample, measure, print."""
    from polysharp.cli.recipe import Recipe
    from polysharp.estimators.fitted import rows_of
    from polysharp.estimators.model_file.model_file import load_columns
    from polysharp.polynomial.stationary import stationary_points

    model = shared.load_single(options.model, "explain")
    law = model.polynomial_
    recipe = Recipe.read(load_columns(options.model))
    sample = shared.read_rows(options, law.names, [options.target or law.response], recipe)
    rows = rows_of(model, sample.X, sample.y, sample.sample_weight)
    print(f"{options.table}: {plural(rows.n, 'row')}\n\n{law.formula(options.digits)}")
    if found := resamples(options, model, sample):
        print(f"\nCoefficients\n{found}\n{COEFFICIENTS}")
    print(f"\nInputs\n{inputs(law, rows)}\n{INPUTS}")
    print(f"\nStationary points\n{stationary_points(law, rows.X)}\n{STATIONARY}")
    return ExitCode.DONE


def resamples(options: argparse.Namespace, model: Any, sample: Any) -> Any:
    """Return what resamples of the rows find, None where none is wanted."""
    count, seconds = options.resamples, options.time_limit
    return shared.resampled(options, model, sample, count, seconds, options.within)


def inputs(law: Any, rows: Any) -> str:
    """Return a line for every input in use, the most important first."""
    from polysharp.polynomial.importance import measure_importance

    found = measure_importance(law, rows.X, rows.weights)
    width = max([len(law.names[i]) for i in found.order], default=0)
    lines = [f"{'':<{width}}    alone   in all  over the rows"]
    for i in found.order:
        alone, whole, data = (
            f"{100 * s[i]:.1f} %" for s in (found.first, found.inputs, found.data)
        )
        lines.append(f"{law.names[i]:<{width}}  {alone:>7}  {whole:>7}  {data:>13}")
    return "\n".join(lines)
