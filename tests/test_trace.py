"""A fit can be followed from room to room in few hops."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
spec = importlib.util.spec_from_file_location("trace_of_a_fit", DOCS / "trace.py")
trace = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trace)


def test_a_fit_takes_few_hops():
    trace.fit()
    found = trace.hops(trace.fit)
    assert {"data", "monomials", "moments", "problem", "engines"} <= {hop.room for hop in found}
    assert found[-1].returned == "Polynomial"
    assert len(found) <= trace.MOST


def test_the_page_is_the_table_of_a_run():
    text = (DOCS / "trace.md").read_text(encoding="utf-8")
    count = sum(line.startswith("| ") and line[2].isdigit() for line in text.splitlines())
    assert f"follows {count} hops" in text
    assert count <= trace.MOST
