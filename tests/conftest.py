"""Tests run where the packages they need are installed, and are skipped elsewhere.

Three ways for a test to say what it needs: a file by its imports at the top, a case by a parameter
that is the name of an engine or of an export, and any test by ``@pytest.mark.needs("package")``.
What scikit-learn's own methods print on the pages depends on its version, and "scikit-learn>=1.8"
is needed there.
"""

import ast
import os
import re
import shutil
import signal
import tomllib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARAMETERS = {
    "cutting-planes": ("highspy", "pyscipopt"),
    "cutting-planes-multitree": ("highspy",),
    "cutting-planes-gurobi": ("highspy", "gurobipy"),
    "big-m": ("pyscipopt",),
    "to_onnx": ("onnx",),
    "to_sympy": ("sympy",),
}
DOCTESTS = {
    "polysharp.data.files.scan": ("pandas", "dask"),
    "polysharp.report.write_report": ("pandas",),
}
FILES = {  # whose imports do not show it
    "test_cutting_planes.py": ("highspy", "pyscipopt"),
    "test_big_m.py": ("pyscipopt",),
    "test_experiments.py": ("matplotlib",),
    "test_real_data.py": ("matplotlib",),
}
MODULES = {"python-flint": "flint", "pyyaml": "yaml"}  # packages that are imported by another name

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


@cache
def optional_modules():
    """Return the modules that only the extras of the package bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    names = {re.match(r"[\w-]+", line)[0] for line in extras} - {"polysharp"}
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


@cache
def installed(module):
    """Whether a module is there or, of "scikit-learn>=1.8", whether the package is new enough."""
    name, _, least = module.partition(">=")
    if not least:
        return find_spec(name) is not None
    return [int(part) for part in version(name).split(".")[:2]] >= [*map(int, least.split("."))]


@cache
def missing_imports(path):
    """Return the optional modules that a file imports at its top and that are not installed."""
    found = set(FILES.get(path.name, ()))
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return sorted(name for name in found & optional_modules() if not installed(name))


def pytest_configure():
    """Let Ctrl-C be heard, which shells have everything that runs in the background ignore."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path):
    if collection_path.suffix == ".py" and missing_imports(collection_path):
        return True
    return None


def pytest_report_header():
    absent = sorted(name for name in optional_modules() if not installed(name))
    return f"not installed, so what needs them is left out: {', '.join(absent)}" if absent else None


def pytest_collection_modifyitems(items):
    for item in items:
        needed = [name for mark in item.iter_markers("needs") for name in mark.args]
        needed += DOCTESTS.get(item.name, ())
        for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
            needed += PARAMETERS.get(value, ()) if isinstance(value, str) else ()
        absent = [name for name in needed if not installed(name)]
        if absent:
            item.add_marker(pytest.mark.skip(reason=f"{', '.join(absent)} not installed"))


@pytest.fixture(scope="module")
def browser():
    """Return a Chromium: the one named by ``POLYSHARP_CHROMIUM``, or one on the PATH."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs Playwright: pip install playwright"
    )
    found = os.environ.get("POLYSHARP_CHROMIUM") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    if found is None and os.environ.get("POLYSHARP_BROWSER") == "required":
        pytest.fail("no Chromium on the PATH, and POLYSHARP_BROWSER says there must be one")
    if found is None:
        pytest.skip("needs Chromium: none on the PATH, and POLYSHARP_CHROMIUM is not set")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture(autouse=True, scope="session")
def no_announcements():
    """Announce no compiling: whether anything is compiled depends on what ran before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polysharp.progress.BLINK", 1e6)
        yield
