"""``polysharp report``: one self-contained HTML page about a saved model and its table."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli.exit_codes import ExitCode
from polysharp.cli.options import add_command, add_table, every_core, table_format
from polysharp.errors import InputError

EXAMPLES = """\
  polysharp report model.json rides.csv --output report.html
  polysharp report model.json may.csv -o may.html --title "Rides in May" --sizes 0
"""


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands, "report", run, "MODEL TABLE", "write a report about a saved model", EXAMPLES
    )
    parser.add_argument("model", metavar="MODEL", help="JSON file that polysharp fit wrote")
    add_table(parser)
    group = parser.add_argument_group("the report")
    group.add_argument("--output", "-o", metavar="FILE", default="report.html", help="HTML file")
    group.add_argument("--title", metavar="TEXT", help="title of the page")
    group.add_argument("--target", "-t", metavar="NAME", help="the model's own if not given")
    group.add_argument("--weights", metavar="NAME", help="column with weights of the rows")
    group.add_argument(
        "--drop-missing", action="store_true", help="leave out rows with missing values"
    )
    group.add_argument(
        "--sizes",
        metavar="L",
        type=int,
        help="compare formulas of up to so many terms; twice the model's, at least 8, if not "
        "given; 0 for no comparison",
    )
    group.add_argument(
        "--time-limit", metavar="SECONDS", type=float, default=30.0, help="of the comparison (30)"
    )
    group.add_argument("--quiet", "-q", action="store_true", help="show no progress")


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
    from polysharp.cli.tables import read_table

    frame = read_table(options.table, table_format(options))
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
    from polysharp.selection.size_path import path

    # Engine, device and "every input" are what one model was worth; here many are compared.
    given = {**model.get_params(), "gamma": model.gamma_, "max_terms": most}
    given |= {"engine": "auto", "device": None, "n_candidates": model.n_candidates or "auto"}
    given |= {"time_limit": options.time_limit, "verbose": 0 if options.quiet else 1}
    with every_core(options):
        return path(sample.X, sample.y, sample.sample_weight, cv=min(5, len(sample)), **given)
