"""Tables in many files, or in one that does not fit in memory, opened lazily through Dask.

A folder stands for all its tables, a pattern for the files that it matches; all must be Parquet, or
all CSV.  Dask cuts files into partitions of a stated size and reads only the columns in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from polysharp.data.cluster import dask_module
from polysharp.errors import InputError

KINDS = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV"}
COMPRESSED = {".gz", ".bz2", ".xz", ".zip"}


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
    types = {**_number_types(files[0], csv_options), **given}
    others = {name: value for name, value in csv_options.items() if name != "dtype"}
    return frames.read_csv(list(files), blocksize=blocksize, dtype=types, **others)


def _number_types(file: str, csv_options: Mapping[str, Any]) -> dict[str, str]:
    """Return float64 for each column that begins with numbers: later rows may have fractions."""
    head = dask_module("pandas").read_csv(file, nrows=1000, **csv_options)
    return {name: "float64" for name, dtype in head.dtypes.items() if dtype.kind in "iuf"}


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
