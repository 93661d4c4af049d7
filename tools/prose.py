"""Find sentences in the pages that one reads twice: ``python tools/prose.py [FILE ...]``.

A sentence names who acts, then the action, then the object.  The patterns below find habits that
break this rule, and words that only the authors understand.  Code, mathematics, links, headings,
tables and blocks that scripts write are no prose and are left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/guide/*.md",
    "docs/examples/plot_*.py",
    "docs/examples/*.rst",
    "src/polysharp/cli/help/*.txt",
)

# Each pattern with its advice.  ``^`` is the beginning of a sentence, and questions are allowed.
HABITS = {
    r"^Of (?!course)": "begin with the subject: 'each response has a row'",
    r"^Where\b[^?]*$": "put the condition last, with 'if'",
    r"^What\b[^?]*$": "name the thing",
    r"\b(by|from|than|is|are|of|on|to|with) what\b[^?]*$": "name the thing",
    r"\bwhat (is left|remains)\b": "name the thing",
    r"(?<!, )\bso (many|few)\b": "give the number, or name the limit",
    r"^(Refused|Allowed|Supported|Shown|Compared|Excluded|Counted|Kept) (is|are)\b": "who does it?",
    r"\b(can|could|may|to) be had\b": "who gets it?",
    r"\b(thereof|whereby|wherein|thereby)\b": "use plain English",
    r"\b(census|ledger|quest|outlook)\b": "the glossary has the word",
}
WRITTEN = r"^<!-- (?:rows|table|opening|run|figure)\b.*?^<!-- end"  # by scripts
NO_PROSE = (
    rf"^```.*?^```|{WRITTEN}|\$\$.*?\$\$|<!--.*?-->|^#.*?$|^\|.*?$|^ {{4}}.*?$|^.*\n[-=]{{4,}}$"
)
CODE = r"`+[^`]*`+|\$[^$]+\$|\]\([^)]*\)"
PARAGRAPHS = r"\n\s*\n|^\s*(?:[-*]|\d+\.|:) "
SENTENCES = r"(?<=[.!?:])(?:\*\*|\))?\s+(?=[A-Z`*(\[])"


def pages() -> list[Path]:
    """Return the files whose prose is checked."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def prose(path: Path) -> str:
    """Return the text of a page; of an example, its docstring and the comments that are text."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    comments = re.findall(r"^# %%\n((?:#.*\n)+)", text, re.MULTILINE)
    parts = [*re.findall(r'\A\w?"""(.*?)"""', text, re.DOTALL), *comments]
    return "\n\n".join(re.sub(r"^# ?", "", part, flags=re.MULTILINE) for part in parts)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, without code."""
    text = re.sub(NO_PROSE, "\n", text, flags=re.DOTALL | re.MULTILINE)
    parts = re.split(PARAGRAPHS, re.sub(CODE, "_", text), flags=re.MULTILINE)
    lines = (" ".join(part.split()) for part in parts)
    return [own.strip(" *_([") for line in lines for own in re.split(SENTENCES, line) if own]


def complaints(text: str) -> list[str]:
    """Return the sentences of a text that match a pattern, each with the advice."""
    return [
        f"{sentence[:90]!r}: {advice}"
        for sentence in sentences(text)
        for habit, advice in HABITS.items()
        if re.search(habit, sentence)
    ]


if __name__ == "__main__":
    files = [Path(name) for name in sys.argv[1:]] or pages()
    found = [f"{path}: {complaint}" for path in files for complaint in complaints(prose(path))]
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
