"""What the page works on: one table, one fit at a time, and one folder that holds both.

Everything is done as the command line does it: a table is read by ``read_table``, and a fit is the
command ``polysharp fit`` with the words that a user would type (``form_request``).

Requests come in threads of their own; they ask and look.  The work is done in the main thread,
one thing after another, since that is where Python raises Ctrl-C: the page's *Stop* is a Ctrl-C
that the page asked for, and so keeps the best formula found, as it does in a terminal.
"""

from __future__ import annotations

import re
import sys
import traceback
from _thread import interrupt_main
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from io import StringIO
from math import isfinite
from pathlib import Path
from queue import Empty, Queue
from threading import Lock
from time import sleep
from typing import Any

import numpy as np

from polysharp.certificate.solution import Status
from polysharp.cli.command import ExitCode
from polysharp.cli.page.form_request import FILES, UploadedTable, form_of, look, words_of
from polysharp.cli.recipe import Recipe
from polysharp.errors import InputError
from polysharp.estimators.model_file.model_file import load_columns, load_model
from polysharp.progress import Event, Share, describe, watching

Job = Callable[[], None]

COVERAGE = 0.9  # of the intervals that the page shows
DIGITS = 4


class Refused(InputError):
    """A request that gets no answer but a status and a sentence."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.CONFLICT) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Task:
    """One fit, from the button to the report."""

    command: list[str]
    said: StringIO = field(default_factory=StringIO)  # results, and
    remarks: StringIO = field(default_factory=StringIO)  # what it said beside them
    now: str = "reading the table"
    share: float | None = None  # of the work that is going on, where it is known
    searches: int = 0
    moments: list[tuple[int, float, float | None, float]] = field(default_factory=list)
    error: str | None = None
    result: dict[str, Any] | None = None

    def note(self, event: Event | Share) -> None:
        """Keep what happened: the number of the search, seconds, incumbent and bound."""
        self.now, self.share = describe(event), None
        if isinstance(event, Share):
            self.share = event.done / event.total if event.total else None
            return
        if not self.moments or event.seconds < self.moments[-1][1]:
            self.searches += 1
        best = event.objective if isfinite(event.objective) else None
        self.moments.append((self.searches, event.seconds, best, event.bound))


class Session:
    """The table, the fit, and who may touch them when."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes
        self.table: UploadedTable | None = None
        self.task: Task | None = None
        self._jobs: Queue[tuple[Future[None], Job]] = Queue()
        self._lock = Lock()  # of the four below
        self._busy = False  # a job has the session
        self._stoppable = False  # a fit is going on that a Ctrl-C may end,
        self._stopping = False  # and the page has asked for it
        self._closed = False

    # What requests ask for.

    def receive(self, name: str, content: bytes) -> None:
        """Take a table in and look at it; the one before is removed."""
        self._look(UploadedTable.called(name, self.folder), content)

    def read_as(self, request: dict[str, Any]) -> None:
        """Look at the table again, read in another way."""
        self._look(UploadedTable(self._table().file, form_of(request)))

    def _look(self, table: UploadedTable, content: bytes | None = None) -> None:
        def job() -> None:
            if content is not None:
                self._clear()
                table.file.write_bytes(content)
            self.table = look(table, self.max_bytes)

        self._queue(job).result()

    def start(self, request: dict[str, Any]) -> None:
        """Begin a fit; it goes on after this returns."""
        task = Task(words_of(self._table(), request))
        self._queue(lambda: self._fit(task), task)

    def stop(self) -> None:
        """End the search that is going on; the best formula found so far is kept."""
        with self._lock:
            if self._stoppable and not self._stopping:
                self._stopping = True
                interrupt_main()

    def forget(self) -> None:
        """Remove the table and all that was made of it."""
        self._queue(self._clear).result()

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return what the last formula predicts for one row, half its interval, or what is odd."""
        task = self.task
        values: Any = request.get("values")
        if task is None or task.result is None:
            raise InputError("there is no formula yet")
        model, recipe, _ = self._model()
        polynomial = model.polynomial_
        used = list(polynomial.inputs)
        numeric = isinstance(values, list) and all(type(v) in (int, float) for v in values)
        if not numeric or len(values) != len(used) or not np.isfinite(values).all():
            raise InputError(f"values must be {len(used)} finite numbers, got {values!r:.80}")
        row = np.zeros((1, len(polynomial.names)))
        row[0, used] = values
        (outside,) = recipe.outside(row[:, used], [polynomial.names[i] for i in used])
        half, known = None, model.fitted_.calibrations
        if known and not outside and known[0].most >= COVERAGE:
            half = f"{0.5 * float(np.diff(known[0].limits(row, COVERAGE))[0, 0]):.3g}"
        value = f"{float(polynomial(row)[0]):.{DIGITS}g}"
        return {"response": polynomial.response, "value": value, "half": half, "outside": outside}

    def state(self, since: int = 0) -> dict[str, Any]:
        """Return what the page shows; of the moments of the search, those after ``since``."""
        task, told = self.task, None
        if task is not None:
            told = {name: getattr(task, name) for name in ("now", "share", "error", "result")} | {
                "running": task.result is None and task.error is None,
                "stopping": self._stopping,
                "moments": task.moments[max(0, since) :],
                "said": task.said.getvalue(),
                "remarks": task.remarks.getvalue(),
            }
        table = None if self.table is None else self.table.shown()
        return {"max_bytes": self.max_bytes, "table": table, "task": told}

    def file(self, what: str) -> tuple[str, bytes]:
        """Return a file that a fit has written, and what to call it."""
        table, task = self.table, self.task
        if table is None or task is None or task.result is None or what not in task.result["files"]:
            raise InputError(f"there is no {what} yet")
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", table.file.stem).strip("-") or "table"
        return f"{stem}-{FILES[what]}", (self.folder / FILES[what]).read_bytes()

    # What the main thread does.

    def work(self) -> None:
        """Do what is asked for, until Ctrl-C."""
        try:
            while True:
                with suppress(Empty):
                    self._do(*self._jobs.get(timeout=0.5))  # or Windows would not see Ctrl-C
        finally:
            with self._lock:
                self._closed = True
            while not self._jobs.empty():
                self._jobs.get()[0].set_exception(Refused("polysharp serve has ended"))

    def _do(self, future: Future[None], job: Job) -> None:
        try:
            job()
            future.set_result(None)
        except BaseException as error:
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._stopping = self._busy = False

    def _fit(self, task: Task) -> None:
        for name in FILES.values():
            (self.folder / name).unlink(missing_ok=True)
        code = self._run(task)
        if code == ExitCode.INTERRUPTED and not self._stopping:
            raise KeyboardInterrupt  # it was not the page that asked
        if task.error is not None:
            return
        if (self.folder / FILES["model"]).is_file():
            task.result = self._result(code)
        elif self._stopping:
            task.error = "It was stopped before a formula was found."
        else:
            said = task.remarks.getvalue().strip().splitlines() or ["nothing was found"]
            task.error = re.sub(r"^polysharp.*?: error: ", "", said[-1])

    def _run(self, task: Task) -> int:
        """Run the command; a stop ends it, or comes too late and ends nothing."""
        from polysharp.cli import main

        try:
            with self._lock:
                self._stoppable = True
            with (
                chdir(self.folder),
                redirect_stdout(task.said),
                redirect_stderr(task.remarks),
                watching(task.note),
            ):
                return main(task.command)
        except SystemExit:
            return ExitCode.BAD_INPUT
        except KeyboardInterrupt:
            return ExitCode.INTERRUPTED
        except Exception:
            traceback.print_exc(file=sys.stderr)
            task.error = "This is a mistake in polysharp; the terminal shows where."
            return ExitCode.BAD_INPUT
        finally:
            while self._stoppable:
                with suppress(KeyboardInterrupt):
                    with self._lock:
                        self._stoppable = False
                    if self._stopping:
                        sleep(0.01)  # time for an interrupt that is under way

    def _result(self, code: int) -> dict[str, Any]:
        """Return formula, verdicts, inputs and files."""
        model, recipe, document = self._model()
        polynomial = model.polynomial_
        used = [polynomial.names[i] for i in polynomial.inputs]
        ranges = [(name, *recipe.ranges[name]) for name in used if name in recipe.ranges]
        return {
            "formula": polynomial.formula(DIGITS),
            "proved": model.solution_.status is Status.OPTIMAL,
            "certificate": str(model.solution_),
            "verdict": document.get("verdict"),
            "inputs": [{"name": name, "low": low, "high": high} for name, low, high in ranges],
            "stopped": code == ExitCode.INTERRUPTED,
            "files": [what for what, name in FILES.items() if (self.folder / name).is_file()],
        }

    def _queue(self, job: Job, task: Task | None = None) -> Future[None]:
        """Queue a job for the main thread; refuse it while another runs.  A fit is a task."""
        with self._lock:
            if self._closed:
                raise Refused("polysharp serve has ended")
            if self._busy:
                raise Refused("something else is being done; stop it, or wait for its end")
            self._busy, self.task = True, task
            future: Future[None] = Future()
            self._jobs.put((future, job))
        return future

    def _model(self) -> tuple[Any, Recipe, dict[str, Any]]:
        file = self.folder / FILES["model"]
        document = load_columns(file) or {}
        return load_model(file), Recipe.read(document or None), document

    def _table(self) -> UploadedTable:
        if self.table is None:
            raise InputError("there is no table yet")
        return self.table

    def _clear(self) -> None:
        self.table = None
        for file in self.folder.iterdir():
            file.unlink()
