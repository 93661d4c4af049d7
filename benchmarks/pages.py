"""The tables of docs/benchmarks.md, from the rows in benchmarks/results and from nothing else.

    python benchmarks/pages.py

Writes tree-<block>.md and peers.md beside the CSV files of ``tree.py`` and ``peers.py``, and the
sentence of the README on peers, between its marks.  Other benchmarks write their own tables.
"""

from __future__ import annotations

import csv
import re
from itertools import groupby
from pathlib import Path
from statistics import median

RESULTS = Path(__file__).parent / "results"
VARYING = {  # columns that name a setting, where they differ within a block
    "data": "data", "n": "n", "p": "p", "l": "terms", "k": "inputs", "rho": "rho",
}  # fmt: skip
OURS = "polysharp tree"
README = Path(__file__).parent.parent / "README.md"
MARKED = re.compile(r"(<!-- sentence: peers -->\n).*?(<!-- end -->)", re.DOTALL)

Row = dict[str, str]


def tree_table(rows: list[Row]) -> str:
    """Return one line for each setting of a block."""
    named = [name for name in VARYING if len({row[name] for row in rows}) > 1] or ["n"]
    refereed = any(row["referee"] for row in rows)
    head = [VARYING[name] for name in named] + [
        "proved", "planted", "median s", "largest s", "ratio", "median gap", "largest gap",
        "abess higher",
    ]  # fmt: skip
    lines = [head + ["others agree"] * refereed]
    for key, group in groupby(rows, lambda row: [row[name] for name in named]):
        of = list(group)
        seconds, gaps, ratios = (
            [float(row[name]) for row in of] for name in ("seconds", "gap", "ratio")
        )
        law = [row for row in of if float(row["planted_objective"]) > 0.0]
        abess = [row for row in of if float(row["abess_objective"]) > 0.0]
        higher = sum(
            float(row["abess_objective"]) > float(row["objective"]) * (1.0 + 1e-9) for row in abess
        )
        line = [
            *key, f"{sum(row['proved'] == 'True' for row in of)}/{len(of)}",
            _share(sum(row["planted_found"] == "True" for row in law), len(law)),
            f"{median(seconds):.3g}", f"{max(seconds):.3g}", f"{median(ratios):.3g}",
            _percent(median(gaps)), _percent(max(gaps)), _share(higher, len(abess)),
        ]  # fmt: skip
        lines.append(line + [str(sum("agrees" in row["referee"] for row in of))] * refereed)
    return _markdown(lines)


def peers_table(rows: list[Row]) -> str:
    """Return one line for each number of rows, one column for each method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [["n", *methods, "ours over the fastest proof of a peer"]]
    for n, of in _by_rows(rows):
        cells = [_reached(row) for row in of]
        lines.append([n, *cells, f"1/{_lead(of):.0f}"])
    return _markdown(lines)


def peers_sentence(rows: list[Row]) -> str:
    """Return what the table of the peers says."""
    leads = [_lead(of) for _, of in _by_rows(rows)]
    names = sorted({row["method"].split()[0] for row in rows if _is_peer(row)})
    sizes = [int(row["n"]) for row in rows]
    return (
        f"Beside {', '.join(names)} in one run (the paper's planted problem, {min(sizes)} to "
        f"{max(sizes)} rows, one data set each) the tree reaches the same gap {min(leads):.0f} to "
        f"{max(leads):.0f} times as fast as the best of them."
    )


def _by_rows(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    return [(n, list(of)) for n, of in groupby(rows, lambda row: row["n"])]


def _is_peer(row: Row) -> bool:
    return not row["method"].startswith("polysharp") and float(row["gap"]) == float(row["gap"])


def _lead(rows: list[Row]) -> float:
    """How many times as long the fastest proof of a peer takes."""
    own = next(float(row["seconds"]) for row in rows if row["method"] == OURS)
    proofs = [float(row["seconds"]) for row in rows if _is_peer(row) and row["proved"] == "True"]
    return min(proofs) / own


def _reached(row: Row) -> str:
    """Seconds to the proof, or what there is instead of one."""
    seconds, gap = f"{float(row['seconds']):.3g} s", float(row["gap"])
    if row["proved"] == "True":
        return seconds
    return f"{seconds}, no proof" if gap != gap else f"{seconds}, gap {_percent(gap)}"


def _share(count: int, of: int) -> str:
    return f"{count}/{of}" if of else "-"


def _percent(gap: float) -> str:
    return f"{100.0 * gap:.2g} %" if gap > 1e-6 else "0 %"


def _markdown(lines: list[list[str]]) -> str:
    head, *body = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body, ""])


def main() -> None:
    """Write all tables."""
    for path in sorted(RESULTS.glob("tree-*.csv")):
        path.with_suffix(".md").write_text(tree_table(_read(path)))
    peers = _read(RESULTS / "peers.csv")
    sentence = peers_sentence(peers)
    (RESULTS / "peers.md").write_text(f"{peers_table(peers)}\n{sentence}\n")
    text = README.read_text(encoding="utf-8")
    README.write_text(MARKED.sub(rf"\1\n{sentence}\n\n\2", text), encoding="utf-8")


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
