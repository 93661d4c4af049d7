"""Rerun the code of the README and of the pages, and write what it prints into them.

    make refresh [ARGS="README.md docs/start.md"]

A plain block right after a block of Python is its output; a block of kind ``console`` holds
commands and their output (``transcripts``); the block of ``install.md`` that begins like the demo
is the demo's.  The picture of the demo is drawn anew as well.  ``tests/test_docs.py`` and
``tests/test_transcripts.py`` check that the pages are true, times and the path of the search apart;
this file is how to make them so.
"""

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

import matplotlib
from transcripts import bring_files, refreshed

from polysharp.cli import demo

ROOT = Path(__file__).parent.parent
INSTALL = ROOT / "docs" / "install.md"
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "_build" not in page.parts
]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
DEMO = re.compile(r"^```\n(1\. .*?)^```$", re.MULTILINE | re.DOTALL)


def printed(code: str, namespace: dict[str, object]) -> str:
    """Run a block of code and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def refresh(page: Path, folder: Path) -> None:
    """Rewrite the output blocks of one page; its code runs in the folder."""
    namespace: dict[str, object] = {}

    def rewrite(block: re.Match[str]) -> str:
        output = printed(block[1], namespace)
        code = f"```python\n{block[1]}```\n"
        return code if block[2] is None else f"{code}\n```\n{output}```"

    bring_files(page, folder)
    before = page.read_text(encoding="utf-8")
    with contextlib.chdir(folder):
        text = BLOCK.sub(rewrite, before)
    text = refreshed(text, folder)
    if text != before:
        page.write_text(text, encoding="utf-8")


def refresh_demo(page: Path, picture: Path) -> None:
    """Run the demo and put its output, but for the line on the picture, into a page."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        demo.demonstrate(str(picture))
    lines = [line.rstrip() for line in out.getvalue().strip().splitlines()][:-1]
    shown = "\n".join(lines).rstrip()
    text = DEMO.sub(lambda _: f"```\n{shown}\n```", page.read_text(encoding="utf-8"))
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    matplotlib.use("Agg")
    pages = [Path(argument).resolve() for argument in sys.argv[1:]] or PAGES
    if INSTALL in pages:
        refresh_demo(INSTALL, ROOT / "docs" / "_static" / "demo.png")
    for each in pages:
        with tempfile.TemporaryDirectory() as empty:
            refresh(each, Path(empty))
