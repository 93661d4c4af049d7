"""The tables of docs/benchmarks.md, from the rows in benchmarks/results and from nothing else.

    python benchmarks/pages.py

Writes tree-<block>.md, how-long.md and peers.md beside the CSV files of ``tree.py`` and
``peers.py``, the table "How good is it?" of the README and the ten questions of the page on
evidence, between their marks, from the rows of benchmarks and experiments.  Other benchmarks write
their own tables.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import mean, median

sys.path.append(str(Path(__file__).parent.parent))
from experiments.srbench import chosen_on

RESULTS = Path(__file__).parent / "results"
VARYING = {  # columns that name a setting, where they differ within a block
    "data": "data", "n": "n", "p": "p", "l": "terms", "k": "inputs", "rho": "rho",
}  # fmt: skip
OURS = "polysharp tree"
GAP = 1e-4  # at which a formula counts as proved
README = Path(__file__).parent.parent / "README.md"
EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "results"
PUBLISHED = EXPERIMENTS.parent / "srbench_published.csv"
EVIDENCE = README.parent / "docs" / "evidence.md"
MARKED = r"(<!-- rows: {} -->\n).*?(<!-- end -->)"

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


def how_good() -> str:
    """Return what works and what does not, one line each, for the README."""
    laws = _read(EXPERIMENTS / "known_laws.csv")
    right = sum(row["right"] == "1" for row in laws)
    short = [row for row in _read(EXPERIMENTS / "wide_tables.csv") if row["data"] == "riboflavin"]
    error = {
        name: mean(float(row["TE"]) for row in short if row["method"] == name)
        for name in ("default", "lasso")
    }
    lines = [
        ["question", "result"],
        ["Does it find a known polynomial? 25 inputs, degree 3, 20 terms", planted_sentence()],
        [
            "Does the command find known laws, with nothing set?",
            f"exactly the right terms in {right} of {len(laws)} runs "
            f"({len({row['law'] for row in laws})} laws, noise up to 10 %)",
        ],
        [
            "Are formulas of real tables proved? Degree 2 and 3, 3 to 20 terms",
            real_tables_sentence(),
        ],
        ["Beside other exact methods", peers_sentence(_read(RESULTS / "peers.csv"))],
        ["SRBench's tables that are not Friedman's, with nothing set", srbench_sentence()],
        [
            "**Where proofs fail:** signal 3 times the noise, 20 terms, `gamma` = 1/sqrt(n)",
            noise_sentence(),
        ],
        [
            "**Where prediction fails:** 71 rows, 4,088 inputs (riboflavin)",
            f"error {error['default'] / error['lasso']:.2f} times that of the Lasso; boosted trees "
            "predict better on most tables, but give no formula",
        ],
    ]
    return _markdown(lines).rstrip()


def questions() -> str:
    """Return ten questions with their answers, and where each fails, for the page on evidence."""
    planted = _read(EXPERIMENTS / "phase_transition.csv")
    few = [row for row in _of(planted, "exact") if int(row["n"]) == 120]
    correlated = [
        row for row in _of(_read(EXPERIMENTS / "correlated_inputs.csv"), "exact")
        if row["rho"] == "0.7"
    ]  # fmt: skip
    weak, strong = (_read(RESULTS / f"tree-{name}.csv") for name in ("weak", "strong"))
    default = _read(RESULTS / "default-planted.csv")
    noisy_default = [row for row in default if float(row["snr_sqrt"]) == 3.0]
    usual = _of(_read(EXPERIMENTS / "as_it_comes.csv"), "shortest")
    _, friedman = blind_srbench()
    intervals = _of(_read(RESULTS / "intervals.csv"), "polysharp, folds")
    covered = [float(row["coverage"]) for row in intervals]
    large = (RESULTS / "all-inputs-cpu.txt").read_text(encoding="utf-8")
    seconds = re.findall(r"f = 167,668,501.*\n.*\(all-inputs\).* ([\d.]+) s \(the gap", large)
    memory = re.findall(r"peak memory of the process ([\d.]+) GiB", large)
    lines = [
        ["question", "answer", "where it fails", "more"],
        [
            "How many rows does it take?",
            planted_sentence(),
            f"with 120 rows the law is found in {sum(map(_is_exact, few))} of {len(few)} data "
            f"sets and proved in {_proved(few)}",
            "[1](#1-phase-transition-how-many-rows-find-the-law)",
        ],
        [
            "Correlated inputs, AR(1), rho = 0.7?",
            f"found in all data sets from {_from_here_on(correlated, _is_exact)} rows on",
            f"proved in {_proved(correlated)} of {len(correlated)}, over all numbers of rows",
            "[6](#6-correlated-inputs)",
        ],
        [
            "Weak ridge, gamma = 10/sqrt(n)?",
            f"proved in {_true(weak, 'proved')} of {len(weak)}; the planted terms found in "
            f"{_true(weak, 'planted_found')}",
            f"at 0.1/sqrt(n) proved in {_true(strong, 'proved')} of {len(strong)}: a strong ridge "
            "makes the proof easy",
            "[Benchmarks](benchmarks.md#the-tree-engine)",
        ],
        [
            "Noise, signal 3 times the noise?",
            f"with nothing set but degree and size, proved in "
            f"{sum(row['proved'] == '1' for row in noisy_default)} of {len(noisy_default)}, at the "
            "ridge that the search chooses for its proof",
            f"at gamma = 1/sqrt(n): {noise_sentence()}",
            "[Benchmarks](benchmarks.md#the-tree-engine)",
        ],
        [
            "Are formulas of real tables proved?",
            real_tables_sentence(),
            f"of the formulas that the default search chooses, "
            f"{sum(float(row['gap'] or 'inf') <= GAP for row in usual)} of {len(usual)} are proved",
            "[Benchmarks](benchmarks.md#real-tables), [8](#8-the-search-over-budgets-as-it-comes)",
        ],
        [
            "167 million monomials (p = 1000, degree 3)?",
            f"proved over all inputs on two cores with 10,000 rows, in {min(seconds, key=float)} s",
            "with 2,000 rows some gaps stay open, on a GPU too",
            "[Benchmarks](benchmarks.md#every-input-not-only-the-kept-ones)",
        ],
        [
            "Beside other exact methods and abess?",
            peers_sentence(_read(RESULTS / "peers.csv")),
            f"abess, which proves nothing, takes 1/{_times_abess(planted):.0f} of our time "
            "(median over the rows of the first experiment)",
            "[Benchmarks](benchmarks.md#peers)",
        ],
        [
            "SRBench's tables, with nothing set?",
            srbench_sentence(),
            f"Friedman's tables: R2 {_median(friedman, 'R2'):.2f} with "
            f"{_median(friedman, 'nodes'):.0f} nodes, {100 * _mean(friedman, 'proved'):.0f} % "
            "proved; symbolic regression finds better formulas there",
            "[14](#14-srbench)",
        ],
        [
            "Do 90 % intervals cover 90 %?",
            f"{100 * mean(covered):.1f} % on the mean of {len(covered)} splits",
            f"{100 * min(covered):.0f} % on the worst split; boosting's are narrower",
            "[Benchmarks](benchmarks.md#prediction-intervals)",
        ],
        [
            "How much memory?",
            f"{min(memory, key=float)} to {max(memory, key=float)} GiB with 12 to 168 million "
            "monomials",
            "listed monomials need 8 f^2 bytes",
            "[How long](how_long.md)",
        ],
    ]
    return _markdown(lines).rstrip()


def planted_sentence() -> str:
    """Return from how many rows on the planted formula is found and proved."""
    planted = _read(EXPERIMENTS / "phase_transition.csv")
    ours = _of(planted, "exact")
    proved = _from_here_on(ours, lambda row: float(row["gap"] or "inf") <= GAP)
    seconds = [float(row["seconds"]) for row in ours if int(row["n"]) == proved]
    return (
        f"finds it in all {len(seconds)} data sets from {_from_here_on(ours, _is_exact)} rows on "
        f"(abess from {_from_here_on(_of(planted, 'abess'), _is_exact)}, orthogonal matching "
        f"pursuit from {_from_here_on(_of(planted, 'omp'), _is_exact)}); proves it in all "
        f"{len(seconds)} from {proved} rows on (median {median(seconds):.1f} s, longest "
        f"{max(seconds):.1f} s)"
    )


def real_tables_sentence() -> str:
    """Return how many formulas of real tables are proved."""
    tables, unseen = (_read(RESULTS / f"real-tables{name}.csv") for name in ("", "-unseen"))
    return (
        f"{sum(row['proved'] == '1' for row in tables)} of {len(tables)} within 30 s; "
        f"{sum(row['proved'] == '1' for row in unseen)} of {len(unseen)} on tables never used "
        "in development"
    )


def srbench_sentence() -> str:
    """Return how the default search does on SRBench's tables that are not Friedman's."""
    others, _ = blind_srbench()
    names, known = {row["data"] for row in others}, _read(PUBLISHED)
    theirs = []
    for method in ("GP-GOMEA", "Operon"):
        rows = [row for row in known if row["table"] in names and row[f"{method}_R2"]]
        score, size = (_median(rows, f"{method}_{column}") for column in ("R2", "size"))
        theirs.append(f"{method} {score:.2f} with {size:.0f}")
    r2, nodes, seconds = (_median(others, name) for name in ("R2", "nodes", "seconds"))
    return (
        f"median R2 {r2:.2f} with {nodes:.0f} nodes on {len(names)} tables that no setting was "
        f"chosen on, in {seconds:.0f} s; {100 * _mean(others, 'proved'):.0f} % proved (published: "
        f"{', '.join(theirs)}, without a proof)"
    )


def blind_srbench() -> tuple[list[Row], list[Row]]:
    """Return the default's rows on tables that no setting was chosen on: others, Friedman's."""
    rows = [row for row in _read(EXPERIMENTS / "srbench.csv") if not chosen_on(row["data"])]
    ours = _of(rows, "default")
    others = [row for row in ours if "fri_" not in row["data"]]
    return others, [row for row in ours if "fri_" in row["data"]]


def _median(rows: list[Row], column: str) -> float:
    return median(float(row[column]) for row in rows if row[column])


def _mean(rows: list[Row], column: str) -> float:
    return mean(float(row[column]) for row in rows if row[column])


def noise_sentence() -> str:
    """Return what is proved of noisy data at the usual ridge."""
    noisy = _read(RESULTS / "tree-noisy.csv")
    gaps = [float(row["gap"]) for row in noisy]
    return (
        f"{_true(noisy, 'proved')} of {len(noisy)} proved in 60 s, gaps of "
        f"{100 * min(gaps):.0f} to {100 * max(gaps):.0f} %; the planted terms are found in "
        f"{_true(noisy, 'planted_found')}"
    )


def _times_abess(rows: list[Row]) -> float:
    """Return our time over that of abess on the same data: the median where we have a proof."""
    theirs = {(row["n"], row["seed"]): float(row["seconds"]) for row in _of(rows, "abess")}
    ours = [row for row in _of(rows, "exact") if float(row["gap"] or "inf") <= GAP]
    return median(float(row["seconds"]) / theirs[row["n"], row["seed"]] for row in ours)


def _true(rows: list[Row], column: str) -> int:
    return sum(row[column] == "True" for row in rows)


def _proved(rows: list[Row]) -> int:
    return sum(float(row["gap"] or "inf") <= GAP for row in rows)


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
    for page, name, table in ((README, "how good", how_good), (EVIDENCE, "questions", questions)):
        marked = re.compile(MARKED.format(name), re.DOTALL)
        text = page.read_text(encoding="utf-8")
        page.write_text(marked.sub(rf"\1\n{table()}\n\n\2", text), encoding="utf-8")


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


if __name__ == "__main__":
    main()
