"""Commands about a table: ``path``, the best formula of every size, and ``rank``, Algorithm 1."""

from __future__ import annotations

from argparse import Namespace

import numpy as np

from polysharp.cli.command import ExitCode
from polysharp.cli.settings import check_outputs, every_core, exit_code, one_number, settings
from polysharp.cli.table_rows import read_sample
from polysharp.cli.tables import need, write_table
from polysharp.data.summary import Ranges
from polysharp.errors import InputError
from polysharp.estimators.path import path
from polysharp.monomials.scaling import Scaling
from polysharp.ranking.ranking import rank_inputs
from polysharp.wording import plural


def run_path(options: Namespace) -> int:
    """Read, search every size, print, write."""
    check_outputs(options, "output")
    given = settings(options)
    one_number(given, ("degree", "gamma"))
    sample = read_sample(options)
    with every_core(options):
        curve = path(*sample.given, cv=options.cv or None, **given)
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
    codes = [exit_code(point.solution, options.require_proof) for point in curve]
    return max(codes, default=ExitCode.DONE)


def run_rank(options: Namespace) -> int:
    """Read, rank, print, write."""
    check_outputs(options, "output")
    if options.top is not None and options.top < 1:
        raise InputError(f"--top must be at least 1, got {options.top}")
    sample = read_sample(options)
    X, y = sample.X.to_numpy(), sample.y.to_numpy()
    weights = np.ones(len(y)) if sample.sample_weight is None else sample.sample_weight.to_numpy()
    if (weights < 0.0).any() or not weights.any():
        raise InputError(f"--weights must be >= 0 and not all 0, got {weights.min():g} at least")
    gamma = float(weights.sum()) ** -0.5 if options.gamma is None else options.gamma
    # As the estimator ranks: inputs in units of their root mean squares, a free intercept.
    coded = Scaling.of(Ranges.of(X, weights), scale=True, center=False).apply(X)
    ranking = rank_inputs(
        coded, y, options.degree, gamma, sample_weight=weights, fit_intercept=True
    )
    order = ranking.order[: options.top]
    table = need("pandas", "writing tables").DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "input": [str(name) for name in sample.X.columns[order]],
            "score": ranking.scores[order],
            "share": ranking.scores[order] / (float(ranking.scores.sum()) or 1.0),
        }
    )
    print(f"{options.table}: {len(y):,} rows, degree {options.degree}, gamma {gamma:.4g}")
    width = max(len("input"), *(len(name) for name in table["input"]))
    print(f"{'rank':>4}  {'input':<{width}}  {'score':>10}  {'share':>7}")
    for row in table.itertuples():
        print(f"{row.rank:>4}  {row.input:<{width}}  {row.score:>10.4g}  {100 * row.share:>5.1f} %")
    if options.output is not None:
        write_table(table, options.output)
        print(f"wrote the ranking to {options.output}")
    return ExitCode.DONE
