"""The README and the documentation are true: code runs, printed output is what it prints."""

import contextlib
import importlib
import io
import re
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import polysharp
import polysharp.plots

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    if "_build" not in page.parts
]
# A block of code, and the block of output that stands right after it, if one does.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def blocks(page):
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def comparable(text):
    """Return printed text without what depends on the machine and on the engine's path."""
    text = re.sub(r"proven lower bound.*(?=, over)", "...", text)
    text = re.sub(r"\d+ nodes?, \d+ cuts?, .* s; stopped", "stopped", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def name(page):
    return page.relative_to(ROOT).as_posix()


WITH_CODE = [page for page in PAGES if page.name != "CONTRIBUTING.md" and blocks(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for code, expected in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), namespace)
        if expected:
            assert comparable(printed.getvalue()) == comparable(expected)
    plt.close("all")


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/start.md"])
def test_the_first_pages_show_code_with_its_output(page):
    assert any(expected for _, expected in blocks(ROOT / page))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page):
    # "../../actions" is the repository's own page of runs, where the README is shown.
    link = r"\]\((?!https?:|#|mailto:|\.\./\.\./actions/)([^)#]+)"
    targets = re.findall(link, page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("module", [polysharp, polysharp.plots], ids=lambda m: m.__name__)
def test_every_public_name_is_in_the_api_reference(module):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = {line.strip().rpartition(".")[2] for line in text.splitlines()}
    assert sorted(set(module.__all__) - listed - {"__version__"}) == []


def entries_of_the_api_reference():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)


@pytest.mark.parametrize("entry", entries_of_the_api_reference())
def test_every_entry_of_the_api_reference_exists_and_is_documented(entry):
    home, _, name = f"polysharp.{entry}".rpartition(".")
    assert getattr(importlib.import_module(home), name).__doc__


def test_every_page_is_in_a_table_of_contents():
    docs = ROOT / "docs"
    listed = set()
    for page in docs.rglob("*.md"):
        for tree in re.findall(r"^```{toctree}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S):
            entries = re.findall(r"^(?!:)(?:.*<)?([\w/]+)>?$", tree, re.MULTILINE)
            listed |= {(page.parent / entry).relative_to(docs).as_posix() for entry in entries}
    pages = {page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md")}
    assert sorted(page for page in pages - listed if not page.startswith("_build")) == ["index"]


def test_the_readme_is_read_to_its_end():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_every_page_begins_with_its_purpose():
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "_build" in page.parts or text.startswith("```"):
            continue
        first = next(part for part in text.split("\n\n")[1:] if not part.startswith("<!--"))
        assert first[0].isalpha() or first.startswith(("**", "`", "[")), page
