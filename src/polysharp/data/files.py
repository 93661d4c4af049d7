"""Files: tables in many files, opened lazily through Dask, and files written safely.

A folder stands for all its tables, a pattern for the files that it matches; all must be Parquet, or
all CSV.  Dask cuts files into partitions of a stated size and reads only the columns in use.

Files are written completely or not at all, and never over a file that was read.  A file is written
under another name in the same folder, flushed to disk and then moved into place.  Readers see the
old file or the new one, never a part of one.  A kill, a crash or a full disk leaves the old file
unchanged; a kill may leave the other name behind, ``.xxxx.part.NAME``.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from glob import glob
from os import PathLike
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from polysharp.data.cluster import dask_module
from polysharp.errors import InputError

KINDS = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV"}
COMPRESSED = {".gz", ".bz2", ".xz", ".zip"}

Target = str | PathLike[str]


class Scan(NamedTuple):
    """The arguments of ``fit``, in its order: ``model.fit(*scan)``."""

    X: Any
    y: Any
    sample_weight: Any = None


def scan(
    pattern: str | Path,
    target: str,
    *,
    inputs: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weights: str | None = None,
    drop_missing: bool = False,
    partition_size: str = "64MiB",
    csv_options: Mapping[str, Any] | None = None,
) -> Scan:
    """Open a folder or a glob of Parquet or CSV files as Dask DataFrames.

    Parameters
    ----------
    pattern : str or Path
        A file, a folder, or a glob such as ``"rides/2026-*.parquet"``.  On a cluster every worker
        must see the same files.
    target : str
        Column to predict.
    inputs : sequence of str or None, default=None
        Columns to predict it from; None for all others that hold numbers.
    exclude : sequence of str, default=()
        Columns that must not be inputs.
    weights : str or None, default=None
        Column with the weights of the rows.
    drop_missing : bool, default=False
        Leave out rows with missing values in the columns used.
    partition_size : str, default="64MiB"
        Amount of a file that one task reads; compressed CSV is read one file at a time.
    csv_options : mapping or None, default=None
        Options for ``pandas.read_csv``: ``sep``, ``decimal``, ``encoding`` and so on; ``dtype`` as
        a mapping, and no ``nrows``.

    Returns
    -------
    Scan
        ``X``, ``y`` and ``sample_weight`` (None without weights), for ``fit``.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from polysharp import SparsePolynomialRegressor, scan
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     x = [part + t / 10 for t in range(10)]
    ...     table = pd.DataFrame({"x": x, "y": [2 + 3 * value**2 for value in x]})
    ...     table.to_csv(f"{folder}/part{part}.csv", index=False)
    >>> model = SparsePolynomialRegressor(degree=2, max_terms=1, gamma=1e6)
    >>> print(model.fit(*scan(f"{folder}/*.csv", "y")).polynomial_)
    y = 2 + 3 x^2
    """
    frame = open_files(find_files(pattern), partition_size, csv_options or {})
    beside = [target] if weights is None else [target, weights]
    names = list(frame.columns)
    for name in [*beside, *(inputs or ()), *exclude]:
        if name not in names:
            raise InputError(f"{str(pattern)!r} has no column {name!r}{_hint(name, names)}")
    if inputs is None:
        inputs = [str(name) for name, dtype in frame.dtypes.items() if dtype.kind in "biuf"]
    chosen = [name for name in inputs if name not in (*beside, *exclude)]
    if not chosen:
        raise InputError(f"{str(pattern)!r} has no column of numbers besides {target!r}")
    if drop_missing:
        frame = frame.dropna(subset=[*chosen, *beside])
    return Scan(frame[chosen], frame[target], None if weights is None else frame[weights])


def find_files(pattern: str | Path) -> list[str]:
    """Return the files of a path, folder or glob, sorted by name."""
    path = Path(pattern)
    if path.is_dir():
        found = [str(file) for file in sorted(path.rglob("*")) if _kind(file) and file.is_file()]
    else:
        found = sorted(glob(str(pattern), recursive=True))
    if not found:
        raise InputError(f"{str(pattern)!r} must hold Parquet or CSV files, found none")
    kinds = {_kind(Path(file)) for file in found}
    if len(kinds) > 1 or kinds == {None}:
        listed = ", ".join(sorted(str(kind) for kind in kinds))
        raise InputError(
            f"{str(pattern)!r} must hold files of one kind, .parquet or .csv, found {listed}"
        )
    return found


def open_files(files: Sequence[str], partition_size: str, csv_options: Mapping[str, Any]) -> Any:
    """Return a Dask DataFrame over files of one kind."""
    frames = dask_module("dask.dataframe")
    if _kind(Path(files[0])) == "Parquet":
        dask_module("pyarrow")
        return frames.read_parquet(list(files), blocksize=partition_size)
    packed = any(Path(file).suffix in COMPRESSED for file in files)
    blocksize = None if packed else partition_size
    if "nrows" in csv_options:
        raise InputError("csv_options must not hold nrows: all rows of the files are read")
    given = csv_options.get("dtype", {})
    if not isinstance(given, Mapping):
        raise InputError(f"csv_options must hold dtype as a mapping of columns, got {given!r}")
    head = dask_module("pandas").read_csv(files[0], nrows=1000, **csv_options)
    # A column that begins with whole numbers may have fractions later.
    types = {name: "float64" for name, dtype in head.dtypes.items() if dtype.kind in "iuf"}
    options = {**csv_options, "blocksize": blocksize, "dtype": {**types, **given}}
    return frames.read_csv(list(files), **options)


def _kind(path: Path) -> str | None:
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in COMPRESSED:
        endings.pop()
    return KINDS.get(endings[-1]) if endings else None


def _hint(name: str, names: Sequence[str]) -> str:
    if "," in name and all(part.strip() in names for part in name.split(",")):
        return "; files that are read in blocks have one target, and these are several"
    near = get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


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
        other = _beside(place)
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
        try:
            if place.exists() and not place.is_file():
                continue
            if place.exists() and not os.access(place, os.W_OK):
                raise PermissionError("it is read-only")
            trial = _beside(place)
            trial.touch(exist_ok=False)
            trial.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError(f"{what}={target!r} cannot be written: {reason}") from error


def _beside(place: Path) -> Path:
    """Return a new name in the same folder, with the same ending."""
    return place.with_name(f".{token_hex(4)}.part.{place.name}")


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
