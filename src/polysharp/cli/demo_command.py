"""``polysharp demo``: the two data sets that come with the package."""

from __future__ import annotations

import argparse

from polysharp.cli import shared
from polysharp.cli.command import ExitCode


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, or write its table."""
    from polysharp.cli.tables import load_pandas, need, write_table

    shared.check_outputs(options, "output" if options.table is None else "table", reads=())
    if options.table is None:
        need("matplotlib", "the demo's picture")
        from polysharp.cli.demo import demonstrate

        demonstrate(options.output, options.time_limit)
        return ExitCode.DONE
    from polysharp.datasets import cycling

    rides = cycling()
    frame = load_pandas().DataFrame(rides.X, columns=rides.input_names)
    frame[rides.response_name] = rides.y
    write_table(frame, options.table)
    if options.table != "-":
        print(f"wrote {len(frame)} rides to {options.table}; the target is {rides.response_name}")
    return ExitCode.DONE
