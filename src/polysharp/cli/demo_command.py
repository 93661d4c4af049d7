"""``polysharp demo``: the two data sets that come with the package."""

from __future__ import annotations

import argparse
from typing import Any

from polysharp.cli.exit_codes import ExitCode
from polysharp.cli.options import add_command

EXAMPLES = """\
  polysharp demo
  polysharp demo --output picture.png
  polysharp demo --table rides.csv      the table of the first data set, to try polysharp fit on
"""


def add_to(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands, "demo", run, "", "fit the data that come with the package", EXAMPLES
    )
    parser.add_argument("--output", "-o", metavar="FILE", default="demo.png", help="the picture")
    parser.add_argument("--table", metavar="FILE", help="write the rides as a table, fit nothing")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration, or write its table."""
    from polysharp.cli.tables import check_writable

    check_writable(options.table or options.output)
    if options.table is None:
        from polysharp.cli.tables import need

        need("matplotlib", "the demo's picture")
        from polysharp.cli.demo import main

        main(["--output", options.output])
        return ExitCode.DONE
    from polysharp.cli.tables import load_pandas, write_table
    from polysharp.datasets import cycling

    rides = cycling()
    frame = load_pandas().DataFrame(rides.X, columns=rides.input_names)
    frame[rides.response_name] = rides.y
    write_table(frame, options.table)
    if options.table != "-":
        print(f"wrote {len(frame)} rides to {options.table}; the target is {rides.response_name}")
    return ExitCode.DONE
