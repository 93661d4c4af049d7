"""From rows to the entries of a table: groups, means with their spread, n0, Markdown.

n0 of a method is the smallest n of the grid from which on, at every larger n too, A = 100 % and
F = 0 in all data sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import mean, median, pstdev
from typing import Any

from experiments.rows import Row

PROVED = "optimal"
NOTHING = "-"  # an entry without rows


def groups(rows: Iterable[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows by the values of some columns, in the order of first appearance."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def where(rows: Iterable[Row], **values: Any) -> list[Row]:
    """Return the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == str(v) for name, v in values.items())]


def distinct(rows: Iterable[Row], name: str) -> list[int]:
    """Return the integer values of a column, sorted."""
    return sorted({int(row[name]) for row in rows})


def numbers(rows: Iterable[Row], name: str) -> list[float]:
    """Return the values of a column, where a row has one."""
    return [float(row[name]) for row in rows if row[name] != ""]


def averaged(rows: Iterable[Row], name: str, digits: int = 0) -> str:
    """Return mean ± standard deviation over the data sets."""
    values = numbers(rows, name)
    if not values:
        return NOTHING
    return f"{mean(values):.{digits}f} ± {pstdev(values):.{digits}f}"


def typical(rows: Iterable[Row], name: str, show: Callable[[float], str] = "{:.2g}".format) -> str:
    """Return the median and, in brackets, the largest value."""
    values = numbers(rows, name)
    return f"{show(median(values))} ({show(max(values))})" if values else NOTHING


def percent(value: float) -> str:
    """Return a share in percent with three digits, 0 below a ten-thousandth of a percent."""
    return "0 %" if value < 1e-6 else f"{100.0 * value:.3g} %"


def share(rows: Sequence[Row], holds: Callable[[Row], bool]) -> str:
    """Return how many of the rows have a property, as a/b."""
    return f"{sum(holds(row) for row in rows)}/{len(rows)}" if rows else NOTHING


def proved(row: Row) -> bool:
    """Whether the gap tolerance was reached."""
    return row["status"] == PROVED


def exact_law(row: Row) -> bool:
    """Whether the law was found, the whole of it and nothing else."""
    return float(row["A"]) == 100.0 and float(row["F"]) == 0.0


def every_law(rows: list[Row]) -> bool:
    """Whether the law was found exactly in every data set."""
    return all(map(exact_law, rows))


def mean_accuracy(rows: list[Row]) -> bool:
    """Whether the mean accuracy is at least 99 %, the paper's reading of a phase transition."""
    return mean(numbers(rows, "A")) >= 99.0


def n0(rows: Sequence[Row], holds: Callable[[list[Row]], bool] = every_law) -> int | None:
    """Return the n from which on something holds at every n; None if not at the largest."""
    smallest = None
    for n in reversed(distinct(rows, "n")):
        if not holds(where(rows, n=n)):
            break
        smallest = n
    return smallest


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    body = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in body)
