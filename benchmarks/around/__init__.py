"""Checks of what stands around the search, a file for each idea; ``surroundings.py`` runs them.

Each has ``check(seed, tally)``, which draws one case from its seed, and a referee of its own.
"""

import sys

# Workers of a campaign do not hear Ctrl-C, and what they start would be as deaf.
STARTER = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("polysharp", run_name="__main__", alter_sys=True)
"""


def command(*words: str) -> list[str]:
    """Return a command of polysharp that hears Ctrl-C."""
    return [sys.executable, "-c", STARTER, *words]
