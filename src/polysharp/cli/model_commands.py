"""Commands about a saved model and its table: ``report``, ``explain``, ``rivals`` and ``verify``.

A proof file says what is claimed and why; the checker recomputes all of it from the rows, with code
that did not find it.  A model file holds no proof: there the search is done again with the model's
settings, and the proof that comes out of it is checked, together with what the model costs.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import numpy as np
from sklearn.base import clone

from polysharp.certificate.proof import Proof
from polysharp.certificate.solution import Stop
from polysharp.certificate.statement import terms_proof
from polysharp.checker import verify
from polysharp.cli.command import NONE, ExitCode, help_text, say, warnings_as_remarks
from polysharp.cli.size_table import path_of
from polysharp.cli.table_rows import read_rows, rows_for, split
from polysharp.cli.tables import check_outputs, every_core, write_table
from polysharp.errors import InputError
from polysharp.estimators.model_file.model_file import load_model
from polysharp.estimators.resampling import stability
from polysharp.estimators.rivals import rivals
from polysharp.estimators.scored_rows import ranking_of, score_rows
from polysharp.polynomial.importance import measure_importance
from polysharp.polynomial.stationary import stationary_points
from polysharp.report import write_report
from polysharp.report.peers import assess_responses, compare_peers
from polysharp.wording import plural, rounded_down, rounded_up

RANKED = 10  # inputs outside the formula that are listed with their score
FOLDS = 5  # by which sizes and other methods are compared


def load_single(path: str, command: str) -> Any:
    """Return the model of a file, which must be one of a single response."""
    model = load_model(path)
    check_single(model, path, f"polysharp {command}")
    return model


def check_single(model: Any, path: str, what: str) -> None:
    """Refuse a model of several responses for what is about one."""
    if model.fitted_.scales is not None:
        raise InputError(
            f"{what} is for models of one response, got {path!r} with a {type(model).__name__}"
        )


def resampled(options: Namespace, model: Any, sample: Any, count: int, **how: Any) -> Any:
    """Return what so many resamples of the rows find; None where none is wanted."""
    if count < 0:
        raise InputError(f"--resamples must not be negative, got {count}")
    if count == 0:
        return None
    how |= {"n_resamples": count, "random_state": options.seed}
    with every_core(options):
        return stability(model, *sample.given, **how)


def run_report(options: Namespace) -> int:
    """Load, read, compare sizes, write one self-contained HTML page."""
    check_outputs(options, "output", reads=("model", "table"))
    model = load_model(options.model)
    for name in ("target", "rivals"):
        if getattr(options, name) is not None:
            check_single(model, options.model, f"--{name}")
    if options.sizes is not None and options.sizes < 0:
        raise InputError(f"--sizes must not be negative, got {options.sizes}")
    sample, held_out = rows_for(options, model, options.model)
    about: Any = {"title": options.title, "sample_weight": sample.sample_weight}
    about["held_out"] = None if held_out is None else held_out.given
    how: Any = {"cv": FOLDS, "seed": options.seed}
    if model.fitted_.scales is None:
        seconds, verbose = options.time_limit, 0 if options.quiet else 1
        most = max(8, 2 * len(model.polynomial_)) if options.sizes is None else options.sizes
        if most > 0:
            with every_core(options):
                about["path"] = path_of(model, sample, most, seconds, FOLDS, verbose)
            about["peers"] = compare_peers(*sample.given, **how)
        if options.rivals is not None:
            about["rivals"] = rivals(
                model, *sample.given, within=options.rivals, time_limit=seconds
            )
        about["stability"] = resampled(
            options, model, sample, options.resamples, time_limit=seconds
        )
    else:
        given = None if options.sizes == 0 else sample.given
        about["verdict"] = assess_responses(model, given, about["held_out"], **how)
    write_report(model, sample.X, sample.y, options.output, **about)
    print(f"wrote the report to {options.output}")
    return ExitCode.DONE


def run_explain(options: Namespace) -> int:
    """Load, read, resample, measure, print: coefficients, shares of inputs, stationary points."""
    model = load_single(options.model, "explain")
    formula = model.polynomial_
    sample, held_out = rows_for(options, model, options.model)
    rows = score_rows(model, *sample.given)
    aside = "" if held_out is None else f", {plural(len(held_out), 'row')} held out"
    print(f"{options.table}: {plural(rows.n, 'row')}{aside}\n\n{formula.formula(options.digits)}")
    how = {"time_limit": options.time_limit, "within": options.within}
    notes = help_text("explain_notes").strip().split("\n\n")
    if found := resampled(options, model, sample, options.resamples, **how):
        print(f"\nCoefficients\n{found}\n{notes[0]}")
    print(f"\nInputs\n{_shares(model, rows)}\n{notes[1]}")
    print(f"\nStationary points\n{stationary_points(formula, rows.X)}\n{notes[2]}")
    return ExitCode.DONE


def _shares(model: Any, rows: Any) -> str:
    """Return a line for every input in use, the most important first, and the best others."""
    formula, ranking = model.polynomial_, ranking_of(model, rows)
    found = measure_importance(formula, rows.X, rows.weights)
    scores = ranking.scores / (float(ranking.scores.sum()) or 1.0)
    others = [i for i in ranking.order.tolist() if i not in found.order][:RANKED]
    table = [["", "alone", "in all", "over the rows", "kernel score"]]
    for i in (*found.order, *others):
        measured = (found.first, found.inputs, found.data)
        shares = ["-" if i in others else f"{100 * s[i]:.1f} %" for s in measured]
        table.append([formula.names[i], *shares, f"{100 * scores[i]:.1f} %"])
    wide = max(len(row[0]) for row in table)
    return "\n".join(
        f"{name:<{wide}}  {alone:>7}  {whole:>7}  {data:>13}  {score:>12}"
        for name, alone, whole, data, score in table
    )


def run_rivals(options: Namespace) -> int:
    """Load, read, search for every formula that fits nearly as well, print, write."""
    check_outputs(options, "output", "proof", reads=("model", "table"))
    model = load_single(options.model, "rivals")
    model.set_params(verbose=0 if options.quiet else 1)
    sample = _of_fit(options, model, options.model)
    lines = str(options.output).endswith(".jsonl")
    found = rivals(
        model,
        *sample.given,
        within=options.within,
        max_count=options.max_count,
        time_limit=None if options.time_limit is NONE else options.time_limit,
        path=options.output if lines else None,
    )
    print(json.dumps(found.to_dict(), indent=1) if options.json else _in_words(found))
    if options.output is not None:
        if not lines:
            write_table(found.to_frame(), options.output)
        written = plural(found.written if lines else len(found), "formula")
        say(f"wrote {written} to {options.output}")
    if options.proof is not None and found.proof is not None:
        found.proof.save(options.proof)
        say(f"wrote the proof to {options.proof}")
    elif options.proof is not None:
        why = "there is none that could be checked"
        if found.count > options.max_count:
            why = f"it would name {found.count:,} formulas, more than --max-count"
        say(f"no proof was written: {why}")
    if found.stop is Stop.INTERRUPTED or (lines and found.written < found.count):
        return ExitCode.INTERRUPTED
    return ExitCode.NOT_PROVED if options.require_proof and not found.complete else ExitCode.DONE


def _of_fit(options: Namespace, model: Any, file: str) -> Any:
    """Return the rows of the fit, and say which others are left out."""
    sample, held_out = rows_for(options, model, file)
    if held_out is not None:
        say(f"left out the {plural(len(held_out), 'row')} that the fit held out")
    return sample


def _in_words(found: Any) -> str:
    """Return the table of rivals, and what stands in for what."""
    lines = [str(found)]
    for what, swaps in zip(("term", "input"), found.replaceable, strict=True):
        for name, ways in swaps.items():
            said = [" and ".join(way.into) or "no further input" for way in ways[:3]]
            more = f" and {len(ways) - 3} more" if len(ways) > 3 else ""
            lines.append(f"{what} {name}: its place can be taken by {', '.join(said)}{more}")
    return "\n".join(lines)


def run_verify(options: Namespace) -> int:
    """Read, check, print."""
    with open(options.proof, "rb") as file:
        is_proof = file.read(2) == b"PK"  # an archive; a model is text
    if is_proof:
        proof, costs = Proof.load(options.proof), None
        if proof.statement is None:
            raise InputError(f"{options.proof!r} must state what it proves, and does not")
        names, several = proof.statement.names, [name for name, _ in proof.statement.responses]
        targets = several or [proof.statement.response]
        sample = read_rows(options, names, targets, several=bool(several))
        sample, _ = split(sample, options.holdout, options.seed)
    else:
        model = load_single(options.proof, "verify")
        sample = _of_fit(options, model, options.proof)
        proof = _prove(model, sample, options)
        costs = _cost(model, sample)
        if proof is not None and model.solution_.refit is not None:
            # The formula has coefficients of another ridge: the claim is about its terms.
            proof, costs = terms_proof(proof, model), None
    if proof is None:
        return ExitCode.NOT_PROVED
    verdict = verify(proof, *sample.given, exact=bool(options.exact))
    own = verdict.objective if costs is None else costs
    # A model costs what its rounded coefficients cost, give or take their last digits.
    possible = not verdict.valid or verdict.excepted > 0 or own >= verdict.bound * (1 - 1e-9)
    print(_said(verdict, own, possible, options, len(sample), proof.statement))
    if not options.quiet:
        print(f"\nWhat was checked, in full:\n{proof.statement}")
    return ExitCode.DONE if verdict.valid and possible else ExitCode.REJECTED


def _cost(model: Any, sample: Any) -> float:
    """Return what a model costs on the rows: half its squared errors, and the penalty."""
    residuals = (sample.y - model.predict(sample.X)).to_numpy()
    weights = 1.0 if sample.sample_weight is None else sample.sample_weight.to_numpy()
    w = model.solution_.coefficients
    return float(0.5 * np.sum(weights * residuals**2) + 0.5 * float(w @ w) / model.gamma_)


def _prove(model: Any, sample: Any, options: Namespace) -> Any:
    """Search again with the settings of the model, for a proof; None where there is none."""
    again = clone(model).set_params(
        engine="tree",
        gamma=model.gamma_,
        refit_gamma=model.refit_gamma_,
        time_limit=options.time_limit,
        verbose=not options.quiet,
    )
    with warnings_as_remarks():
        again.fit(*sample.given)
    if again.solution_.proof is None:
        say("no proof was found that could be checked; a longer --time-limit may help")
    return again.solution_.proof


def _said(
    verdict: Any, own: float, possible: bool, options: Namespace, rows: int, statement: Any
) -> str:
    """Say what a verdict means to somebody who knows nothing of proofs by bounds."""
    if not verdict.valid:
        return (
            f"The proof does NOT hold for {options.table}: {verdict.reason}. Either these are not "
            "the rows of the fit, or the file was changed, or the proof is wrong."
        )
    if not possible:
        return (
            f"The certificate does NOT hold for {options.table}: the model costs {own:.9g} here, "
            f"less than any formula of its kind can ({verdict.bound:.9g})"
        )
    better = max(0.0, 1.0 - verdict.bound / own) if own > 0.0 else 0.0
    tail = f"no other choice of terms can lower the cost by more than {rounded_up(100 * better)} %"
    ridges = ""
    if statement.refit_gamma is not None:
        ridges = (
            f" The terms were chosen at gamma {statement.gamma:.4g}, and the proof and these costs "
            "are about that; the coefficients shown were then estimated with gamma "
            f"{statement.refit_gamma:.4g}."
        )
    exactly = ", in exact arithmetic," if options.exact else ","
    named = f" but the {verdict.excepted:,} that the proof names" if verdict.excepted else ""
    if named and verdict.bound > own > 0.0:
        more = rounded_down(100.0 * (verdict.bound / own - 1.0))
        tail = f"none is missing among those that cost up to {more} % more"
    return (
        f"The proof holds for the {rows:,} rows of {options.table}. Every formula of this kind"
        f"{named} costs at least {rounded_down(verdict.bound, 9)} on them, and this one {own:.9g}: "
        f"{tail}. The cost is half the sum of squared errors plus a penalty on large coefficients. "
        f"Everything was computed anew from the table{exactly} by code that has no part in the "
        f"search.{ridges}"
    )
