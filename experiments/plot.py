"""Figures, drawn from rows and from nothing else.

    python -m experiments.plot                              # every experiment that has rows
    python -m experiments.plot phase_transition path
    python -m experiments.plot --quick --output /tmp        # from the rows of quick runs

Figures are NAME.png in docs/_static/evidence.  Bars are standard deviations over
the data sets.  A new figure is a function from rows to a Figure and an entry in ``FIGURES``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments import paper
from experiments.formulations import LABELS as FORMULATIONS
from experiments.input_ranking import GAMMA
from experiments.methods import PROVING
from experiments.real_data import LABELS as REAL_DATA
from experiments.real_data import names_of, paper_best
from experiments.recovery import LABELS, methods_of
from experiments.rows import Row, finished, read
from experiments.runner import default_output, load
from experiments.summary import distinct, groups, numbers, proved, where

FOLDER = Path(__file__).parent.parent / "docs" / "_static" / "evidence"
# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ["#0072B2", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#555555", "#999933"]
BARS: dict[str, Any] = {"marker": "o", "markersize": 3.5, "capsize": 2, "linewidth": 1.2}


def phase_transition(rows: list[Row]) -> Figure:
    """A%, F% and seconds against n, one line per method."""
    figure, axes = _panels(3, 1)
    for axis, (column, label) in zip(axes, _RECOVERY, strict=True):
        _lines_by_method(axis, rows, column)
        axis.axvline(paper.N0, color="0.6", linestyle=":", linewidth=1)
        axis.set(ylabel=label)
        _log_rows(axis)
    axes[0].set_ylim(0, 103)
    axes[2].set_yscale("log")
    axes[0].annotate("the paper's n0", (paper.N0, 5), rotation=90, color="0.4", fontsize=8)
    axes[0].legend(fontsize=7)
    return figure


def proof_seconds(rows: list[Row]) -> Figure:
    """Median seconds to a proof against n, a line per method; hollow where a search had no proof.

    Methods without a proof are drawn dashed, with the time in which they end.
    """
    figure, (axis,) = _panels(1, 1, width=6.5)
    for colour, method in zip(COLOURS, methods_of(rows), strict=False):
        if method in ("lasso-raw", "local"):
            continue
        mine, proving = where(rows, method=method), method in PROVING
        points = {n: where(mine, n=n) for n in distinct(mine, "n")}
        middle = {n: median(numbers(point, "seconds")) for n, point in points.items()}
        style = "-" if proving else "--"
        axis.plot(list(middle), list(middle.values()), style, color=colour, linewidth=1)
        for n, point in points.items():
            full = "full" if proving and all(map(proved, point)) else "none"
            axis.plot(n, middle[n], "o", color=colour, markersize=4, fillstyle=full)
        label = LABELS[method] if proving else f"{LABELS[method]}, no proof"
        shape = {"markersize": 4, "fillstyle": "full" if proving else "none"}
        axis.plot([], [], "o" + style, color=colour, label=label, **shape)
    axis.set(ylabel="seconds, median", yscale="log")
    axis.set_title("full: proved in every data set; hollow: not", fontsize=9)
    _log_rows(axis)
    axis.legend(fontsize=7)
    return figure


def correlated_inputs(rows: list[Row]) -> Figure:
    """A% and F% against n, one row of panels per correlation."""
    correlations = sorted({row["rho"] for row in rows}, key=float)
    figure, axes = _panels(2, len(correlations))
    for a, rho in enumerate(correlations):
        for b, (column, label) in enumerate(_RECOVERY[:2]):
            axis = axes[2 * a + b]
            _lines_by_method(axis, where(rows, rho=rho), column)
            axis.set(ylabel=label, title=f"rho = {rho}", ylim=(-3, 103))
            _log_rows(axis)
    axes[0].legend(fontsize=7)
    return figure


def path(rows: list[Row]) -> Figure:
    """A% against F%, averaged over the data sets at every l."""
    figure, (axis,) = _panels(1, 1)
    for colour, method in zip(COLOURS, methods_of(rows), strict=False):
        mine = where(rows, method=method)
        points = [where(mine, l=terms) for terms in distinct(mine, "l")]
        F, A = ([mean(numbers(point, name)) for point in points] for name in ("F", "A"))
        axis.plot(F, A, "o-", color=colour, markersize=3.5, label=LABELS[method])
    axis.set(xlabel="false alarms F %", ylabel="accuracy A %")
    axis.legend(fontsize=8)
    return figure


def cutting_planes(rows: list[Row]) -> Figure:
    """Cuts against n; hollow where not every search was proved, so that more cuts are needed."""
    figure, (axis,) = _panels(1, 1)
    stated = {n: float(cuts.removeprefix(">")) for n, cuts in paper.CUTS.items()}
    axis.plot(list(stated), list(stated.values()), "k--", linewidth=1)
    for n, cuts in paper.CUTS.items():
        axis.plot(n, stated[n], "ks", fillstyle="none" if cuts.startswith(">") else "full")
    axis.plot([], [], "ks--", label="the paper")
    lines = sorted(groups(rows, "method", "share").items())
    for colour, ((method, share), mine) in zip(COLOURS, lines, strict=False):
        points = {n: where(mine, n=n) for n in distinct(mine, "n")}
        cuts_of = {n: mean(numbers(point, "cuts")) for n, point in points.items()}
        axis.plot(list(cuts_of), list(cuts_of.values()), "-", color=colour, linewidth=1)
        for n, point in points.items():
            full = "full" if all(map(proved, point)) else "none"
            axis.plot(n, cuts_of[n], "o", color=colour, fillstyle=full)
        axis.plot([], [], "o-", color=colour, label=f"{method}, gamma = {share}/sqrt(n)")
    axis.set(xlabel="rows n", ylabel="cutting planes", yscale="log")
    axis.legend(fontsize=7)
    return figure


def input_ranking(rows: list[Row]) -> Figure:
    """Inputs needed against n, one panel per p: the paper, the ranking, pricing."""
    sizes = distinct(rows, "p")
    figure, axes = _panels(len(sizes), 1, width=2.4)
    ranked = [r for r in where(rows, method="ranking") if float(r["gamma"]) == GAMMA]
    for axis, p in zip(axes, sizes, strict=True):
        stated = paper.RANKING.get(p, {})
        axis.plot(list(stated), list(stated.values()), "ks--", linewidth=1, label="the paper")
        for colour, method in zip(COLOURS, ("ranking", "pricing"), strict=False):
            mine = where(ranked if method == "ranking" else rows, p=p, method=method)
            _bars(axis, mine, "n", "needed", colour, method)
        axis.axhline(20, color="0.6", linestyle=":", linewidth=1)
        axis.set(title=f"p = {p}", xlabel="rows n")
        axis.ticklabel_format(axis="x", style="sci", scilimits=(3, 3))
    axes[0].set_ylabel("inputs needed p'")
    axes[0].legend(fontsize=7)
    return figure


def formulations(rows: list[Row]) -> Figure:
    """Seconds and gap against n, one row of panels per problem."""
    problems = groups(rows, "p", "r")
    figure, axes = _panels(2, len(problems))
    for a, ((p, degree), mine) in enumerate(problems.items()):
        for b, (column, label) in enumerate((("seconds", "seconds"), ("gap", "gap"))):
            axis = axes[2 * a + b]
            for colour, method in zip(COLOURS, FORMULATIONS, strict=False):
                of_method = where(mine, method=method)
                _bars(axis, of_method, "n", column, colour, FORMULATIONS[method])
            axis.set(ylabel=label, title=f"p = {p}, r = {degree}")
            _log_rows(axis)
        axes[2 * a].set_yscale("log")
    axes[0].legend(fontsize=7)
    return figure


def real_data(rows: list[Row]) -> Figure:
    """Mean TE of every method as a share of the paper's best, one column per data set."""
    names = names_of(rows)
    figure, (axis,) = _panels(1, 1, width=8.0)
    axis.axhline(1.0, color="0.6", linestyle=":", linewidth=1, label="the paper's best of four")
    offsets = [0.11 * (a - (len(REAL_DATA) - 1) / 2) for a in range(len(REAL_DATA))]
    for colour, offset, method in zip(COLOURS, offsets, REAL_DATA, strict=False):
        points = [numbers(where(rows, data=name, method=method), "TE") for name in names]
        places = [a + offset for a, values in enumerate(points) if values]
        shares = [
            [value / paper_best(name) for value in values]
            for name, values in zip(names, points, strict=True)
            if values
        ]
        style = {**BARS, "linestyle": "none"}
        means, spread = [mean(s) for s in shares], [pstdev(s) for s in shares]
        axis.errorbar(places, means, spread, color=colour, label=REAL_DATA[method], **style)
    axis.set_xticks(range(len(names)), [name.replace("_", " ") for name in names])
    axis.set(ylabel="TE / the paper's best", ylim=(0, 2.2))
    axis.legend(fontsize=7, ncols=2)
    return figure


