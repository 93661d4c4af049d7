"""``polysharp fit``: from a table to a formula.

With ``--max-terms`` there is one fit, with the budgets given.  Without it, or with ``--cv``, the
budgets are chosen by cross-validation among those that the other options leave, and the model
chosen is refitted with a certificate.

A folder or a pattern of files is read in blocks, through Dask: by threads of this machine, or with
``--scheduler`` by the workers of a cluster, which must see the same files.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from polysharp.certificate.solution import Status, Stop
from polysharp.cli import size_table
from polysharp.cli.command import NONE, ExitCode, say, warnings_as_remarks
from polysharp.cli.data_remarks import data_remarks
from polysharp.cli.delimited import WHITESPACE, spelled
from polysharp.cli.model_commands import resampled
from polysharp.cli.table_columns import accuracy, joined, listed
from polysharp.cli.table_rows import column, columns, read_sample, split
from polysharp.cli.tables import check_outputs, every_core, write_table
from polysharp.data.cluster import cluster
from polysharp.data.files import scan
from polysharp.data.rows import evenly_spaced
from polysharp.engines import DeferredInterrupt
from polysharp.errors import InputError
from polysharp.estimators.model import covers, formulas_of, settings_of
from polysharp.estimators.model_file.model_file import save_model
from polysharp.estimators.multitask import (
    MultiTaskSparsePolynomialRegressor,
    MultiTaskSparsePolynomialRegressorCV,
)
from polysharp.estimators.parameters import check_seed, option_names
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.estimators.regressor_cv import SparsePolynomialRegressorCV
from polysharp.estimators.scored_rows import score_rows
from polysharp.plots.path_plots import curves_of
from polysharp.report import write_report
from polysharp.report.peers import assess, assess_responses, compare_peers
from polysharp.wording import plural

OUTPUTS = ("output", "report", "proof", "size_table")
WHOLE = (  # options that need all rows in memory
    *(
        "holdout",
        "report",
        "size_table",
        "sheet",
        "impute",
        "indicators",
        "no_header",
        "skip_lines",
    ),
)
CHECKED_SPLITS = 5  # by which the sizes are compared if no search has done so
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
    path = Path(options.table)
    pattern = any(mark in options.table for mark in "*?[") and not path.exists()
    if options.scheduler is not None or path.is_dir() or pattern:
        fit_files(model, options)
        return finish(model, None, None, options)
    sample = read_sample(options)
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


def fit_files(model: Any, options: Namespace) -> None:
    """Fit the model to all files that the table stands for."""
    for name in WHOLE:
        if getattr(options, name):
            raise InputError(
                f"--{name.replace('_', '-')} needs the rows in memory, and {options.table!r} is "
                "read in blocks"
            )
    mark = spelled(options.delimiter)
    said = {
        "decimal": options.decimal or ".",
        "encoding": options.encoding or "utf-8-sig",
        "na_values": options.missing,
        "sep": r"\s+" if mark == WHITESPACE else mark,
    }
    with cluster(options.scheduler), warnings_as_remarks():
        opened = scan(
            options.table,
            options.target,
            inputs=columns(options, "inputs"),
            exclude=columns(options, "exclude") or [],
            weights=options.weights,
            drop_missing=options.drop_missing,
            csv_options={name: value for name, value in said.items() if value},
        )
        say(f"inputs {listed(list(opened.X.columns))}")
        if options.drop_missing:
            say("rows with missing values are left out, uncounted")
        blocks, inputs = opened.X.npartitions, plural(len(opened.X.columns), "input")
        print(f"{options.table}: {blocks} blocks, {inputs}, target {options.target}", flush=True)
        with every_core(options):
            model.fit(*opened)


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
    if options.max_terms is None or options.cv is not None:
        chosen = {"rule": options.rule, "cv": options.cv}
        return search(**given, **{k: value for k, value in chosen.items() if value is not None})
    for name in ("degree", "gamma", "max_inputs"):
        if isinstance(given.get(name), list):
            option = name.replace("_", "-")
            raise InputError(f"--{option} must be one number without --cv, got {given[name]}")
    if options.rule is not None:
        raise InputError(
            "--rule has no effect with --max-terms unless --cv is given: add --cv, or drop "
            "--max-terms"
        )
    if options.degree is None:
        say("degree 3, the default with --max-terms; --cv chooses the degree, too")
    return single(**given)


def settings(options: Namespace) -> dict[str, Any]:
    """Return the parameters of the library that the user gave; others keep their defaults."""
    found = {name: getattr(options, option) for name, option in option_names().items()}
    functions = options.functions and read_functions(options.functions)
    if isinstance(functions, dict):
        functions = {column(options, name): own for name, own in functions.items()}
    inputs, bounds = options.include_input, options.coefficient_bounds
    found |= {
        "functions": functions,
        "include_inputs": inputs and [column(options, name) for name in inputs],
        "fit_intercept": False if options.no_intercept else None,
        "scale": False if options.no_scale else None,
        "positive": options.positive or None,
        "coefficient_bounds": bounds and {column(options, name): limits for name, limits in bounds},
        "verbose": 0 if options.quiet else 1,
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {name: None if value is NONE else value for name, value in given.items()}


def read_functions(given: Sequence[str]) -> list[str] | dict[str, list[str]]:
    """Return functions of all inputs, or those of each input that is named.

    Examples
    --------
    >>> read_functions(["inverse,log"]), read_functions(["speed=inverse", "mass=log"])
    (['inverse', 'log'], {'speed': ['inverse'], 'mass': ['log']})
    """
    pairs = [text.rpartition("=") for text in given]
    if len({equals for _, equals, _ in pairs}) > 1:
        raise InputError(
            f"--functions must name inputs in all of its values or in none, got {list(given)}"
        )
    found: dict[str, list[str]] = {}
    for whose, _, names in pairs:
        found.setdefault(whose, []).extend(name.strip() for name in names.split(","))
    return found if pairs[0][1] else found[""]


def finish(model: Any, fitted: Any, held_out: Any, options: Namespace) -> ExitCode:
    """Print, compare, write what was asked for, and return the exit code."""
    about: dict[str, Any] = {}
    interrupted = model.solution_.stop is Stop.INTERRUPTED or vars(model).get("interrupted_", False)
    each = formulas_of(model)
    print("", *(polynomial.formula(options.digits) for polynomial in each), "", sep="\n")
    print(model.solution_, flush=True)
    if said := covers(model):
        print(said)
    compared = fitted is not None and not options.brief and not interrupted
    try:  # from here on the model is there, and no interrupt may lose it
        assess_model(model, fitted, held_out, options, about, compared=compared)
        show_errors(model, fitted, held_out)
        if fitted is not None and not interrupted:
            calibrate(model, fitted, held_out, options)
        if "path" in about:
            print(f"\n{size_table.comparison(model, about['path'], about['peers'])}")
            if options.report is not None:
                about["stability"] = resampled(
                    options, model, fitted, RESAMPLES, time_limit=SECONDS
                )
    except KeyboardInterrupt:
        interrupted = True
        say("the comparison was interrupted")
    proved = model.solution_.status is Status.OPTIMAL
    if not proved and model.solution_.stop is Stop.TIME:
        say(
            "the formula is the best one found, and the proof that there is no better one was not "
            "completed in time; a longer --time-limit or a smaller --gamma may help"
        )
    with DeferredInterrupt():
        write(model, fitted, held_out, about, options)
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.NOT_PROVED if options.require_proof and not proved else ExitCode.DONE


def assess_model(
    model: Any, fitted: Any, held_out: Any, options: Namespace, about: Any, *, compared: bool
) -> None:
    """Say how the formulas predict beside other sizes and methods, and on held-out rows.

    What was compared goes to ``about`` as soon as it is known, for print and report.
    """
    folds = getattr(model, "n_splits_", CHECKED_SPLITS)
    seed = check_seed(options.seed)
    if len(formulas_of(model)) > 1:
        others = None if held_out is None else held_out.given
        given = fitted.given if compared else None
        about["verdict"] = assess_responses(model, given, others, cv=folds, seed=seed)
    else:
        error = None
        if compared:
            splits = None if hasattr(model, "cv_results_") else CHECKED_SPLITS
            every = options.size_table is not None
            with every_core(options):
                about["path"] = size_table.sizes_near(model, fitted, splits, smaller=every)
            if splits and not about["path"].n_splits:
                raise KeyboardInterrupt  # while the sizes were validated: they are kept
            about["peers"] = compare_peers(*fitted.given, cv=folds, seed=seed)
            size = int(settings_of(model)["max_terms"])
            error = curves_of(model, about["path"])[0].measured(size)
        rows = None if held_out is None else score_rows(model, *held_out.given)
        about["verdict"] = assess(model.polynomial_, error, about.get("peers", ()), rows)
    if about["verdict"] is not None:
        print(about["verdict"].sentence)


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
        print(*(f"try {hint}\n" for hint in model.hints_), sep="", end="")
    for sample, what in ((fitted, "rows of the fit"), (held_out, "held-out rows")):
        if sample is not None:
            each = score_rows(model, *sample.given).each
            for name, own in zip(sample.targets, each, strict=True):
                whose = f"{name}: " if several else ""
                print(f"{whose}{accuracy(own)} on the {len(sample):,} {what}")
    if fitted is not None and not several:
        for remark in data_remarks(model, fitted):
            say(remark)


def _in_words(
    degree: int, gamma: float, center: bool, max_inputs: int | None, max_terms: int
) -> str:
    limit = "" if max_inputs is None else f" in at most {plural(max_inputs, 'input')}"
    coding = "inputs centred" if center else "inputs as they are"
    terms = plural(max_terms, "term")
    return f"degree {degree}, at most {terms}{limit}, gamma {gamma:.4g}, {coding}"


def calibrate(model: Any, fitted: Any, held_out: Any, options: Namespace) -> None:
    """Measure what prediction intervals need, on held-out rows or on folds, and say how wide.

    If that cannot be done, say why; the model goes without.
    """
    unused = options.brief and options.output is None and options.report is None
    if unused or (held_out is None and len(fitted) < FEWEST_ROWS):
        return
    rows, cv = (fitted, "auto") if held_out is None else (held_out, None)
    if len(rows) > MOST_ROWS:
        rows = rows.rows(evenly_spaced(len(rows), MOST_ROWS))
    try:
        with every_core(options):
            model.calibrate(*rows.given, cv=cv)
    except InputError as error:
        say(f"no prediction intervals: {error}")
        return
    found = model.fitted_.calibrations[0]
    if found.most < SHOWN_COVERAGE:
        return
    half = 0.5 * np.diff(model.predict_interval(rows.X, SHOWN_COVERAGE))
    widths = [f"\N{PLUS-MINUS SIGN} {width:.4g}" for width in np.median(half, axis=0).ravel()]
    if len(widths) > 1:
        each = zip(widths, formulas_of(model), strict=True)
        widths = [f"{width} for {formula.response}" for width, formula in each]
    folds = len(found.folds)
    where = f"{folds} folds" if folds > 1 else f"{len(rows):,} held-out rows"
    print(
        f"about {100 * SHOWN_COVERAGE:.0f} % of new rows like these within "
        f"{', '.join(widths)} of the prediction, by {where}"
    )


def write(
    model: Any, fitted: Any, held_out: Any, about: dict[str, Any], options: Namespace
) -> None:
    """Write what was asked for, and say so."""
    verdict, proof = about.pop("verdict", None), model.solution_.proof
    if options.output is not None:
        kept = fitted and fitted.recipe.as_document()
        if kept and verdict is not None:
            kept["verdict"] = asdict(verdict)
        save_model(model, options.output, columns=kept)
        print(f"wrote the model to {options.output}")
    if options.proof is not None and proof is None:
        say(
            "no proof to write: the tree engine keeps one, unless it is interrupted or the "
            "proof grows too long"
        )
    elif options.proof is not None:
        proof.save(options.proof)
        print(f"wrote the proof to {options.proof}")
        if held_out is not None:
            say(f"the proof is about the rows fitted: verify with --holdout {options.holdout}")
    if options.size_table is not None and "path" in about:
        write_table(about["path"].to_frame(), options.size_table)
        print(f"wrote {plural(len(about['path']), 'size')} to {options.size_table}")
    if options.report is not None:
        about |= {"command": options.command, "sample_weight": fitted.sample_weight}
        about["held_out"] = None if held_out is None else held_out.given
        if len(fitted.targets) > 1:
            about["verdict"] = verdict  # of one response the report comes to it by itself
        write_report(model, fitted.X, fitted.y, options.report, **about)
        print(f"wrote the report to {options.report}")
