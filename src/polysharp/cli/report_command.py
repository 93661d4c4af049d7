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
    from polysharp.cli.tables import check_writable
    from polysharp.estimators.model_file.model_file import load_model
    from polysharp.report import write_report

    check_writable(options.output)
    model = load_model(options.model)
    sample = read_rows(options, model)
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


def read_rows(options: argparse.Namespace, model: Any) -> Any:
    """Return the model's columns of the table, in the model's order."""
    from polysharp.cli.columns import Sample, choose, listed

    frame = shared.read_frame(options)
    names = list(model.polynomial_.names)
    target = options.target or model.polynomial_.response
    missing = [name for name in (*names, target) if name not in frame.columns]
    if missing:
        raise InputError(
            f"{options.table!r} must have the inputs and the target of {options.model!r}, "
            f"got no {listed(missing)}; it has {listed(list(frame.columns))}"
        )
    chosen = choose(
        frame,
        options.table,
        target,
        inputs=names,
        weights=options.weights,
        drop_missing=options.drop_missing,
    )
    return Sample(chosen.X[names], chosen.y, chosen.sample_weight)


def sizes(options: argparse.Namespace, model: Any, sample: Any) -> Any:
    """Return the best formula of every size under the model's settings, None for no comparison."""
    most = max(8, 2 * len(model.polynomial_)) if options.sizes is None else options.sizes
    if most < 0:
        raise InputError(f"--sizes must not be negative, got {most}")
    if most == 0:
        return None
    from polysharp.estimators.path import path

    # Engine, device and "every input" are what one model was worth; here many are compared.
    given = {**model.get_params(), "gamma": model.gamma_, "max_terms": most}
    given |= {"engine": "auto", "device": None, "n_candidates": model.n_candidates or "auto"}
    given |= {"time_limit": options.time_limit, "verbose": 0 if options.quiet else 1}
    with shared.every_core(options):
        return path(sample.X, sample.y, sample.sample_weight, cv=min(5, len(sample)), **given)