FIGURES: dict[str, Callable[[list[Row]], Figure]] = {
    "phase_transition": phase_transition,
    "phase_transition-proofs": proof_seconds,
    "cutting_planes": cutting_planes,
    "path": path,
    "input_ranking": input_ranking,
    "correlated_inputs": correlated_inputs,
    "formulations": formulations,
    "real_data": real_data,
}
_RECOVERY = (("A", "accuracy A %"), ("F", "false alarms F %"), ("seconds", "seconds"))


def _panels(columns: int, rows: int, width: float = 3.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(max(width * columns, 5.0), 3.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.ravel())


def _log_rows(axis: Axes) -> None:
    """Put n on a logarithmic axis, with numbers that read as numbers."""
    axis.set(xlabel="rows n", xscale="log")
    axis.set_xticks([n for n in (50, 100, 200, 400, 1000) if _within(n, axis.get_xlim())])
    axis.xaxis.set_major_formatter("{x:.0f}")
    axis.xaxis.set_minor_formatter(NullFormatter())


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _lines_by_method(axis: Axes, rows: list[Row], column: str) -> None:
    for colour, method in zip(COLOURS, methods_of(rows), strict=False):
        _bars(axis, where(rows, method=method), "n", column, colour, LABELS[method])


def _bars(axis: Axes, rows: list[Row], x: str, y: str, colour: str, label: str) -> None:
    """Draw means with standard deviations over the data sets; nothing where there are no rows."""
    points = {value: numbers(where(rows, **{x: value}), y) for value in distinct(rows, x)}
    if points:
        means = [mean(values) for values in points.values()]
        spread = [pstdev(values) for values in points.values()]
        axis.errorbar(list(points), means, spread, color=colour, label=label, **BARS)


def draw(name: str, rows: list[Row], folder: Path) -> Path:
    """Draw the figure of an experiment and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.png"
    # No date in the file, so that the same rows give the same bytes.
    FIGURES[name](rows).savefig(target, dpi=110, metadata={"Software": None})
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figures asked for."""
    parser = argparse.ArgumentParser(prog="python -m experiments.plot", description="Draw figures.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="from the rows of quick runs")
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the figures")
    options = parser.parse_args(arguments)
    for name in options.names or FIGURES:
        if name not in FIGURES:
            parser.error(f"NAME must be one of {', '.join(FIGURES)}, got {name}")
        owner = name.split("-")[0]  # the experiment whose rows it shows
        rows = finished(read(default_output(owner, options.quick)), load(owner).key)
        print(draw(name, rows, options.output) if rows else f"{name}: no rows yet")


if __name__ == "__main__":
    main()
