"""``polysharp report``: one self-contained HTML page about a saved model and its table."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli import shared
from polysharp.cli.command import ExitCode
from polysharp.errors import InputError


def run(options: argparse.Namespace) -> int:
    """Load, read, compare sizes, write."""
    from polysharp.cli.recipe import Recipe
    from polysharp.estimators.model_file.model_file import load_columns
    from polysharp.report import write_report

    shared.check_outputs(options, "output", reads=("model", "table"))
    model = shared.load_single(options.model, "report")
    law = model.polynomial_
    recipe = Recipe.read(load_columns(options.model))
    sample = shared.read_rows(options, law.names, [options.target or law.response], recipe)
    write_report(
        model,
        sample.X,
        sample.y,
        options.output,
        path=sizes(options, model, sample),
        rivals=close(options, model, sample),
        title=options.title,
        stability=shared.resampled(options, model, sample, options.resamples, options.time_limit),
        sample_weight=sample.sample_weight,
    )
    print(f"wrote the report to {options.output}")
    return ExitCode.DONE


def close(options: argparse.Namespace, model: Any, sample: Any) -> Any:
    """Return the formulas that come close to the model, None where nobody asked."""
    if options.rivals is None:
        return None
    from polysharp.estimators.rivals import rivals

    given = sample.X, sample.y, sample.sample_weight
    return rivals(model, *given, within=options.rivals, time_limit=options.time_limit)


def sizes(options: argparse.Namespace, model: Any, sample: Any) -> Any:
    """Return the best formula of every size under the model's settings, None for no comparison."""
    most = max(8, 2 * len(model.polynomial_)) if options.sizes is None else options.sizes
    if most < 0:
        raise InputError(f"--sizes must not be negative, got {most}")
    if most == 0:
        return None
    from polysharp.cli.sizes import path_of

    with shared.every_core(options):
        return path_of(model, sample, most, options.time_limit, 5, 0 if options.quiet else 1)
