"""Numbers as text: never more than is proved, and errors in one line."""

from __future__ import annotations

import pytest
from support import TimeBudget, first_line, home, load_optional

from polysharp.errors import MissingSolverError

wording = home("rounded_down")


@pytest.mark.parametrize(
    ("name", "values", "texts"),
    [
        ("rounded_down", (36.16988, 0.25), ("36.1698", "0.25")),
        ("rounded_up", (0.81234, 0.25, 0.99991234), ("0.8124", "0.2500", "0.999913")),
        ("number", (36.16988, -1.5), ("36.1699", "\N{MINUS SIGN}1.5")),
        ("at_most", (36.16988, 0.25), ("36.1698", "0.25")),
        (
            "percent",
            (0.03141, 0.0, 1e-9, 0.5),
            ("3.2\xa0%", "0\xa0%", "<\xa00.0001\xa0%", "50\xa0%"),
        ),
        ("r_squared", (0.87654, 0.999871, None), ("0.8765", "0.99987", "\N{EN DASH}")),
    ],
)
def test_numbers_are_rounded_to_the_safe_side(name, values, texts):
    assert tuple(map(getattr(wording, name), values)) == texts


def test_errors_in_one_line():
    assert first_line(ValueError("\nno such sheet\nthere are two")) == "no such sheet"
    assert first_line(ValueError()) == "ValueError"
    message = (
        r"^engine='magic' needs the package nowhere, which is not installed; "
        r"run 'pip install polysharp\[solvers\]'$"
    )
    with pytest.raises(MissingSolverError, match=message):
        load_optional("nowhere", "engine='magic'", "solvers")


def test_a_budget_of_time_has_no_end_unless_one_is_given():
    assert TimeBudget().remaining() == float("inf")
    assert not TimeBudget().expired
    assert TimeBudget(0.0).expired
