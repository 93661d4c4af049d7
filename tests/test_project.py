"""What stands around the code agrees with it: versions, requirements, workflows, recipes."""

import importlib.util
import re
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from polysharp import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bounds(lines):
    """Return name -> lower bound of requirements such as "numpy>=1.26" or "numpy >=1.26"."""
    pairs = (re.match(r"([\w.-]+)(?:\[.*\])? ?>= ?([\w.]+)$", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs}


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load(read("CITATION.cff"))["version"] == __version__
    assert re.search(r'set version = "(.*)"', read("conda/meta.yaml"))[1] == __version__
    date = yaml.safe_load(read("CITATION.cff"))["date-released"]
    assert f"## [{__version__}] - {date}\n" in read("CHANGELOG.md")


def test_the_changelog_lists_versions_newest_first():
    versions = re.findall(r"^## \[(\d+)\.(\d+)\.(\d+)\] - (?:unreleased|20\d\d-\d\d-\d\d)$",
                          read("CHANGELOG.md"), re.MULTILINE)  # fmt: skip
    sections = re.findall(r"^## (?!\[Unreleased\]$)", read("CHANGELOG.md"), re.MULTILINE)
    assert len(versions) == len(sections)
    numbers = [tuple(map(int, version)) for version in versions]
    assert numbers == sorted(numbers, reverse=True)


def test_the_text_of_a_release_is_its_section_of_the_changelog():
    text = "# Changelog\n\n## [0.2.0] - unreleased\n\n- b\n\n## [0.1.0] - 2026-01-01\n\n- a\n"
    section = tool("changelog").section
    assert section(text, "0.2.0") == "- b"
    assert section(text, "0.1.0") == "- a"
    with pytest.raises(SystemExit, match=r"no section on 0\.3\.0"):
        section(text, "0.3.0")


@pytest.mark.parametrize(
    "sentence",
    [
        "Of several responses, there is a row for each.",
        "It is quick. Where rows are few, it draws folds three times.",
        "- What a term brings is shown beside it.",
        "At most so many terms.",
        "The search goes on with what is left.",
        "Refused are tables with\nno rows.",
    ],
)
def test_sentences_that_one_reads_twice_are_noticed(sentence):
    assert tool("prose").complaints(f"# Title\n\n{sentence}\n")


def test_questions_code_and_what_scripts_write_are_not_complained_of():
    text = "# What it costs\n\nWhere is the optimum? It is noisy, so many terms fit.\n\n"
    text += "```\nOf several, one.\n```\n\n<!-- rows: a -->\n\nOf so many.\n\n<!-- end -->\n"
    assert tool("prose").complaints(text) == []


def test_the_pages_have_no_sentence_that_one_reads_twice():
    prose = tool("prose")
    pages = prose.pages()
    assert {"README.md", "start.md", "plot_08_proof.py", "fit.txt"} <= {p.name for p in pages}
    assert [c for page in pages for c in prose.complaints(prose.prose(page))] == []


def test_every_requirement_has_a_lower_bound_and_no_upper_one():
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras.values() for line in extra)]
    others = [line for line in lines if not line.startswith("polysharp[")]
    assert len(bounds(others)) == len({re.match(r"[\w.-]+", line)[0] for line in others})


def test_the_same_package_has_the_same_bound_in_every_extra():
    extras = PROJECT["optional-dependencies"].values()
    found = {}
    for extra in extras:
        for name, bound in bounds([x for x in extra if not x.startswith("polysharp[")]).items():
            assert found.setdefault(name, bound) == bound, name


def test_the_lowest_versions_are_those_of_the_requirements():
    lowest = tool("lowest")
    assert lowest.lowest("1.26") == "==1.26.*"
    assert lowest.lowest("14") == "==14.*"
    assert lowest.lowest("0.9.1") == "==0.9.*,>=0.9.1"
    lines = lowest.constraints(PROJECT)
    names = {re.match(r"[\w-]+", line)[0] for line in lines}
    assert set(bounds(PROJECT["dependencies"])) <= names
    assert {"highspy", "pandas", "dask"} <= names
    assert "ruff" not in names


