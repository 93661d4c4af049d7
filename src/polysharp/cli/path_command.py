"""``polysharp path``: the best formula of every size, to choose one with open eyes."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli.exit_codes import ExitCode
from polysharp.cli.options import (
    add_budgets,
    add_columns,
    add_command,
    add_rules,
    add_search,
    add_table,
    every_core,
    read_sample,
    settings,
)
from polysharp.errors import InputError

EXAMPLES = """\
  polysharp path rides.csv --target power
      formulas of 1 to 20 terms with their errors on rows of the fit and on held-out rows
  polysharp path rides.csv -t power --degree 2 --max-terms 8 --formulas
  polysharp path rides.csv -t power --max-inputs 2,4 --gamma 1 --output sizes.csv
"""


def add_to(commands: Any) -> None:
    """Add the command."""
    summary = "show the best formula of every size"
    parser = add_command(commands, "path", run, "TABLE --target NAME", summary, EXAMPLES)
    add_table(parser)
    add_columns(parser)
    add_budgets(
        parser, degree=" (3)", terms="every number of terms up to this one (20)", gamma=" (auto)"
    )
    group = parser.add_argument_group("validation")
    group.add_argument(
        "--cv", metavar="N", type=int, default=5, help="folds (5); 0 for no validation"
    )
    group.add_argument(
        "--rule",
        choices=["one-se", "best"],
        default="one-se",
        help="which size to name: the shortest within one standard error of the best, or the best",
    )
    add_rules(parser)
    add_search(parser)
    group = parser.add_argument_group("results")
    group.add_argument("--formulas", action="store_true", help="print the formula of every size")
    group.add_argument("--output", "-o", metavar="FILE", help="write sizes and formulas as a table")
    group.add_argument("--digits", metavar="N", type=int, default=4, help="of the formulas shown")
    group.add_argument(
        "--require-proof", action="store_true", help="exit with 3 unless every size is proved"
    )


def run(options: argparse.Namespace) -> int:
    """Read, walk the sizes, print, write."""
    from polysharp.cli.tables import check_writable, write_table
    from polysharp.selection.size_path import path

    check_writable(options.output)
    given = settings(options)
    for name in ("degree", "gamma"):
        if isinstance(given.get(name), list):
            raise InputError(f"--{name} must be one number, got {given[name]}")
    sample = read_sample(options)
    with every_core(options):
        curve = path(sample.X, sample.y, sample.sample_weight, cv=options.cv or None, **given)
    print(f"{options.table}: {len(sample)} rows, degree {curve.degree}, gamma {curve.gamma:.4g}\n")
    print(curve)
    if options.formulas:
        print("", *(point.polynomial.formula(options.digits) for point in curve), sep="\n")
    if curve.n_splits:
        best = curve.best(options.rule)
        shown = best.polynomial.formula(options.digits)
        print(f"\nby validation ({options.rule}), {best.max_terms} terms:\n\n{shown}")
    if options.output is not None:
        write_table(curve.to_frame(), options.output)
        print(f"\nwrote {len(curve)} sizes to {options.output}")
    if options.cv and not curve.n_splits:
        return ExitCode.INTERRUPTED  # while the sizes were validated
    return exit_code(curve, options.require_proof)


def exit_code(curve: Any, require_proof: bool) -> ExitCode:
    """Return the worst of what the sizes say."""
    from polysharp.cli.fit_command import exit_code as of_one

    return max((of_one(point.solution, require_proof) for point in curve), default=ExitCode.DONE)
