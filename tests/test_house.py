"""The house keeps its order: names, signatures, the root, and the pictures of it in the docs."""

import ast
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

import polysharp

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "polysharp"

spec = importlib.util.spec_from_file_location("architecture", ROOT / "docs" / "architecture.py")
architecture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(architecture)


@pytest.fixture(scope="module")
def trees():
    files = sorted(PACKAGE.rglob("*.py"))
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def test_a_class_name_means_one_thing(trees):
    names = Counter(
        node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_functions_take_at_most_eight_positional_arguments(trees):
    wide = [
        f"{file.relative_to(PACKAGE)}: {node.name}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name != "__init__"  # of estimators, whose parameters are scikit-learn's way
        and len(node.args.posonlyargs + node.args.args) > 8
    ]
    assert wide == []


def test_the_root_holds_a_dozen_modules_at_most():
    assert len({file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}) <= 12


def test_tests_reach_inner_modules_through_their_door():
    public = {
        "polysharp",
        "polysharp.cli",
        *(f"polysharp.{name}" for name in polysharp._SUBMODULES),
    }
    public.add("polysharp.pysindy")
    inside = {
        f"{file.name}: {node.module}"
        for file in Path(__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] == "polysharp"
        and node.module not in public
    }
    assert inside == set(), "from support import ..."


def test_every_room_is_in_the_order_of_the_layers():
    ordered = {name for storey in architecture.storeys() for name in storey}
    modules = {file.stem for file in PACKAGE.glob("*.py")} - {"__init__"}
    assert modules | {file.parent.name for file in PACKAGE.glob("*/__init__.py")} <= ordered


def test_every_room_is_in_the_table_of_rooms():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("<!-- rooms -->")[2].partition("<!-- end of rooms -->")[0]
    assert [*re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE), "root modules"] == (
        architecture.rooms()
    )


@pytest.mark.parametrize("name", architecture.PICTURES)
def test_pictures_of_the_house_are_what_the_source_says(name):
    drawn = (architecture.STATIC / name).read_text(encoding="utf-8")
    assert drawn == architecture.PICTURES[name](), "run: python docs/architecture.py"


@pytest.mark.parametrize(("room", "record"), architecture.FLOW)
def test_the_records_of_the_flow_live_in_their_rooms(trees, room, record):
    defined = {
        node.name if isinstance(node, ast.ClassDef) else node.target.id
        for file, tree in trees.items()
        if (PACKAGE / room) in file.parents
        for node in tree.body
        if isinstance(node, (ast.ClassDef, ast.AnnAssign))
    }
    assert record in defined


def test_what_a_module_imports_is_found_wherever_it_stands():
    tree = ast.parse(
        "import polysharp.errors\n"
        "from polysharp import typing\n"
        "if TYPE_CHECKING:\n    from polysharp.data.rows import Rows\n"
        "def f():\n    from polysharp.engines import base\n    import numpy\n"
    )
    assert architecture.imported(tree) == {
        "polysharp.errors",
        "polysharp.typing",
        "polysharp.data.rows",
        "polysharp.engines",
    }
