"""Commands in the pages print what the pages say."""

import importlib.util
import os
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("transcripts", DOCS / "transcripts.py")
transcripts = importlib.util.module_from_spec(spec)
spec.loader.exec_module(transcripts)

PAGES = [
    page
    for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    if "_build" not in page.parts and transcripts.BLOCK.search(page.read_text(encoding="utf-8"))
]


def comparable(text):
    """Return printed text without what depends on the machine and on the engine's path."""
    text = re.sub(r"proven lower bound.*(?=, over)", "...", text)
    text = re.sub(r"\d+ nodes?, \d+ cuts?, .* s; stopped", "stopped", text)
    # What other sizes could reach is as far as two seconds have proved it.
    text = re.sub(r"^([> ] +\d+ +\S+ ± \S+) +(0\.\d+|-)$", r"\1", text, flags=re.M)
    text = re.sub(r"\d+\.\d{7,}", lambda number: f"{float(number[0]):.6g}", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def blocks(page, slow):
    """Return the blocks to compare; the slow ones need what the others made, so they get all."""
    found = transcripts.BLOCK.findall(page.read_text(encoding="utf-8"))
    return [block for mark, block in found if slow or not mark]


def compare(page, folder, slow):
    last = 0
    transcripts.bring_files(page, folder)
    for block in blocks(page, slow):
        for command, expected in transcripts.commands(block):
            printed, last = transcripts.run(command, folder, last)
            assert comparable(printed) == comparable(expected), command


@pytest.mark.skipif(os.name == "nt", reason="needs bash")
@pytest.mark.needs("pandas", "matplotlib", "pyarrow", "scikit-learn>=1.8")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_print_what_the_page_says(page, tmp_path):
    compare(page, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs bash")
@pytest.mark.needs("pandas", "matplotlib", "pyarrow", "scikit-learn>=1.8")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_slow_commands_too(page, tmp_path):
    compare(page, tmp_path, slow=True)


def test_the_pages_about_the_command_line_show_it():
    assert DOCS / "guide" / "command_line.md" in PAGES


def test_commands_and_their_output_are_told_apart():
    block = "$ one \\\n  two\nout\nput\n$ three\n"
    assert list(transcripts.commands(block)) == [("one \\\n  two\n", "out\nput\n"), ("three\n", "")]
