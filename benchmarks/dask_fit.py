"""A fit beyond memory: rows per second from Parquet, workers compared, peak memory of any process.

    python benchmarks/dask_fit.py                  # n = 20,000,000, p = 10, r = 3: 2 GB on disk
    python benchmarks/dask_fit.py --rows 1000000   # the same in small

A table of a planted law is generated in pieces (``--folder`` keeps it for the next run) and fitted
from its files by clusters of one and two worker processes of one thread each, over TCP.  Rates
count the whole preparation: reading, checking, coding, moments, reduction.  Beside them stands the
in-memory path on a slice, one thread, its table already read.  On a machine that does other work
the rates per second of processor time are the ones to compare.  Memory is the largest resident set
that any process of the cluster or the client ever had (target: under 2 GiB).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pandas as pd

from polysharp import SparsePolynomialRegressor, scan

PIECE = 500_000
LAW = {(0, 0, 1): 1.5, (2, 3): -2.0, (4,): 0.7, (5, 6, 7): 0.9}


def generate(folder: Path, rows: int, p: int) -> None:
    """Write the table, a file of half a million rows at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, PIECE)):
        path = folder / f"part{number:04d}.parquet"
        if path.exists():
            continue
        rng = np.random.default_rng([20, number])
        n = min(PIECE, rows - start)
        X = rng.standard_normal((n, p)) + 0.5
        y = 3.0 + rng.standard_normal(n)
        for monomial, coefficient in LAW.items():
            y += coefficient * X[:, list(monomial)].prod(axis=1)
        table = pd.DataFrame(X, columns=[f"x{i}" for i in range(p)]).assign(y=y)
        table.to_parquet(path, index=False, row_group_size=PIECE // 2)


def peak_memory() -> float:
    """Return the largest resident set this process has had, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**10
    return float("nan")


def regressor(degree: int) -> SparsePolynomialRegressor:
    """Return the model that is fitted; its ridge does not depend on n."""
    return SparsePolynomialRegressor(
        degree=degree, max_terms=len(LAW), gamma=1.0, time_limit=None, n_jobs=1
    )


def fit_files(files: str, degree: int, n_workers: int) -> tuple[Any, float, list[float]]:
    """Fit the files on a fresh cluster.

    Returns the model, the processor time of the workers, and the peaks of all processes.
    """
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            protocol="tcp://",
            host="127.0.0.1",
            dashboard_address=":0",
            memory_limit="2GiB",
        ) as cluster,
        Client(cluster) as client,
    ):
        client.run(_warm_up)
        before = sum(client.run(time.process_time).values())
        model = regressor(degree).fit(*scan(files, "y"))
        busy = sum(client.run(time.process_time).values()) - before
        peaks = [peak_memory(), *client.run(peak_memory).values()]
        peaks += client.run(peak_memory, nanny=True).values()
    return model, busy, peaks


def _warm_up() -> None:
    """Import on the worker what the first block would import."""
    import pyarrow.parquet  # noqa: F401

    import polysharp.data.dask_rows  # noqa: F401


def fit_slice(files: str, degree: int, rows: int) -> tuple[float, float]:
    """Fit the first rows in memory; return rows per second, and per second of processor time."""
    pieces = [pd.read_parquet(path) for path in sorted(Path(files).glob("*.parquet"))[:2]]
    table = pd.concat(pieces)[:rows]
    X, y = table.drop(columns="y"), table["y"]
    before = time.process_time()
    model = regressor(degree).fit(X, y)
    busy = time.process_time() - before
    return len(y) / model.solution_.times["preparation"], len(y) / busy


def report(folder: Path, options: argparse.Namespace) -> None:
    """Measure everything on one table."""
    n, p, r = options.rows, options.inputs, options.degree
    start = time.perf_counter()
    generate(folder, n, p)
    size = sum(path.stat().st_size for path in folder.glob("*.parquet")) / 1e9
    print(f"n = {n:,}, p = {p}, r = {r}: {size:.2f} GB of Parquet, ", end="")
    print(f"generated in {time.perf_counter() - start:.0f} s")
    rates = {}
    for n_workers in options.workers:
        model, busy, peaks = fit_files(str(folder), r, n_workers)
        seconds = model.solution_.times["preparation"]
        rates[n_workers] = n / seconds
        print(f"{n_workers} workers: {seconds:.1f} s, {n / seconds:,.0f} rows per second; ", end="")
        print(f"{n / busy:,.0f} rows per second of processor time")
        print(f"  peak memory of any process {max(peaks):.0f} MiB  (target: under 2048)")
        print(f"  {model.polynomial_}\n  {model.solution_}", flush=True)
        assert set(model.polynomial_.monomials) == set(LAW), "the planted law was not found"
    few, many = min(rates), max(rates)
    if few < many:
        print(f"ratio of {many} workers to {few}: {rates[many] / rates[few]:.2f}")
    rate, per_busy = fit_slice(str(folder), r, min(n, options.slice))
    print(
        f"in memory, a slice of {min(n, options.slice):,} rows: {rate:,.0f} rows per second; ",
        end="",
    )
    print(f"{per_busy:,.0f} rows per second of processor time")
    print(machine.describe())


def main() -> None:
    """Measure at the size asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--inputs", type=int, default=10)
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--slice", type=int, default=1_000_000, help="rows of the in-memory fit")
    parser.add_argument("--folder", type=Path, help="where the table is kept; temporary by default")
    options = parser.parse_args()
    if options.folder is not None:
        report(options.folder, options)
        return
    with tempfile.TemporaryDirectory(prefix="polysharp-") as folder:
        report(Path(folder), options)


if __name__ == "__main__":
    main()
