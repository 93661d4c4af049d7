"""The runner: cells in, rows out.

A cell is (experiment, data parameters, method, seed).  An experiment lists its cells and knows
how to run one; the runner leaves out what the file already has, runs the rest in ``--jobs``
processes with one BLAS thread each, and appends a row the moment a cell is done.  Ctrl-C ends it
with a valid file, and the same command goes on from there.

An experiment is a module of this package with a constant ``EXPERIMENT`` and the two lines

    if __name__ == "__main__":
        main(EXPERIMENT)

Workers import it by name, so that only names and plain parameters travel between processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as Remaining

from experiments.rows import FAILED, Row, Table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "experiments" / "results"
BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# What the runner itself knows about a run, after the experiment's own columns.
COMMON = (
    *("status", "note", "time_limit", "wall", "jobs", "cores"),
    *("device", "threads", "commit", "command"),
)
VERSIONS = ("polysharp", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Plan:
    """What is asked of an experiment's list of cells."""

    seeds: Sequence[int]
    quick: bool = False


@dataclass(frozen=True)
class Cell:
    """One run: a method on one data set."""

    method: str
    seed: int
    data: Mapping[str, Any]  # data parameters, one column each
    time_limit: float | None = None  # seconds; None for what the command line or experiment says

    @property
    def columns(self) -> dict[str, Any]:
        """The key columns of the cell's row."""
        return {**self.data, "method": self.method, "seed": self.seed}


@dataclass(frozen=True)
class Experiment:
    """An experiment: its cells, how to run one, and what its rows hold.

    ``run(cell, time_limit)`` returns the measures, with "status" and "note" if it likes; it draws
    the data and times only the method.  ``needs`` maps a method to the package without which
    its cells are left out.  ``tables`` are functions from rows to Markdown; the page
    marks where each goes.  ``opening`` says in a sentence or two what the rows show.
    """

    name: str  # of the module and of the file of rows
    parameters: tuple[str, ...]
    measures: tuple[str, ...]
    cells: Callable[[Plan], Iterable[Cell]]
    run: Callable[[Cell, float], Mapping[str, Any]]
    seeds: int = 20
    first_seed: int = 100  # settings of the search were chosen on seeds below 100
    time_limit: float = 60.0
    needs: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Callable[[list[Row]], str]] = field(default_factory=dict)
    opening: Callable[[list[Row]], str] | None = None
    warm_up: Callable[[], None] | None = None  # once per process, before anything is timed

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that tell runs apart."""
        return (*self.parameters, "method", "seed")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the file."""
        return (*self.key, *self.measures, *COMMON, *VERSIONS)


def load(name: str) -> Experiment:
    """Import an experiment by the name of its module."""
    experiment: Experiment = import_module(f"experiments.{name}").EXPERIMENT
    return experiment


def name_of(path: Path) -> str:
    """Return the experiment whose rows a file holds: its name up to the first dot."""
    return path.name.split(".")[0]


@cache
def versions() -> dict[str, str]:
    """Return the versions that belong in a row; polysharp may run from its source tree."""
    from polysharp import __version__

    return {"polysharp": __version__} | {name: version(name) for name in VERSIONS[1:]}


@cache
def commit() -> str:
    """Return the commit of the code that runs, with a mark if code has changed since."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "src", "experiments/*.py")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{head}-dirty" if changed else head


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def run_cell(
    name: str, time_limit: float | None, jobs: int, cell: Cell, command: str = ""
) -> dict[str, Any]:
    """Run one cell and return its row; an exception of the method becomes a failed row."""
    experiment = load(name)
    limit = time_limit or cell.time_limit or experiment.time_limit
    began = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            measured = dict(experiment.run(cell, limit))
    except Exception as error:
        measured = {"status": FAILED, "note": f"{type(error).__name__}: {error}"}
    return {
        "status": "done",
        "device": "cpu",
        "threads": 1,
        **cell.columns,
        **measured,
        "time_limit": limit,
        "wall": round(perf_counter() - began, 3),
        "jobs": jobs,
        "cores": os.cpu_count(),
        "commit": commit(),
        "command": command,
        **versions(),
    }


def _start_worker(name: str) -> None:
    """Leave Ctrl-C to the parent, and pay for compilation before anything is timed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up(load(name))


def _warm_up(experiment: Experiment) -> None:
    if experiment.warm_up is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            experiment.warm_up()


