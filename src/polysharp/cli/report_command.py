"""``polysharp report``: one self-contained HTML page about a saved model and its table."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli import shared
from polysharp.cli.command import Command, ExitCode
from polysharp.errors import InputError

COMMAND = Command(
    "report",
    "MODEL TABLE",
    "write a report about a saved model",
    f"""
{shared.MODEL}
{shared.TABLE}
the report:
--output -o FILE=report.html  HTML file
--title TEXT         title of the page
--target -t NAME     the model's own if not given
--weights NAME       column with weights of the rows
--drop-missing       leave out rows with missing values
--sizes L            compare formulas of up to so many terms; twice the model's, at least 8, if not
                     given; 0 for no comparison
--time-limit SECONDS=30  of the comparison (30)
--quiet -q           show no progress
""",
    """\
  polysharp report model.json rides.csv --output report.html
  polysharp report model.json may.csv -o may.html --title "Rides in May" --sizes 0
""",
)


def run(options: argparse.Namespace) -> int:
    """Load, read, compare sizes, write."""
    from polysharp.cli.recipe import Recipe
    from polysharp.estimators.model_file.model_file import load_columns, load_model
    from polysharp.report import write_report

    shared.check_outputs(options, "output", reads=("model", "table"))
    model = load_model(options.model)
    law = model.polynomial_
    recipe = Recipe.read(load_columns(options.model))
    sample = shared.read_rows(options, law.names, options.target or law.response, recipe)
    write_report(
        model,
        sample.X,
        sample.y,
        options.output,
        path=sizes(options, model, sample),
        title=options.title,
        sample_weight=sample.sample_weight,
    )
    print(f"wrote the report to {options.output}")
    return ExitCode.DONE


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
