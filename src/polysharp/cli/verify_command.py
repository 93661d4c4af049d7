"""``polysharp verify``: check a proof against a table, with code that did not find it.

A proof file says what is claimed and why; the checker recomputes all of it from the rows.  A model
file holds no proof: there the search is done again with the model's settings, and the proof that
comes out of it is checked, together with what the model costs.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from sklearn.base import clone

from polysharp.certificate.checker.verify import verify
from polysharp.certificate.proof import Proof
from polysharp.cli import shared
from polysharp.cli.command import ExitCode
from polysharp.cli.messages import say, warnings_as_remarks
from polysharp.errors import InputError
from polysharp.progress import rounded_down, rounded_up


def run_verify(options: Namespace) -> int:
    """Read, check, print."""
    with open(options.proof, "rb") as file:
        is_proof = file.read(2) == b"PK"  # an archive; a model is text
    if is_proof:
        proof, costs = Proof.load(options.proof), None
        if proof.statement is None:
            raise InputError(f"{options.proof!r} must state what it proves, and does not")
        names, response = proof.statement.names, proof.statement.response
        targets = [name for name, _ in proof.statement.responses] or [response]
        sample = shared.read_rows(options, names, targets)
    else:
        model = shared.load_single(options.proof, "verify")
        sample = shared.rows_for(options, model, options.proof)
    sample, _ = shared.split(sample, options.holdout, options.seed)
    if not is_proof:
        costs = cost(model, sample)
        proof = prove(model, sample, options)
    if proof is None:
        return ExitCode.NOT_PROVED
    verdict = verify(proof, *sample.given, exact=bool(options.exact))
    own = verdict.objective if costs is None else costs
    # A model costs what its rounded coefficients cost, give or take their last digits.
    possible = not verdict.valid or verdict.excepted > 0 or own >= verdict.bound * (1 - 1e-9)
    print(in_words(verdict, own, possible, options, len(sample)))
    if not options.quiet:
        print(f"\nWhat was checked, in full:\n{proof.statement}")
    return ExitCode.DONE if verdict.valid and possible else ExitCode.REJECTED


def cost(model: Any, sample: Any) -> float:
    """Return what a model costs on the rows: half its squared errors, and the penalty."""
    residuals = (sample.y - model.predict(sample.X)).to_numpy()
    weights = 1.0 if sample.sample_weight is None else sample.sample_weight.to_numpy()
    w = model.solution_.coefficients
    return float(0.5 * np.sum(weights * residuals**2) + 0.5 * float(w @ w) / model.gamma_)


def prove(model: Any, sample: Any, options: Namespace) -> Any:
    """Search again with the settings of the model, for a proof; None where there is none."""
    if getattr(model, "reference_", None) is not None:
        raise InputError(
            f"{options.proof!r} must be a model that was fitted to the response itself, and this "
            "one was fitted to a mean of models"
        )
    again = clone(model).set_params(
        engine="tree", gamma=model.gamma_, time_limit=options.time_limit, verbose=not options.quiet
    )
    with warnings_as_remarks():
        again.fit(*sample.given)
    if again.solution_.proof is None:
        say("no proof was found that could be checked; a longer --time-limit may help")
    return again.solution_.proof


def in_words(verdict: Any, own: float, possible: bool, options: Namespace, rows: int) -> str:
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
        "search."
    )
