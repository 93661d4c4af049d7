"""The evidence page and the README: what is between marks comes from rows, and from nothing else.

    python -m experiments.page            # rewrite the marked blocks
    python -m experiments.page --check    # only say whether the pages are what the rows give

A block is everything between a mark and the next ``<!-- end -->``:

    <!-- table: phase_transition/n0 -->       the experiment's table of that name
    <!-- figure: phase_transition -->         the picture that ``experiments.plot`` drew
    <!-- figure: phase_transition/proofs -->  another one of the same rows
    <!-- opening: phase_transition -->        what the rows show, in a sentence or two
    <!-- run: phase_transition -->            how the rows of each method were made
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from experiments.plot import FIGURES, FOLDER
from experiments.rows import Row, finished, read
from experiments.runner import RESULTS, ROOT, VERSIONS, load
from experiments.summary import NOTHING, groups, markdown

MOST_LISTED = 4  # ridges
PAGE = ROOT / "docs" / "evidence.md"
PAGES = (PAGE, ROOT / "README.md")
BLOCK = re.compile(
    r"(<!-- (table|figure|run|opening): (\w+)(?:/([\w-]+))? -->\n)(.*?)(<!-- end -->)", re.DOTALL
)


def rebuild(
    text: str, *, results: Path = RESULTS, page: Path = PAGE, figures: Path = FOLDER
) -> str:
    """Return the text of a page with its marked blocks written anew."""

    def rewrite(block: re.Match[str]) -> str:
        begin, kind, name, table, _, end = block.groups()
        experiment = load(name)
        rows = finished(read(results / f"{name}.csv"), experiment.key)
        if kind == "figure":
            content = _figure(figures / f"{name}{f'-{table}' if table else ''}.png", page)
        elif not rows:
            content = f"No rows yet: `python -m experiments.{name}` makes them."
        elif kind == "run":
            content = provenance(name, rows)
        elif kind == "opening" and experiment.opening is not None:
            content = experiment.opening(rows)
        else:
            content = experiment.tables[table](rows)
        return f"{begin}\n{content}\n\n{end}" if content else f"{begin}{end}"

    return BLOCK.sub(rewrite, text)


def provenance(name: str, rows: Sequence[Row]) -> str:
    """Say of each method how its rows were made: runs, limit, ridge, device, commit, command."""
    drawn = f", figure by `python -m experiments.plot {name}`" if name in FIGURES else ""
    lines = [
        [
            *(method, str(len(mine)), _per_setting(name, mine), _values(mine, "time_limit")),
            *(_ridge(mine), _machine(mine), _values(mine, "polysharp"), _values(mine, "commit")),
            ", ".join(f"`{command}`" for command in _distinct(mine, "command"))
            or f"`python -m experiments.{name} --methods {method}` (options not recorded)",
        ]
        for (method,), mine in groups(rows, "method").items()
    ]
    header = [
        *("method", "runs", "data sets", "limit, s", "gamma", "device, threads, cores"),
        *("polysharp", "commit", "command"),
    ]
    versions = ", ".join(f"{package} {_values(rows, package)}" for package in VERSIONS[1:])
    return (
        f"{markdown(header, lines)}\n\nRows: `experiments/results/{name}.csv`{drawn}; {versions}."
    )


def _per_setting(name: str, rows: Sequence[Row]) -> str:
    """Return the number of data sets per setting."""
    counts = [
        len({row["seed"] for row in of}) for of in groups(rows, *load(name).parameters).values()
    ]
    return str(max(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _ridge(rows: Sequence[Row]) -> str:
    """Return gamma, as a multiple of 1/sqrt(n) where it is one."""
    given = [row for row in rows if row.get("gamma")]
    if not given:
        return NOTHING
    values = {f"{float(row['gamma']):.3g}" for row in given}
    if "n" in given[0] and len(values) > 1:
        scaled = {f"{float(row['gamma']) * float(row['n']) ** 0.5:.2g}" for row in given}
        if len(scaled) <= MOST_LISTED:
            return f"{' or '.join(sorted(scaled, key=float))}/sqrt(n)"
    return (
        " or ".join(sorted(values, key=float)) if len(values) <= MOST_LISTED else "chosen per fit"
    )


def _machine(rows: Sequence[Row]) -> str:
    device = " or ".join(_distinct(rows, "device")) or "cpu"
    threads = " or ".join(_distinct(rows, "threads")) or "1"
    return f"{device}, {threads}, {_values(rows, 'cores')}"


def _distinct(rows: Sequence[Row], name: str) -> list[str]:
    return [value for value in dict.fromkeys(row.get(name, "") for row in rows) if value]


def _values(rows: Sequence[Row], name: str) -> str:
    """Return the values of a column; rows of earlier code may lack it."""
    found = _distinct(rows, name)
    return " or ".join([*found, *["not recorded"] * any(not row.get(name) for row in rows)])


def _figure(file: Path, page: Path) -> str:
    if not file.exists():
        return ""
    link = Path(os.path.relpath(file, page.parent)).as_posix()
    return f"![{file.stem.replace('_', ' ')}]({link})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or check them."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.page", description="Write what the pages have from rows."
    )
    parser.add_argument("--check", action="store_true", help="fail when a page is out of date")
    options = parser.parse_args(arguments)
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = rebuild(before, page=page)
        if options.check and after != before:
            raise SystemExit(f"{page} is not what the rows give: run python -m experiments.page")
        page.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
