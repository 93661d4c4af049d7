"""Writing files: completely or not at all, and never over a file that was read.

A file is written under another name in the same folder, flushed to disk and then moved into place.
Readers see the old file or the new one, never a part of one.  A kill, a crash or a full disk leaves
the old file unchanged; a kill may leave the other name behind, ``.xxxx.part.NAME``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from secrets import token_hex

from polysharp.errors import InputError

Target = str | PathLike[str]


@contextmanager
def replacement(target: Target) -> Iterator[Path]:
    """Yield a name to write to; the file then replaces the target.

    The name has the target's ending, because some libraries choose a format by it.  The new file
    keeps the permissions of the old one.  A link stays a link, and the file behind it is replaced.
    Devices and pipes are written to directly.
    """
    place = Path(os.path.realpath(target))
    try:
        if place.exists() and not place.is_file():
            yield place
            return
        other = place.with_name(f".{token_hex(4)}.part.{place.name}")
        try:
            other.touch(exist_ok=False)
            yield other
            if place.exists():
                other.chmod(stat.S_IMODE(place.stat().st_mode))
            _make_durable(other)
            other.replace(place)
        finally:
            other.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is None:
            raise
        # Name the file as the user did, not the temporary one.
        raise type(error)(error.errno, error.strerror, str(target)) from error
    with suppress(OSError):  # not every system can do this to a folder
        _make_durable(place.parent)


def write_file(target: Target, content: str | bytes) -> None:
    """Write a file, text as UTF-8."""
    data = content.encode() if isinstance(content, str) else content
    with replacement(target) as place:
        place.write_bytes(data)


def check_targets(targets: Mapping[str, Target | None], sources: Iterable[Target] = ()) -> None:
    """Raise InputError for files that cannot be written, before the work starts.

    ``targets`` maps an option to its file name, or to None.  All must be different files, and none
    may be among the ``sources``, which are read.
    """
    given = {what: str(target) for what, target in targets.items() if target is not None}
    read = {_identity(source): str(source) for source in sources}
    seen: dict[object, str] = {}
    for what, target in given.items():
        place = Path(os.path.realpath(target))
        if place.is_dir():
            raise InputError(f"{what} must name a file to write, got the folder {target!r}")
        if not place.parent.is_dir():
            raise InputError(f"{what}={target!r} cannot be written: its folder is not there")
        known = _identity(target)
        if known in read:
            raise InputError(
                f"{what} must not be a file that is read, got {target!r}, which is the same file "
                f"as {read[known]!r}"
            )
        if known in seen:
            raise InputError(f"{what} must not be the file of {seen[known]} too, got {target!r}")
        seen[known] = what
        _try(what, target, place)


def _try(what: str, target: str, place: Path) -> None:
    """Try to create the temporary file of ``replacement``."""
    if place.exists() and not place.is_file():
        return
    try:
        if place.exists() and not os.access(place, os.W_OK):
            raise PermissionError("it is read-only")
        trial = place.with_name(f".{token_hex(4)}.part.{place.name}")
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{what}={target!r} cannot be written: {reason}") from error


def _identity(name: Target) -> object:
    """Return a key that is equal for all names of one file."""
    place = os.path.realpath(name)
    try:
        found = os.stat(place)
        return found.st_dev, found.st_ino
    except OSError:
        return os.path.normcase(place)


def _make_durable(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
