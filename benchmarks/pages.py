"""The tables of docs/benchmarks.md, from the rows in benchmarks/results and from nothing else.

    python benchmarks/pages.py

Writes tree-<block>.md, how-long.md and peers.md beside the CSV files of ``tree.py`` and
``peers.py``, and the table "How good is it?" of the README, between its marks, from the rows of
benchmarks and experiments.  Other benchmarks write their own tables.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import mean, median

RESULTS = Path(__file__).parent / "results"
VARYING = {  # columns that name a setting, where they differ within a block
    "data": "data", "n": "n", "p": "p", "l": "terms", "k": "inputs", "rho": "rho",
}  # fmt: skip
OURS = "polysharp tree"
GAP = 1e-4  # at which a formula counts as proved
README = Path(__file__).parent.parent / "README.md"
EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "results"
MARKED = re.compile(r"(<!-- rows: how good -->\n).*?(<!-- end -->)", re.DOTALL)

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


def how_long_table(rows: list[Row]) -> str:
    """Return the seconds of planted problems by rows, monomials and terms."""
    lines = [["rows", "inputs", "monomials", "terms", "seconds, median", "seconds, longest"]]
    for key, group in groupby(rows, lambda row: [row[name] for name in ("n", "p", "f", "l")]):
        n, p, f, terms = map(int, key)
        seconds = [float(row["seconds"]) for row in group]
        limits = f"{median(seconds):.2g}", f"{max(seconds):.2g}"
        lines.append([f"{n:,}", str(p), f"{f:,}", str(terms), *limits])
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
    """Return the result of the table of the peers."""
    leads = [_lead(of) for _, of in _by_rows(rows)]
    names = ", ".join(sorted({row["method"].split()[0] for row in rows if _is_peer(row)}))
    return (
        f"{min(leads):.0f} to {max(leads):.0f} times as fast as the fastest of {names} to the same "
        "gap (one data set per size)"
    )


def evidence_table() -> str:
    """Return what works and what does not, one line each, for the README."""
    planted = _read(EXPERIMENTS / "phase_transition.csv")
    laws = _read(EXPERIMENTS / "known_laws.csv")
    tables, unseen = (_read(RESULTS / f"real-tables{name}.csv") for name in ("", "-unseen"))
    noisy = _read(RESULTS / "tree-noisy.csv")
    gaps = [float(row["gap"]) for row in noisy]
    ours = [row for row in planted if row["method"] == "exact"]
    proved = _from_here_on(ours, lambda row: float(row["gap"] or "inf") <= GAP)
    seconds = [float(row["seconds"]) for row in ours if int(row["n"]) == proved]
    count = len(seconds)
    right = sum(row["right"] == "1" for row in laws)
    short = [row for row in _read(EXPERIMENTS / "wide_tables.csv") if row["data"] == "riboflavin"]
    error = {
        name: mean(float(row["TE"]) for row in short if row["method"] == name)
        for name in ("default", "lasso")
    }
    lines = [
        ["question", "result"],
        [
            "Does it find a known polynomial? 25 inputs, degree 3, 20 terms",
            f"finds it in all {count} data sets from {_from_here_on(ours, _is_exact)} rows on "
            f"(abess from {_from_here_on(_of(planted, 'abess'), _is_exact)}, orthogonal matching "
            f"pursuit from {_from_here_on(_of(planted, 'omp'), _is_exact)}); proves it in all "
            f"{count} from {proved} rows on (median {median(seconds):.1f} s, longest "
            f"{max(seconds):.1f} s)",
        ],
        [
            "Does the command find known laws, with nothing set?",
            f"exactly the right terms in {right} of {len(laws)} runs "
            f"({len({row['law'] for row in laws})} laws, noise up to 10 %)",
        ],
        [
            "Are formulas of real tables proved? Degree 2 and 3, 3 to 20 terms",
            f"{sum(row['proved'] == '1' for row in tables)} of {len(tables)} within 30 s; "
            f"{sum(row['proved'] == '1' for row in unseen)} of {len(unseen)} on tables never used "
            "in development",
        ],
        ["Beside other exact methods", peers_sentence(_read(RESULTS / "peers.csv"))],
        [
            "**Where proofs fail:** signal 3 times the noise, 20 terms, `gamma` = 1/sqrt(n)",
            f"{sum(row['proved'] == 'True' for row in noisy)} of {len(noisy)} proved in 60 s, "
            f"gaps of {100 * min(gaps):.0f} to {100 * max(gaps):.0f} %; the planted terms are "
            f"found in {sum(row['planted_found'] == 'True' for row in noisy)}",
        ],
        [
            "**Where prediction fails:** 71 rows, 4,088 inputs (riboflavin)",
            f"error {error['default'] / error['lasso']:.2f} times that of the Lasso; boosted trees "
            "predict better on most tables, but give no formula",
        ],
    ]
    return _markdown(lines).rstrip()


def _of(rows: list[Row], method: str) -> list[Row]:
    return [row for row in rows if row["method"] == method]


def _is_exact(row: Row) -> bool:
    return float(row["A"]) == 100.0 and float(row["F"]) == 0.0


def _from_here_on(rows: list[Row], holds: Callable[[Row], bool]) -> int:
    """Return the smallest tested n such that something holds in every data set from n on."""
    failed = [int(row["n"]) for row in rows if not holds(row)]
    return min(n for n in map(int, {row["n"] for row in rows}) if n > max(failed, default=0))


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
    (RESULTS / "how-long.md").write_text(how_long_table(_read(RESULTS / "tree-growth.csv")))
    peers = _read(RESULTS / "peers.csv")
    (RESULTS / "peers.md").write_text(peers_table(peers))
    text = README.read_text(encoding="utf-8")
    README.write_text(MARKED.sub(rf"\1\n{evidence_table()}\n\n\2", text), encoding="utf-8")


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
