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
    from polysharp.estimators.fitted import laws_of
    from polysharp.estimators.model_file.model_file import load_columns, load_model
    from polysharp.report import write_report

    shared.check_outputs(options, "output", reads=("model", "table"))
    model = load_model(options.model)
    laws = laws_of(model)
    recipe = Recipe.read(load_columns(options.model))
    if len(laws) > 1:
        return write_joint(options, model, recipe)
    law = laws[0]
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


def write_joint(options: argparse.Namespace, model: Any, recipe: Any) -> ExitCode:
    """Write a report on several responses; refuse what is for one."""
    from polysharp.estimators.fitted import laws_of
    from polysharp.report import write_report

    laws = laws_of(model)
    for name in ("target", "rivals"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name} is for models of one response, and {options.model!r} has {len(laws)}"
            )
    sample = shared.read_rows(options, laws[0].names, [law.response for law in laws], recipe)
    about: dict[str, Any] = {"title": options.title, "sample_weight": sample.sample_weight}
    write_report(model, sample.X, sample.y, options.output, **about)
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
