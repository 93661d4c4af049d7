"""Seeds in groups over processes, until they are done or the time is over; counts at any moment.

Each group of seeds is one task of a worker process and, once it has ended, one line of
``fuzz-<what>.jsonl``.  Workers look at a common deadline between seeds: a group that it cuts short
says how far it came, and a run that is started again goes on from there.  Ctrl-C moves the
deadline to now.  Workers do not hear Ctrl-C themselves: a fit would take it for its user's wish to
end early, and the campaign would go on.  A worker that has died, or is deaf for a minute after the
deadline, is a finding.

The counts of all lines stand in ``fuzz-<what>.json``, and

    python benchmarks/campaign.py

writes the tables of the documentation, fuzz.md, from those in benchmarks/results, and from those of
earlier code in benchmarks/results/earlier.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polysharp

GROUP = 200  # seeds
MOST_PRINTED = 100  # findings; all of them are stored
DEAF = 60.0  # seconds beyond the deadline after which a worker is given up


class Worker:
    """What a worker process knows of the campaign."""

    deadline: Any = None  # in seconds since the epoch, shared by all


@dataclass
class Tally:
    """Counts by outcome, and what is wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def count(self, what: str) -> None:
        """Count an outcome."""
        self.counts[what] += 1

    def find(self, what: str, where: str, text: str = "") -> None:
        """Count a fault and say where."""
        self.counts[f"FAULT {what}"] += 1
        self.findings.append(f"{what}: {where}: {text}")


Check = Callable[[int, Any, Tally], None]
Line = dict[str, Any]


