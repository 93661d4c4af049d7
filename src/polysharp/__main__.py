"""``python -m polysharp`` is the command ``polysharp``."""

import signal
import sys

from polysharp.cli import main


def run() -> None:
    """Run the command and end the process: once it has ended, Ctrl-C has nothing to interrupt."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    run()
