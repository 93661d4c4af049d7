"""``polysharp fit``: from a table to a formula.

With ``--max-terms`` there is one fit, with the budgets given.  Without it, or with ``--cv``, the
budgets are chosen by cross-validation among those that the other options leave, and the model
chosen is refitted with a certificate.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from polysharp.certificate.solution import Status, Stop
from polysharp.cli import size_table
from polysharp.cli.command import ExitCode
from polysharp.cli.many_files import fit_files, stands_for_many
from polysharp.cli.messages import say, warnings_as_remarks
from polysharp.cli.model_commands import resampled
from polysharp.cli.settings import check_outputs, every_core, exit_code, one_number, settings
from polysharp.cli.table_columns import accuracy, joined
from polysharp.cli.table_rows import read_sample, split
from polysharp.cli.tables import write_table
from polysharp.data.rows import evenly_spaced
from polysharp.engines.interrupts import DeferredInterrupt
from polysharp.errors import InputError
from polysharp.estimators.model import covers, formulas_of
from polysharp.estimators.model_file.model_file import save_model
from polysharp.estimators.multitask import (
    MultiTaskSparsePolynomialRegressor,
    MultiTaskSparsePolynomialRegressorCV,
)
from polysharp.estimators.parameters import check_seed
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.regressor_cv import SparsePolynomialRegressorCV
from polysharp.estimators.scored_rows import score_rows
from polysharp.report import write_report
from polysharp.report.peers import assess, compare_peers
from polysharp.wording import plural

OUTPUTS = ("output", "report", "proof", "size_table")
CHECKED_SPLITS = 5  # by which the sizes are judged where no search has done so
SHOWN_COVERAGE = 0.9  # of the prediction intervals that are spoken of
FEWEST_ROWS = 20  # from which on folds say something about errors to come
RESAMPLES, SECONDS = 50, 10.0  # behind the coefficients of a report, and the time for them
MOST_ROWS = 20_000  # that prediction intervals are calibrated on


def run_fit(options: Namespace) -> int:
    """Read, fit, print, write."""
    for name in OUTPUTS:
        if getattr(options, name) == "-":
            raise InputError(f"--{name.replace('_', '-')} must name a file, got '-'")
    if options.size_table is not None and options.brief:
        raise InputError("--size-table needs the comparison of sizes, which --brief skips")
    check_outputs(options, *OUTPUTS)
    model = make_model(options)  # refuses before a table is read
    if stands_for_many(options):
        fit_files(model, options)
        return finish(model, None, None, options)
    sample = read_sample(options, several=True)
    if len(sample.targets) > 1:
        if options.size_table is not None:
            raise InputError(
                f"--size-table is for one target, got --target {joined(sample.targets)}"
            )
        model = make_model(options, sample.targets)
    inputs = plural(sample.X.shape[1], "input")
    targets = f"target{'s' * (len(sample.targets) > 1)} {', '.join(sample.targets)}"
    print(f"{options.table}: {plural(len(sample), 'row')}, {inputs}, {targets}")
    fitted, held_out = split(sample, options.holdout, options.seed)
    with warnings_as_remarks(), every_core(options):
        model.fit(fitted.X, fitted.y, sample_weight=fitted.sample_weight)
    return finish(model, fitted, held_out, options)


def calibrate(model: Any, fitted: Any, held_out: Any, options: Namespace) -> None:
    """Measure what intervals of predictions need, on held-out rows or on folds, and say how wide.

    Where that cannot be done it is said, and the model goes without.
    """
    wanted = not options.brief or options.output is not None or options.report is not None
    few = held_out is None and len(fitted) < FEWEST_ROWS
    if not wanted or few:
        return
    rows, cv = (fitted, "auto") if held_out is None else (held_out, None)
    if len(rows) > MOST_ROWS:
        rows = rows.rows(evenly_spaced(len(rows), MOST_ROWS))
    try:
        with every_core(options):
            model.calibrate(*rows.given, cv=cv)
    except InputError as error:
        say(f"no prediction intervals: {error}")
    else:
        if model.fitted_.calibrations[0].most >= SHOWN_COVERAGE:
            print(widths(model, rows))


def widths(model: Any, rows: Any) -> str:
    """Say how wide the prediction intervals are at the rows they were calibrated on."""
    formulas, folds = formulas_of(model), len(model.fitted_.calibrations[0].folds)
    half = 0.5 * np.diff(model.predict_interval(rows.X, SHOWN_COVERAGE))
    widths = [f"\N{PLUS-MINUS SIGN} {width:.4g}" for width in np.median(half, axis=0).ravel()]
    if len(formulas) > 1:
        each = zip(widths, formulas, strict=True)
        widths = [f"{width} for {formula.response}" for width, formula in each]
    where = f"{folds} folds" if folds > 1 else f"{len(rows):,} held-out rows"
    return (
        f"about {100 * SHOWN_COVERAGE:.0f} % of new rows like these within "
        f"{', '.join(widths)} of the prediction, by {where}"
    )


def finish(model: Any, fitted: Any, held_out: Any, options: Namespace) -> ExitCode:
    """Print, compare, write what was asked for, and return the code of the end."""
    about: dict[str, Any] = {}
    interrupted = model.solution_.stop is Stop.INTERRUPTED or vars(model).get("interrupted_", False)
    each = formulas_of(model)
    print("", *(polynomial.formula(options.digits) for polynomial in each), "", sep="\n")
    print(model.solution_, flush=True)
    if said := covers(model):
        print(said)
    compared = fitted is not None and fitted.y.ndim == 1 and not options.brief and not interrupted
    try:  # from here on the model is there, and no interrupt may lose it
        if compared:
            compare(model, fitted, options, about)
        about["verdict"] = show_verdict(model, about, held_out)
        show_errors(model, fitted, held_out)
        if fitted is not None and not interrupted:
            calibrate(model, fitted, held_out, options)
        if compared:
            show_comparison(model, about)
            if options.report is not None:
                about["stability"] = resampled(
                    options, model, fitted, RESAMPLES, time_limit=SECONDS
                )
    except KeyboardInterrupt:
        interrupted = True
        say("the comparison was interrupted")
    remark(model)
    with DeferredInterrupt():
        write(model, fitted, held_out, about, options)
    code = exit_code(model.solution_, options.require_proof)
    return ExitCode.INTERRUPTED if interrupted else code


def make_model(options: Namespace, targets: Sequence[str] = ()) -> Any:
    """Return the estimator that the options ask for."""
    single: Any = SparsePolynomialRegressor
    search: Any = SparsePolynomialRegressorCV
    given = settings(options)
    if len(targets) > 1:
        if options.engine not in (None, "auto", "tree"):
            raise InputError(
                f"--engine {options.engine} is for one target, got --target {joined(targets)}"
            )
        single, search = MultiTaskSparsePolynomialRegressor, MultiTaskSparsePolynomialRegressorCV
    if options.max_terms is not None and options.cv is None:
        one_number(given, ("degree", "gamma", "max_inputs"), " without --cv")
        if options.rule is not None:
            raise InputError(
                "--rule has no effect with --max-terms unless --cv is given: add --cv, or drop "
                "--max-terms"
            )
        if options.degree is None:
            say("degree 3, the default with --max-terms; --cv chooses the degree, too")
        return single(**given)
    if options.rule is not None:
        given["rule"] = options.rule
    if options.cv is not None:
        given["cv"] = options.cv
    return search(**given)


def compare(model: Any, sample: Any, options: Namespace, about: dict[str, Any]) -> None:
    """Find out what other sizes and methods do on the rows of the fit, for print and report."""
    searched = hasattr(model, "cv_results_")
    with every_core(options):
        splits, whole = None if searched else CHECKED_SPLITS, options.size_table is not None
        about["path"] = size_table.sizes_near(model, sample, splits, smaller=whole)
    if splits and not about["path"].n_splits:
        raise KeyboardInterrupt  # while the sizes were validated: they are kept
    cv = model.n_splits_ if searched else CHECKED_SPLITS
    about["peers"] = compare_peers(*sample.given, cv=cv, seed=check_seed(options.seed))


def show_verdict(model: Any, about: dict[str, Any], held_out: Any) -> Any:
    """Say how the formula predicts beside other methods, and on held-out rows."""
    if held_out is not None and held_out.y.ndim > 1:
        return None
    error = size_table.error_not_seen(model, about["path"]) if "path" in about else None
    rows = None if held_out is None else score_rows(model, *held_out.given)
    verdict = assess(formulas_of(model)[0], error, about.get("peers", ()), rows)
    if verdict is not None:
        print(verdict.sentence)
    return verdict


def show_errors(model: Any, fitted: Any, held_out: Any) -> None:
    """Print how the budgets were chosen, and the errors of each response."""
    print()
    several = len(formulas_of(model)) > 1
    if hasattr(model, "best_params_"):
        print(f"chosen by cross-validation: {_in_words(**model.best_params_)}")
        scaled = " of scaled responses" if several else ""
        print(
            f"RMSE{scaled} {-model.best_score_:.4g} by cross-validation, mean of "
            f"{model.n_splits_} splits"
        )
    for sample, what in ((fitted, "rows of the fit"), (held_out, "held-out rows")):
        if sample is not None:
            for name, own in zip(
                sample.targets, score_rows(model, *sample.given).each, strict=True
            ):
                whose = f"{name}: " if several else ""
                print(f"{whose}{accuracy(own)} on the {len(sample):,} {what}")


def _in_words(
    degree: int, gamma: float, center: bool, max_inputs: int | None, max_terms: int
) -> str:
    limit = "" if max_inputs is None else f" in at most {plural(max_inputs, 'input')}"
    coding = "inputs centred" if center else "inputs as they are"
    terms = plural(max_terms, "term")
    return f"degree {degree}, at most {terms}{limit}, gamma {gamma:.4g}, {coding}"


def show_comparison(model: Any, about: dict[str, Any]) -> None:
    """Print the table of sizes, and the errors of other methods."""
    near, peers = about["path"], about["peers"]
    print(f"\n{size_table.table_of(model, near)}")
    others = "; ".join(f"{peer.name} {peer.error:.4g} ± {peer.std_error:.2g}" for peer in peers)
    print(f"errors on rows not seen: this formula {size_table.error_of(model, near)}; {others}")
    if (hint := size_table.at_higher_degree(model)) is not None:
        print(hint)


def remark(model: Any) -> None:
    """Say what would help where the search ended before its proof."""
    solution = model.solution_
    if solution.status is not Status.OPTIMAL and solution.stop is Stop.TIME:
        say(
            "the formula is the best one found, and the proof that there is no better one was not "
            "completed in time; a longer --time-limit or a smaller --gamma may help"
        )


def write(
    model: Any, fitted: Any, held_out: Any, about: dict[str, Any], options: Namespace
) -> None:
    """Write what was asked for, and say so."""
    if options.output is not None:
        columns = fitted and fitted.recipe.as_document()
        if columns and about.get("verdict") is not None:
            columns["verdict"] = asdict(about["verdict"])
        save_model(model, options.output, columns=columns)
        print(f"wrote the model to {options.output}")
    if options.proof is not None:
        proof = model.solution_.proof
        if proof is None:
            say(
                "no proof to write: the tree engine keeps one, unless it is interrupted or the "
                "proof grows too long"
            )
        else:
            proof.save(options.proof)
            print(f"wrote the proof to {options.proof}")
            if held_out is not None:
                say(f"the proof is about the rows fitted: verify with --holdout {options.holdout}")
    if options.size_table is not None and "path" in about:
        write_table(about["path"].to_frame(), options.size_table)
        print(f"wrote {plural(len(about['path']), 'size')} to {options.size_table}")
    if options.report is not None:
        about.pop("verdict", None)  # the report comes to it by itself
        about["command"] = options.command
        about["sample_weight"] = fitted.sample_weight
        if held_out is not None:
            about["held_out"] = held_out.given
        write_report(model, fitted.X, fitted.y, options.report, **about)
        print(f"wrote the report to {options.report}")
