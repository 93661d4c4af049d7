"""The command line: one function per command, and here the way in and the ways out.

A command reads its options, calls the library, and prints: results to standard output, progress
and remarks to standard error.  It ends with a code that scripts can use:

    0    done, and whatever was asked to be proved is proved
    2    wrong usage, bad data, a file that cannot be read or written, a library that is missing
    3    ``--require-proof``, and the model is not proved to be the best, or rivals may be missing
    4    ``polysharp verify``, and the proof does not hold for the table
    130  interrupted; what had been found by then is printed and written all the same
    141  whoever read the output went away

Bad data get one sentence and no traceback; ``polysharp --traceback ...`` shows where it came from.
Anything else is a bug, ends with Python's own code 1, and shows its traceback.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from polysharp._version import __version__
from polysharp.cli.command import (
    ExitCode,
    add_command,
    help_text,
    say,
    say_once,
)
from polysharp.errors import ClusterError, first_line
from polysharp.progress import announcing, describe

HOMES = {  # the files, and the commands whose functions they hold
    **{"fit_command": "fit", "predict_command": "predict"},
    **{"model_commands": "report explain rivals verify", "page.server": "serve"},
    **{"info_command": "info", "demo": "demo"},
}
COMMANDS = {name: home for home, names in HOMES.items() for name in names.split()}


def make_parser(*, everything: bool = True) -> argparse.ArgumentParser:
    """Return the parser with all commands; help names the options most people need, or all."""
    parser = argparse.ArgumentParser(
        prog="polysharp",
        description="The best small polynomial for a table, with a certificate.",
        epilog=help_text("polysharp"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"polysharp {__version__}")
    parser.add_argument(
        "--traceback", action="store_true", help="on an error, show where it came from"
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="subcommand", required=True)
    for name in COMMANDS:
        add_command(commands, name, everything=everything)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; wrong usage raises ``SystemExit(2)``."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    _open_streams()
    traceback = "--traceback" in words
    try:
        with warnings.catch_warnings(), announcing(lambda slow: say_once(describe(slow))):
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
            try:
                options = make_parser(everything="--help-all" in words).parse_args(words)
                options.command = shlex.join(["polysharp", *words])
                # Imported now, so that help needs no library.
                home = import_module(f"polysharp.cli.{COMMANDS[options.subcommand]}")
                return int(getattr(home, f"run_{options.subcommand}")(options))
            finally:
                sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()  # nobody reads on: say nothing
        return ExitCode.BROKEN_PIPE
    except KeyboardInterrupt:
        say("interrupted")
        return ExitCode.INTERRUPTED
    except (ValueError, ImportError, OSError, MemoryError, ClusterError) as error:
        if traceback:
            raise
        say(f"error: {_sentence(error)}")
        if isinstance(error, OSError):
            _drop_output()
        return ExitCode.BAD_INPUT
    except RuntimeError as error:  # Python 3.11 makes one of a Ctrl-C while a class is made
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        say("interrupted")
        return ExitCode.INTERRUPTED


def _open_streams() -> None:
    """Write to nowhere where the caller has closed a stream."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _drop_output() -> None:
    """Let what could not be written go nowhere, or the interpreter would complain at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(error: Exception) -> str:
    """Return one line; errors of the system without the number they bear."""
    if isinstance(error, OSError) and error.strerror:
        where = "writing failed" if error.filename is None else f"{error.filename!r} cannot be used"
        return f"{where}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "the computer's memory is too small for this"
    return first_line(error)
