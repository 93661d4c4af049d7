"""``polysharp rivals``: every formula that fits nearly as well as a saved model."""

from __future__ import annotations

import argparse
import json
from typing import Any

from polysharp.cli import shared
from polysharp.cli.command import NONE, ExitCode
from polysharp.cli.messages import say
from polysharp.progress import plural


def run(options: argparse.Namespace) -> int:
    """Load, read, search, print, write."""
    from polysharp.certificate.solution import Stop
    from polysharp.cli.recipe import Recipe
    from polysharp.estimators.model_file.model_file import load_columns
    from polysharp.estimators.rivals import rivals

    shared.check_outputs(options, "output", "proof", reads=("model", "table"))
    model = shared.load_single(options.model, "rivals").set_params(
        verbose=0 if options.quiet else 1
    )
    law, recipe = model.polynomial_, Recipe.read(load_columns(options.model))
    sample = shared.read_rows(options, law.names, [law.response], recipe)
    sample, _ = shared.split(sample, options.holdout, options.seed)
    lines = str(options.output).endswith(".jsonl")
    found = rivals(
        model,
        sample.X,
        sample.y,
        sample.sample_weight,
        within=options.within,
        max_count=options.max_count,
        time_limit=None if options.time_limit is NONE else options.time_limit,
        path=options.output if lines else None,
    )
    print(json.dumps(found.to_dict(), indent=1) if options.json else in_words(found))
    if options.output is not None and not lines:
        from polysharp.cli.tables import write_table

        write_table(found.to_frame(), options.output)
    if options.output is not None:
        written = plural(found.written if lines else len(found), "formula")
        say(f"wrote {written} to {options.output}")
    if options.proof is not None:
        if found.proof is None:
            why = "there is none that could be checked"
            if found.count > options.max_count:
                why = f"it would name {found.count:,} formulas, more than --max-count"
            say(f"no proof was written: {why}")
        else:
            found.proof.save(options.proof)
            say(f"wrote the proof to {options.proof}")
    if found.stop is Stop.INTERRUPTED or (lines and found.written < found.count):
        return ExitCode.INTERRUPTED
    return ExitCode.NOT_PROVED if options.require_proof and not found.complete else ExitCode.DONE


def in_words(found: Any) -> str:
    """Return the table of rivals, and what stands in for what."""
    lines = [str(found)]
    for what, swaps in zip(("term", "input"), found.replaceable, strict=True):
        for name, ways in swaps.items():
            said = [" and ".join(way.into) or "no further input" for way in ways[:3]]
            more = f" and {len(ways) - 3} more" if len(ways) > 3 else ""
            lines.append(f"{what} {name}: its place can be taken by {', '.join(said)}{more}")
    return "\n".join(lines)