def results(
    experiment: Experiment,
    cells: Sequence[Cell],
    jobs: int,
    time_limit: float | None,
    scheduler: str | None = None,
    command: str = "",
) -> Iterator[dict[str, Any]]:
    """Yield rows in the order in which runs finish."""
    work = partial(run_cell, experiment.name, time_limit, jobs, command=command)
    if scheduler is not None:
        yield from _on_cluster(work, cells, scheduler)
        return
    if jobs == 1:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1):
            _warm_up(experiment)
            yield from map(work, cells)
        return
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, spawn, _start_worker, (experiment.name,))
    try:
        with _one_blas_thread():
            futures = [pool.submit(work, cell) for cell in cells]
        for future in as_completed(futures):
            yield future.result()
    except BaseException:  # Ctrl-C here or in the caller: do not wait for the runs under way
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _on_cluster(
    work: Callable[[Cell], dict[str, Any]], cells: Sequence[Cell], scheduler: str
) -> Iterator[dict[str, Any]]:
    """Let joblib's Dask backend carry the runs to workers that can import this repository."""
    from distributed import Client
    from joblib import Parallel, delayed, parallel_config

    with Client(scheduler), parallel_config("dask"):
        yield from Parallel(return_as="generator_unordered")(delayed(work)(cell) for cell in cells)


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Let processes started inside read one thread from their environment."""
    before = {name: os.environ.get(name) for name in BLAS_VARIABLES}
    os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def without_missing(experiment: Experiment, cells: Iterable[Cell]) -> list[Cell]:
    """Leave out the methods whose package is not installed, and say so."""
    cells = list(cells)
    missing = {m: package for m, package in experiment.needs.items() if find_spec(package) is None}
    for method in {cell.method for cell in cells} & set(missing):
        print(f"{method} is skipped: package {missing[method]} is not installed")
    return [cell for cell in cells if cell.method not in missing]


def todo(experiment: Experiment, table: Table, options: argparse.Namespace) -> list[Cell]:
    """Return the cells that are asked for and not done."""
    first = experiment.first_seed if options.first_seed is None else options.first_seed
    count = options.seeds or (2 if options.quick else experiment.seeds)
    plan = Plan(seeds=range(first, first + count), quick=options.quick)
    cells = without_missing(experiment, experiment.cells(plan))
    if options.methods:
        cells = [cell for cell in cells if cell.method in options.methods]
    part, parts = options.shard
    done = table.done()
    return [c for c in cells[part - 1 :: parts] if table.key_of(c.columns) not in done]


def execute(experiment: Experiment, options: argparse.Namespace) -> int:
    """Run what is left of an experiment; return the number of rows written."""
    table = Table(options.output, experiment.key, experiment.columns)
    cells = todo(experiment, table, options)
    print(f"{experiment.name}: {len(cells)} runs to do, {len(table.done())} done, in {table.path}")
    if not cells:
        return 0
    written = 0
    with _progress() as progress:
        task = progress.add_task(experiment.name, total=len(cells), last="")
        try:
            for row in results(
                experiment,
                cells,
                options.jobs,
                options.time_limit,
                options.scheduler,
                options.command,
            ):
                table.append(row)
                written += 1
                progress.update(task, advance=1, last=_describe(experiment, row))
        except KeyboardInterrupt:
            progress.stop()
            print(f"Stopped after {written} runs; the same command goes on from here.")
        except BrokenProcessPool:
            raise SystemExit(
                f"A process died after {written} runs, perhaps for want of memory; the same "
                "command goes on from here, with fewer --jobs if need be"
            ) from None
    return written


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        Remaining(),
        TextColumn("{task.fields[last]}"),
    )


def _describe(experiment: Experiment, row: Mapping[str, Any]) -> str:
    setting = " ".join(f"{name}={row[name]}" for name in experiment.parameters)
    return f"{row['method']} {setting} seed={row['seed']}: {row['status']}"


def _shard(argument: str) -> tuple[int, int]:
    part, _, parts = argument.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"must be i/m with 1 <= i <= m, got {argument}")
    return int(part), int(parts)


def _positive(argument: str) -> int:
    if not (argument.isdigit() and int(argument) >= 1):
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {argument}")
    return int(argument)


def parse(experiment: Experiment, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m experiments.{experiment.name}",
        description=(sys.modules[experiment.run.__module__].__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--quick", action="store_true", help="a version of about a minute")
    parser.add_argument("--jobs", type=_positive, default=1, help="processes, one thread each")
    parser.add_argument("--scheduler", help="address of a Dask scheduler: runs on its workers")
    parser.add_argument("--seeds", type=_positive, help="data sets per setting")
    parser.add_argument("--first-seed", type=int, help="seed of the first data set")
    parser.add_argument("--methods", nargs="+", help="only these methods")
    parser.add_argument("--time-limit", type=float, help="seconds per search")
    parser.add_argument("--shard", type=_shard, default=(1, 1), help="i/m: part i of m of the runs")
    parser.add_argument("--output", type=Path, help="file of rows; resumed where it exists")
    options = parser.parse_args(arguments)
    options.command = _command(parser.prog, sys.argv[1:] if arguments is None else arguments)
    if options.output is None:
        options.output = default_output(experiment.name, options.quick, options.shard)
    return options


def _command(program: str, arguments: Sequence[str]) -> str:
    """Return the command that makes the same rows: without the file that they go to."""
    kept = list(arguments)
    if "--output" in kept:
        at = kept.index("--output")
        del kept[at : at + 2]
    return shlex.join([*shlex.split(program), *kept])


def default_output(name: str, quick: bool = False, shard: tuple[int, int] = (1, 1)) -> Path:
    """Return the file of rows: results/NAME.csv, apart for quick runs and for shards."""
    part = "" if shard == (1, 1) else f".{shard[0]}of{shard[1]}"
    return (RESULTS / "quick" if quick else RESULTS) / f"{name}{part}.csv"


def main(experiment: Experiment, arguments: Sequence[str] | None = None) -> None:
    """Run an experiment as a command."""
    execute(experiment, parse(experiment, arguments))
