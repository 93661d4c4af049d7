"""A file of the UCI repository: from a folder of the user, from the cache, or downloaded.

A file is the published one if the SHA-256 of its bytes, or of its numbers as little-endian float64
in row order, is on record; the second does not depend on headers, separators or compression.
Downloads are cached unchanged and checked whenever they are read, so that a damaged cache does no
harm.  Files in the user's folder are gzipped CSV with a header line, checked against SHA256SUMS if
the folder has that file.  ``uci.toml`` lists the files, and the paper's data sets made of them.
"""

from __future__ import annotations

import gzip
import io
import os
import tomllib
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np

from polysharp.data.files import write_file
from polysharp.errors import DataError
from polysharp.typing import Array

ARCHIVE = "https://archive.ics.uci.edu/static/public"
VARIABLE = "POLYSHARP_DATA"
TIMEOUT = 60.0  # seconds without an answer


@dataclass(frozen=True)
class UciFile:
    """One table: its name in a folder, its path at UCI, its shape and checksums."""

    name: str
    path: str  # below ARCHIVE
    shape: Sequence[int]
    checksums: Sequence[str]
    member: str | None = None  # of the zip file at ``path``
    delimiter: str = ","
    header: bool = True

    @property
    def url(self) -> str:
        """The address at UCI."""
        return f"{ARCHIVE}/{self.path}"

    @property
    def cached(self) -> Path:
        """The file of a download in the cache."""
        return cache_folder() / self.path.replace("/", "-")


class UciTable(NamedTuple):
    """One data set of the paper: a file, its inputs, and which column is the response."""

    file: UciFile
    inputs: list[list[str]]  # name and unit, in the order of the file
    response: str
    column: int


def _read_tables() -> dict[str, UciTable]:
    known = tomllib.loads(files("polysharp.datasets").joinpath("uci.toml").read_text("utf-8"))
    return {
        name: UciTable(UciFile(**known["files"][file]), _inputs(known["inputs"][inputs]), *rest)
        for name, (file, inputs, *rest) in known["rows"].items()
    }


def _inputs(text: str) -> list[list[str]]:
    name, unit, *count = text.split(", ", maxsplit=1)[0].split()
    if count:  # many of one kind, numbered
        return [[f"{name}{i}", unit] for i in range(1, int(count[0][1:]) + 1)]
    return [column.split() for column in text.split(", ")]


UCI_TABLES = _read_tables()


def cache_folder() -> Path:
    """Return the folder of downloads."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "polysharp"


def find_table(file: UciFile, *, download: bool = True) -> Array:
    """Return the numbers of a file from the first place that has it."""
    folder = os.environ.get(VARIABLE)
    if folder and (Path(folder) / file.name).is_file():
        return _from_folder(file, Path(folder))
    if file.cached.is_file():
        try:
            return _from_download(file, file.cached.read_bytes())
        except DataError:
            file.cached.unlink()  # damaged
    if not download:
        raise _nowhere(file, folder, "downloads are switched off")
    try:
        with urlopen(file.url, timeout=TIMEOUT) as answer:
            content = answer.read()
    except OSError as error:
        if isinstance(error, HTTPError):
            error.close()  # the error is also an open connection
        raise _nowhere(file, folder, f"{file.url} did not answer ({error})") from error
    table = _from_download(file, content)
    with suppress(OSError):  # the cache may not be writable
        file.cached.parent.mkdir(parents=True, exist_ok=True)
        write_file(file.cached, content)
    return table


def _nowhere(file: UciFile, folder: str | None, reason: str) -> DataError:
    where = f"in {VARIABLE}={folder}" if folder else f"in a folder ({VARIABLE} is not set)"
    return DataError(
        f"{file.name} is neither {where} nor in the cache {cache_folder()}, and {reason}; set "
        f"{VARIABLE} to a folder that holds the file, or connect to the network once"
    )


def _from_folder(file: UciFile, folder: Path) -> Array:
    """Read gzipped CSV with a header line, checked against the folder's list of checksums."""
    content = (folder / file.name).read_bytes()
    sums = folder / "SHA256SUMS"
    if sums.is_file():
        listed = dict(line.split()[::-1] for line in sums.read_text().splitlines() if line.strip())
        if listed.get(file.name, sha256(content).hexdigest()) != sha256(content).hexdigest():
            raise DataError(f"{folder / file.name} does not have the checksum listed in {sums}")
    try:
        content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{folder / file.name} must be a whole gzip file: {error}") from error
    return _parse(file, content, delimiter=",", header=True)


def _from_download(file: UciFile, content: bytes) -> Array:
    """Read a download; raise DataError if it is not the published table."""
    if file.member is not None:
        content = _member(file, content)
    table = _parse(file, content, delimiter=file.delimiter, header=file.header)
    found = {sha256(content).hexdigest(), sha256(table.astype("<f8").tobytes()).hexdigest()}
    if not found & set(file.checksums):
        raise DataError(f"{file.url} does not have the checksum of the published {file.name}")
    return table


def _member(file: UciFile, content: bytes) -> bytes:
    """Return a member of a zip file by its file name, in any folder or inner zip file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for name in archive.namelist():
                if PurePosixPath(name).name == file.member:
                    return archive.read(name)
            for name in archive.namelist():
                if name.lower().endswith(".zip"):
                    return _member(file, archive.read(name))
    except zipfile.BadZipFile as error:
        raise DataError(f"{file.url} is no zip file") from error
    raise DataError(f"{file.url} has no member {file.member}")


def _parse(file: UciFile, content: bytes, *, delimiter: str, header: bool) -> Array:
    try:
        text = io.StringIO(content.decode("utf-8"))
        table = np.loadtxt(text, delimiter=delimiter, skiprows=int(header), ndmin=2)
    except ValueError as error:
        raise DataError(f"{file.name} must be a table of numbers: {error}") from error
    if table.shape != tuple(file.shape):
        raise DataError(f"{file.name} must have shape {tuple(file.shape)}, got {table.shape}")
    return np.asarray(table, dtype=np.float64)
