"""``polysharp serve``: a page on this computer, from a table to a formula without a command."""

from __future__ import annotations

import signal
import webbrowser
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from polysharp.cli.command import ExitCode
from polysharp.cli.messages import say
from polysharp.cli.page.desk import Desk
from polysharp.cli.page.server import PageServer
from polysharp.cli.tables import load_pandas
from polysharp.errors import InputError

MEGABYTE = 10**6


def run_serve(options: Namespace) -> int:
    """Serve until Ctrl-C, and leave nothing behind."""
    if not 0 <= options.port < 65_536:
        raise InputError(f"--port must be between 0 and 65535, got {options.port}")
    if options.max_size < 1:
        raise InputError(f"--max-size must be at least 1, got {options.max_size}")
    load_pandas()
    for name in ("SIGTERM", "SIGHUP"):  # a closed terminal ends it like Ctrl-C
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _interrupt)
    with suppress(KeyboardInterrupt), TemporaryDirectory(prefix="polysharp-") as folder:
        desk = Desk(Path(folder), options.max_size * MEGABYTE)
        with PageServer(desk, options.port) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                print(f"The page is at {server.address}\nCtrl-C ends it.", flush=True)
                if not options.no_browser:
                    Thread(target=webbrowser.open, args=[server.first_address], daemon=True).start()
                desk.work()
            finally:
                server.shutdown()
    say("ended; the tables and models of the page are removed")
    return ExitCode.DONE


def _interrupt(*signal_and_frame: Any) -> None:
    del signal_and_frame
    raise KeyboardInterrupt