@dataclass
class Campaign:
    """One kind of check over a range of seeds."""

    what: str
    check: Check
    options: Any
    folder: Path
    warm: Callable[[], Any]  # what a worker does first
    prefix: str = "fuzz"  # of the files

    @property
    def path(self) -> Path:
        """Where finished groups are kept."""
        return self.folder / f"{self.prefix}-{self.what}.jsonl"

    def run(self, first: int, last: int, processes: int, seconds: float, *, store: bool) -> int:
        """Go through the seeds that are not done yet; return 1 if anything was found."""
        self.folder.mkdir(parents=True, exist_ok=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
        old = self._stored() if store else []
        tasks = _open(first, last, old)
        lines: list[Line] = []
        began, printed = time.time(), 0
        with self.path.open("a") if store else nullcontext() as stream:
            for line in self._lines(tasks, processes, began + seconds):
                lines.append(line)
                if stream is not None:
                    stream.write(json.dumps(line) + "\n")
                    stream.flush()
                for finding in line["found"][: max(0, MOST_PRINTED - printed)]:
                    print(finding, flush=True)
                printed += len(line["found"])
        spent = time.time() - began
        facts = summary([*old, *lines], spent, processes)
        if store:
            self.path.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
        done = sum(line["last"] - line["first"] for line in lines)
        cpu = sum(line["cpu"] for line in lines)
        print(f"{done:,} seeds in {spent:.0f} s, {done / max(cpu, 1e-9):.1f} a second of a core")
        print(f"polysharp {polysharp.__version__}, {self.what}: {facts['seeds']:,} seeds")
        for what, count in facts["counts"].items():
            print(f"  {count:>9,}  {what}")
        return 1 if any(what.startswith("FAULT") for what in facts["counts"]) else 0

    def _stored(self) -> list[Line]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def _lines(self, tasks: list[tuple[int, int]], processes: int, deadline: float) -> Any:
        """Yield the lines of groups as they end."""
        context = multiprocessing.get_context("spawn")  # threads of solvers do not survive a fork
        shared = context.Value("d", deadline)
        pool = ProcessPoolExecutor(processes, context, _enlist, (shared, self.warm))
        running: dict[Future[Line], tuple[int, int]] = {}
        waiting = tasks[::-1]
        while True:
            try:
                while waiting and len(running) < 2 * processes and time.time() < shared.value:
                    group = waiting.pop()
                    running[pool.submit(run_group, self.check, *group, self.options)] = group
                if not running:
                    break
                done, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
                    del running[future]
                if time.time() > shared.value + DEAF:
                    yield _lost(running.values(), "deaf")
                    break
            except KeyboardInterrupt:
                shared.value = min(shared.value, time.time())
            except BrokenProcessPool:
                yield _lost(running.values(), "dead")
                break
        for child in multiprocessing.active_children() if running else ():
            child.kill()
        pool.shutdown(wait=not running, cancel_futures=True)


def _enlist(shared: Any, warm: Callable[[], Any]) -> None:
    Worker.deadline = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm()


def run_group(check: Check, first: int, last: int, options: Any) -> Line:
    """Go through some seeds, as far as the time allows; return what a line of the results says."""
    tally, began = Tally(), time.process_time()
    for seed in range(first, last):
        if time.time() >= Worker.deadline.value:
            last = seed
            break
        check(seed, options, tally)
    spent = round(time.process_time() - began, 3)
    counts = dict(tally.counts)
    return {"first": first, "last": last, "cpu": spent, "counts": counts, "found": tally.findings}


def _open(first: int, last: int, lines: list[Line]) -> list[tuple[int, int]]:
    """Return the groups, less what lines have done of each from its beginning on."""
    known: dict[int, list[tuple[int, int]]] = {}
    for line in lines:
        known.setdefault(line["first"] // GROUP, []).append((line["first"], line["last"]))
    groups = []
    for group in range(first // GROUP, -(-last // GROUP)):
        a, b = max(first, group * GROUP), min(last, (group + 1) * GROUP)
        for begun, ended in sorted(known.get(group, [])):
            a = max(a, ended) if begun <= a else a
        if a < b:
            groups.append((a, b))
    return groups


def _lost(groups: Any, how: str) -> Line:
    """Return a line for groups whose worker was lost."""
    found = [f"worker {how}: one of the seeds {a} to {b}" for a, b in groups]
    counts = {f"FAULT worker {how}": 1}
    return {"first": 0, "last": 0, "cpu": 0.0, "counts": counts, "found": found}


def summary(lines: list[Line], seconds: float, processes: int) -> dict[str, Any]:
    """Return the counts of all lines and what they were made with."""
    total: Counter[str] = Counter()
    for line in lines:
        total.update(line["counts"])
    held = [line for line in lines if line["last"] > line["first"]]
    return {
        "version": polysharp.__version__,
        "commit": _commit(),
        "command": " ".join(["python", *sys.argv]),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "processes": processes,
        "seconds": round(seconds, 1),
        "cpu": round(sum(line["cpu"] for line in lines), 1),
        "seeds": sum(line["last"] - line["first"] for line in held),
        "first": min((line["first"] for line in held), default=0),
        "last": max((line["last"] for line in held), default=0),
        "counts": dict(sorted(total.items())),
        "found": [finding for line in lines for finding in line["found"]],
    }


def _commit() -> str:
    """Return the commit that is checked out, with a mark if files have changed since."""
    try:
        command = ["git", "describe", "--always", "--dirty"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


AROUND = {  # of benchmarks/surroundings.py
    "intervals": "prediction intervals, at three promises",
    "bounded": "bounded coefficients and several responses against all supports",
    "exports": "formulas as code against `predict`",
    "files": "damaged and hostile model files",
    "tables": "rows in eight forms, Dask among them",
    "interrupts": "commands interrupted at random moments",
    "commands": "hostile tables and options on the command line",
    "pages": "requests to the local page",
}
TITLES = {
    "solves": "hostile problems solved",
    "boxes": "hostile problems with bounded coefficients, each by five engines",
    "proofs": "honest proofs, and ten forgeries of each",
    "files": "damaged files of proofs",
}


def page(folder: Path) -> str:
    """Return the results of all campaigns in a folder as a table, with the commands."""
    lines = ["| what | seeds | outcomes | faults | commit |", "|---|---|---|---|---|"]
    commands = []
    files = [
        (title, path, path.stem.removeprefix(f"{prefix}-{kind}").strip("-"))
        for prefix, titles in (("fuzz", TITLES), ("around", AROUND))
        for kind, title in titles.items()
        for path in sorted(folder.glob(f"{prefix}-{kind}*.json"))
    ]
    for kind, path, engine in files:
        title = f"{kind}, by {engine}" if engine else kind
        facts = json.loads(path.read_text())
        counts = facts["counts"]
        outcomes = "; ".join(
            f"{count:,} {name}" for name, count in counts.items() if not name.startswith("FAULT")
        )
        faults = {name.removeprefix("FAULT "): n for name, n in counts.items() if "FAULT" in name}
        wrong = "; ".join(f"{count:,} {name}" for name, count in faults.items()) or "none"
        seeds = f"{facts['seeds']:,} from {facts['first']} on"
        lines.append(f"| {title} | {seeds} | {outcomes} | {wrong} | {facts['commit']} |")
        commands.append(f"    {facts['command'].split(' --output')[0]}")
    return "\n".join([in_all(folder), "", *lines, "", *commands]) + "\n"


def in_all(folder: Path) -> str:
    """Return a sentence with the counts of all solves and proofs."""
    solves, proofs, boxes = (
        [json.loads(path.read_text()) for path in sorted(folder.glob(f"fuzz-{what}*.json"))]
        for what in ("solves", "proofs", "boxes")
    )
    faults = sum(
        count for facts in solves for name, count in facts["counts"].items() if "FAULT" in name
    )
    total: Counter[str] = Counter()
    for facts in [*proofs, *boxes]:
        total.update(facts["counts"])
    honest = total["honest proofs checked"]
    accepted, rejected = (total[f"FAULT {what}"] for what in
                          ("forgery accepted", "honest proof rejected"))  # fmt: skip
    count, forged = sum(facts["seeds"] for facts in solves), total["forgeries"]
    return (
        f"In all {count:,} solves with {faults or 'no'} fault, and {forged:,} forgeries, of which "
        f"{accepted or 'none'} that is false was accepted; {rejected} of {honest:,} honest proofs "
        f"were rejected ({100.0 * rejected / max(honest, 1):.2g} %)."
    )


if __name__ == "__main__":
    results = Path(__file__).parent / "results"
    text = f"{page(results)}\nOn the code before the redesign:\n\n{page(results / 'earlier')}"
    (results / "fuzz.md").write_text(text)
    print(text)
