"""The evidence page and the README: what is between marks comes from rows, and from nothing else.

    python -m experiments.page            # rewrite the marked blocks
    python -m experiments.page --check    # only say whether the pages are what the rows give

A block is everything between a mark and the next ``<!-- end -->``:

    <!-- table: phase_transition/n0 -->       the experiment's table of that name
    <!-- figure: phase_transition -->         the picture that ``experiments.plot`` drew
    <!-- opening: phase_transition -->        what the rows show, in a sentence or two
    <!-- run: phase_transition -->            command, number of runs, versions, cores, limits
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from experiments.plot import FIGURES, FOLDER
from experiments.rows import Row, finished, read
from experiments.runner import RESULTS, VERSIONS, load

ROOT = Path(__file__).parent.parent
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
            content = _figure(figures / f"{name}.png", page)
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
    """Say which command made the rows, how many, with what, under which limits."""
    seen: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for row in rows:
        seen[tuple(row[p] for p in load(name).parameters)].add(row["seed"])
    least, most = (end(map(len, seen.values())) for end in (min, max))
    seeds = str(most) if least == most else f"{least} to {most}"
    versions = ", ".join(f"{package} {_values(rows, package)}" for package in VERSIONS)
    drawn = f" and `python -m experiments.plot {name}`" if name in FIGURES else ""
    return (
        f"`python -m experiments.{name}`{drawn}: {len(rows)} runs, {seeds} data sets per setting, "
        f"one thread each, {_values(rows, 'jobs')} at a time on {_values(rows, 'cores')} cores, "
        f"limit {_values(rows, 'time_limit')} s; "
        f"{versions}. Rows: `experiments/results/{name}.csv`."
    )


def _values(rows: Sequence[Row], name: str) -> str:
    return " or ".join(dict.fromkeys(row[name] for row in rows))


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
