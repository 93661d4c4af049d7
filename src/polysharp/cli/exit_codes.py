"""The codes with which commands end; the package's first lines say what they mean."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script learns from the end of a command."""

    DONE = 0
    BAD_INPUT = 2
    NOT_PROVED = 3
    INTERRUPTED = 130
    BROKEN_PIPE = 141