def test_all_means_all_that_needs_no_licence_and_no_graphics_card():
    extras = PROJECT["optional-dependencies"]
    named = re.search(r"\[(.*)\]", extras["all"][0])[1].split(",")
    left_out = {"all", "gurobi", "torch", "neighbours", "test", "dev", "docs"}
    assert set(extras) - left_out == set(named)


def test_an_archive_without_a_file_of_the_package_is_noticed(tmp_path):
    shipped = tool("shipped")
    source = ROOT / "src"
    whole = [path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()]
    assert shipped.missing(whole) == []
    texts = {"cli/help/fit.txt", "datasets/uci.toml", "py.typed", "cli/page/page.html"}
    for text in texts:
        assert shipped.missing(set(whole) - {f"polysharp/{text}"}) == [f"polysharp/{text}"]
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("polysharp/__init__.py", "")
    assert shipped.names_in(str(wheel)) == ["polysharp/__init__.py"]


def test_links_that_lead_nowhere_on_pypi_are_noticed():
    """The substitutions are those that the build makes; ``make dist`` looks at what it made."""
    settings = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
    page = read("README.md")
    loose = tool("shipped").loose_links
    assert {"docs/start.md", "docs/_static/hero.png", "LICENSE"} <= set(loose(page))
    for rule in settings["fancy-pypi-readme"]["substitutions"]:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    assert loose(page) == []
    assert "](https://polysharp.readthedocs.io/en/stable/start.html)" in page
    assert "../" not in page.partition("make demo")[0]


def test_the_conda_recipe_asks_for_the_same():
    recipe = re.sub(r"^{%.*%}$", "", read("conda/meta.yaml"), flags=re.MULTILINE)
    recipe = yaml.safe_load(re.sub(r"{{.*?}}", "x", recipe))["requirements"]
    assert bounds(recipe["run"][1:]) == bounds(PROJECT["dependencies"])
    extras = [x for extra in PROJECT["optional-dependencies"].values() for x in extra]
    offered = bounds([x for x in extras if not x.startswith("polysharp[")])
    for name, bound in bounds(recipe["run_constrained"]).items():
        assert offered[name.removesuffix("-base")] == bound


def test_the_supported_pythons_are_those_that_are_tested():
    jobs = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]
    tested = jobs["tests"]["strategy"]["matrix"]["python"]
    stated = [re.search(r":: (3\.\d+)$", line) for line in PROJECT["classifiers"]]
    assert tested == [match[1] for match in stated if match]
    assert PROJECT["requires-python"] == f">={tested[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_may_only_read_unless_a_job_says_why_not(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            assert "@" in step.get("uses", "@"), step  # a version, not whatever is newest
    assert "secrets." not in path.read_text(encoding="utf-8")  # publishing needs no password


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_targets_that_exist(path):
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"run: make ([\w-]+)", path.read_text(encoding="utf-8"))) <= targets


def test_commits_are_checked_by_what_lint_runs():
    hooks = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"][0]["hooks"]
    entries = " ".join(hook["entry"] for hook in hooks)
    lint = read("Makefile").partition("\nlint:")[2].partition("\n\n")[0]
    assert [name for name in re.findall(r"\(BIN\)/([\w-]+)", lint) if name not in entries] == []


@pytest.mark.parametrize("name", ["bug.yml", "wish.yml"])
def test_issue_forms_have_what_the_forms_need(name):
    form = yaml.safe_load(read(f".github/ISSUE_TEMPLATE/{name}"))
    assert {"name", "description", "body"} <= set(form)
    fields = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(fields) == len(set(fields)) > 0


def test_the_paper_cites_what_its_bibliography_has():
    cited = set(re.findall(r"@(\w+)", read("paper/paper.md").partition("\n---\n")[2]))
    assert cited == set(re.findall(r"^@\w+\{(\w+),$", read("paper/paper.bib"), re.MULTILINE))


def test_the_pictures_of_the_paper_exist():
    shown = re.findall(r"!\[[^]]*\]\(([^)]+)\)", read("paper/paper.md"))
    assert shown
    assert [name for name in shown if not (ROOT / "paper" / name).exists()] == []
