"""Which columns of a table are what, and whether they hold numbers.

Nothing is dropped in silence: a cell that is no number, a missing or an infinite one is named
with its column and its row.  Rows are counted from 1, the first one below the header.  Columns
that hold true and false count as 1 and 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Any

import numpy as np

from polysharp.cli.command import say
from polysharp.cli.delimited import NAMELESS
from polysharp.cli.recipe import MOST_VALUES, few_texts, to_numbers
from polysharp.cli.table_cells import is_dressed, is_number
from polysharp.errors import InputError
from polysharp.estimators.scored_rows import ScoredRows
from polysharp.wording import plural

MOST_NAMES = 8  # of the columns a message lists
FEWEST_COUNTED = 10  # rows of which 1, 2, 3, ... is no accident
NO_INPUTS = {"empty": "empty", "date": "dates"}
LOOKED_AT = 1000  # texts of a column that tell what it holds
SPARED_ROWS = 0.2  # share of the rows that is left out for missing values without being told to
DATE = re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([ T].*)?")


def targets_of(columns: Collection[str], given: str) -> tuple[str, ...]:
    """Return the targets that ``a,b`` names; a column of just that name comes first.

    Examples
    --------
    >>> targets_of(["a", "b"], "a, b")
    ('a', 'b')
    >>> targets_of(["a", "a,b"], "a,b")
    ('a,b',)
    """
    if given in columns:
        return (given,)
    return tuple(dict.fromkeys(split_names([given]) or [given]))


def choose_inputs(
    frame: Any,
    source: str,
    targets: Sequence[str],
    given: Sequence[str] | None,
    excluded: Collection[str],
) -> list[str]:
    """Return the inputs that are named, or all columns that are nothing else."""
    names = frame.columns if given is None else given
    if given is not None and (both := [target for target in targets if target in given]):
        raise InputError(f"--inputs must not name the target {both[0]!r}")
    chosen = [n for n in frame.columns if n in names and n not in {*targets, *excluded}]
    if given is not None:
        if not chosen:
            raise InputError(
                "--inputs must name a column that --exclude and --weights do not, got "
                f"{listed(given) or 'none'}"
            )
        return chosen
    for i, name in enumerate(frame.columns):
        if name == NAMELESS.format(i) and name in chosen:
            raise InputError(
                f"{source!r} has a column without a name; leave it out with --exclude '{name}', "
                "or name it in the header"
            )
    if not chosen:
        raise InputError(
            f"{source!r} must have a column beside the target {joined(targets)!r} to be an input, "
            "got none"
        )
    return chosen


def useless(frame: Any, names: Sequence[str], indicators: bool | None) -> dict[str, str]:
    """Return the columns that cannot explain anything, and why each is left out."""
    found: dict[str, str] = {}
    seen: dict[bytes, str] = {}
    for name in names:
        cells = frame[name].dropna()
        kind = "empty" if not len(cells) else kind_of(frame[name])
        if kind in NO_INPUTS:
            found[name] = NO_INPUTS[kind]
        elif kind == "text" and indicators is not False:
            count, common = cells.astype(str).nunique(), few_texts(cells, whole=False)
            if indicators is None or not common:
                more = "; --indicators takes the commonest" if common else ""
                found[name] = f"text, {plural(count, 'value')}{more}"
            if count == 1:
                found[name] = f"always {cells.iloc[0]!r}"
        elif kind == "numbers":
            values = to_numbers(frame[name]).to_numpy()
            content = values.tobytes()
            if (values == values[0]).all():
                found[name] = f"always {values[0]:g}"
            elif content in seen:
                found[name] = f"a copy of {seen[content]!r}"
            seen.setdefault(content, name)
    return found


def counters(frame: Any, names: Sequence[str]) -> list[str]:
    """Return the columns that number the rows, from whatever number on."""
    if len(frame) < FEWEST_COUNTED:
        return []
    return [name for name in names if (np.diff(to_numbers(frame[name])) == 1.0).all()]


def numbers(frame: Any, source: str, names: Sequence[str], spared: Sequence[str] = ()) -> Any:
    """Return the named columns as float64, or say which cells are not finite numbers.

    ``spared`` are the columns that the user could do without.  Missing cells are NaN.
    """
    import pandas as pd

    columns = {name: to_numbers(frame[name]).to_numpy() for name in names}
    wrong = {name: np.isnan(found) & frame[name].notna() for name, found in columns.items()}
    if bad := {name: cells for name, cells in wrong.items() if cells.any()}:
        raise InputError(_not_numbers(frame, source, bad, spared))
    for name, found in columns.items():
        infinite = np.flatnonzero(np.isinf(found))
        if len(infinite):
            row = int(infinite[0])
            raise InputError(
                f"column {name!r} of {source!r} must hold finite numbers, "
                f"got {found[row]} in row {row + 1}; correct the cell, or empty it"
            )
    return pd.DataFrame(columns)


def _not_numbers(frame: Any, source: str, wrong: dict[str, Any], spared: Sequence[str]) -> str:
    """Say which cells are no numbers, and what can be done about each kind of column."""
    first = {name: int(np.flatnonzero(cells)[0]) for name, cells in wrong.items()}
    shown = [
        f"{frame[name].iloc[row]!r} in row {row + 1} of column {name!r}"
        for name, row in first.items()
    ]
    kinds = {name: _kind(frame[name], cells) for name, cells in wrong.items()}
    marks = {kind.removeprefix("mark ") for kind in kinds.values() if kind.startswith("mark ")}
    met, mark = {kind.partition(" ")[0] for kind in kinds.values()}, min(marks, default="")
    ways = {
        "mark": f"if {mark!r} stands for a missing value, say --missing '{mark}'",
        "few": f"make 0/1 columns of texts with up to {MOST_VALUES} values by --indicators",
        "date": "turn dates into numbers first, such as days since the first one",
        "dressed": "write numbers without currency, marks for thousands, per cent signs or units",
        "mixed": "where other rows hold numbers, correct the cell, or empty it",
    }
    if len(marks) > 1:
        met = met - {"mark"} | {"mixed"}
    if "few" in met and not any(kinds[name] == "few" for name in kinds if name in spared):
        ways["few"] = "write numbers in place of its texts, such as 0 and 1"
    advice = [words for kind, words in ways.items() if kind in met and kind != "mixed"]
    told = marks if len(marks) == 1 else set()
    others = [name for name, kind in kinds.items() if kind.removeprefix("mark ") not in told]
    advice += _exclude("", others, spared)
    advice += [ways["mixed"]] if "mixed" in met else []
    more = f" and {len(shown) - MOST_NAMES} columns more" if len(shown) > MOST_NAMES else ""
    given = ", ".join(shown[:MOST_NAMES]) + more + "".join(f"; {words}" for words in advice)
    return f"the columns used of {source!r} must hold numbers, got {given}"


def kind_of(column: Any) -> str:
    """Return what a column holds: "numbers", or what the cells are that are none."""
    wrong = to_numbers(column).isna() & column.notna()
    return _kind(column, wrong) if wrong.any() else "numbers"


def _kind(column: Any, wrong: Any) -> str:
    """Return what a column holds that is no number: "mark ?" where it is one text among numbers."""
    texts = column[wrong].astype(str)
    if DATE.fullmatch(texts.iloc[0]):
        return "date"
    if texts.nunique() > 1 and all(map(is_dressed, texts.unique()[:LOOKED_AT])):
        return "dressed"
    if (~wrong & column.notna()).any():
        return f"mark {texts.iloc[0]}" if texts.nunique() == 1 else "mixed"
    return "few" if few_texts(column.dropna()) else "text"


def _exclude(words: str, names: Sequence[str], spared: Sequence[str]) -> list[str]:
    """Return the advice to leave columns out, where it can be followed."""
    found = [name for name in names if name in spared]
    words = words or "leave columns out with"
    return [f"{words} --exclude '{joined(found)}'"] if 0 < len(found) < len(spared) else []


def complete(
    table: Any, source: str, spared: Sequence[str], drop_missing: bool, made_of: Mapping[str, str]
) -> Any:
    """Leave out the rows with missing values: any, or as many as nobody minds.

    ``made_of`` tells which columns of the file indicators are made of.
    """
    missing = table.isna().rename(columns=made_of)
    missing = missing.loc[:, ~missing.columns.duplicated()]
    spared = list(dict.fromkeys(made_of.get(name, name) for name in spared))
    incomplete = missing.any(axis=1).to_numpy()
    if not incomplete.any():
        return table
    counts = missing.sum()
    names = [str(name) for name in missing.columns if counts[name]]
    if incomplete.sum() <= (1.0 if drop_missing else SPARED_ROWS) * len(table):
        if not incomplete.all():
            where = "" if drop_missing else f" in {listed(names)}; --impute median fills them in"
            say(
                f"left out {int(incomplete.sum())} of {len(table)} rows, which have missing "
                f"values{where}"
            )
            return table[~incomplete].reset_index(drop=True)
        most = str(counts.idxmax())
        advice = "".join(_exclude("; leave it out with", [most], spared))
        raise InputError(
            f"--drop-missing must leave rows in, got missing values in all {len(table)} rows of "
            f"{source!r}, most in {most!r} ({counts[most]}){advice}"
        )
    first = int(np.flatnonzero(missing[names[0]])[0]) + 1
    more = f" (and {len(names) - MOST_NAMES} more)" if len(names) > MOST_NAMES else ""
    shown = ", ".join(f"{name!r} ({counts[name]})" for name in names[:MOST_NAMES])
    fill = ["fill cells in with --impute median"] if set(names) <= set(spared) else []
    ways = ["leave such rows out with --drop-missing", *fill, *_exclude("", names, spared)]
    if empty := [name for name in names if counts[name] == len(table)]:
        ways = _exclude("leave columns without values out with", empty, spared)
    advice = "".join(f"{'; ' if not at else ', or '}{way}" for at, way in enumerate(ways))
    raise InputError(
        f"{source!r} must have no missing values in more than {100 * SPARED_ROWS:.0f} % of its "
        f"rows, got some in {shown}{more}, the first in row {first}{advice}"
    )


def find(frame: Any, source: str, names: Iterable[str], option: str) -> None:
    """Refuse names that the table does not have, and show which it has."""
    known = [str(name) for name in frame.columns]
    unknown = [name for name in names if name not in known]
    if not unknown:
        return

    def likeness(name: str) -> float:
        pairs = [(name.casefold(), word.casefold()) for word in unknown]
        return max(1.0 if b in a else SequenceMatcher(None, a, b).ratio() for a, b in pairs)

    # Those that resemble what was asked for come first.
    near = sorted(known, key=lambda name: -likeness(name) if likeness(name) > 0.6 else 0.0)
    hint = ""
    if len(known) == 1 and any(mark in known[0] for mark in ",;\t|"):
        hint = "; is the delimiter right? say --delimiter"
    elif 2 * sum(map(is_number, known)) > len(known):
        hint = "; if its first line holds no names, say --no-header, and number columns"
    raise InputError(
        f"{option} must name columns of {source!r}, got {listed(unknown)}; "
        f"it has {listed(near)}{hint}"
    )


def accuracy(rows: ScoredRows) -> str:
    """Return root mean squared error and R2 in words."""
    return f"RMSE {rows.rmse:.4g}" + ("" if rows.r2 is None else f", R2 {rows.r2:.6g}")


def listed(names: Sequence[str]) -> str:
    """Return some names for a message, the first few of many."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(repr, names[:MOST_NAMES])) + more


def split_names(given: Sequence[str] | None) -> list[str] | None:
    """Read ``a,b`` and repeated options; a name that holds a comma stands in double quotes.

    Examples
    --------
    >>> split_names(["a,b", '"c, d"'])
    ['a', 'b', 'c, d']
    """
    if given is None:
        return None
    rows = csv.reader(given, skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]


def joined(names: Iterable[str]) -> str:
    r"""Return names as ``split_names`` reads them.

    Examples
    --------
    >>> names = ["a", "b, c", 'say "d"', "e\nf"]
    >>> split_names([joined(names)]) == names
    True
    """
    written = StringIO()
    csv.writer(written).writerow(names)
    return written.getvalue().removesuffix("\r\n")
