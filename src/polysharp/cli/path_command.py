"""``polysharp path``: the best formula of every size, to choose one with open eyes."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli import shared
from polysharp.cli.command import ExitCode
from polysharp.progress import plural


def run(options: argparse.Namespace) -> int:
    """Read, search every size, print, write."""
    from polysharp.cli.tables import write_table
    from polysharp.estimators.path import path

    shared.check_outputs(options, "output")
    given = shared.settings(options)
    shared.one_number(given, ("degree", "gamma"))
    sample = shared.read_sample(options)
    with shared.every_core(options):
        curve = path(sample.X, sample.y, sample.sample_weight, cv=options.cv or None, **given)
    print(
        f"{options.table}: {len(sample):,} rows, degree {curve.degree}, gamma {curve.gamma:.4g}\n"
    )
    print(curve)
    if options.formulas:
        print("", *(point.polynomial.formula(options.digits) for point in curve), sep="\n")
    if curve.n_splits:
        rule = options.rule or "one-se"
        best = curve.best(rule)
        shown = best.polynomial.formula(options.digits)
        print(f"\nby validation ({rule}), {plural(best.max_terms, 'term')}:\n\n{shown}")
    if options.output is not None:
        write_table(curve.to_frame(), options.output)
        print(f"\nwrote {plural(len(curve), 'size')} to {options.output}")
    if options.cv and not curve.n_splits:
        return ExitCode.INTERRUPTED  # while the sizes were validated
    return exit_code(curve, options.require_proof)


def exit_code(curve: Any, require_proof: bool) -> ExitCode:
    """Return the worst of what the sizes say."""
    from polysharp.cli.fit_command import exit_code as of_one

    return max((of_one(point.solution, require_proof) for point in curve), default=ExitCode.DONE)
