"""When a node is coupled before it is split: by what splits and couplings have taken so far."""

from __future__ import annotations

import pytest
from support import Outlook


def after_splits(worth: float = 1.0) -> Outlook:
    """Return what is known after splits of 0.1 s that leave two children 0.01 closer."""
    outlook = Outlook(worth)
    for _ in range(200):
        outlook.note_split(0.05, [0.04, 0.04, 0.0], 0.1)
    return outlook


def test_the_first_node_is_coupled_while_that_brings_something() -> None:
    outlook = Outlook()
    assert outlook.coupling_pays(8, 0.3, 1.0, 60.0)
    assert outlook.going_on_pays(0.3, 0.1, 1.0, 60.0)
    assert not outlook.going_on_pays(0.3, 0.01, 1.0, 60.0)


@pytest.mark.parametrize(
    ("short", "brought", "seconds", "pays"),
    [
        # 0.04 short: 0.1 s times 2^4.
        (0.04, 0.04, 1.5, True),
        (0.04, 0.04, 1.7, False),
        # Half the way: 2^4 - 2^2.
        (0.04, 0.02, 1.1, True),
        (0.04, 0.02, 1.3, False),
        # Far more than there is time for, with it or without: 31 splits raise a bound by 0.05.
        (1.0, 0.06, 3.1, True),
        (1.0, 0.04, 3.1, False),
        # Nothing is brought.
        (0.04, 0.0, 0.1, False),
    ],
)
def test_a_coupling_pays_that_saves_more_than_it_takes(
    short: float, brought: float, seconds: float, pays: bool
) -> None:
    assert after_splits().pays(short, brought, seconds, 60.0) == pays
    assert after_splits(10.0).pays(short, brought, seconds / 10.0, 60.0) == pays


def test_what_couplings_bring_and_take_is_learnt() -> None:
    outlook = after_splits()
    assert outlook.coupling_pays(8, 0.04, 1.1, 60.0)
    for _ in range(30):
        outlook.note_coupling(8, 0.04, 0.039)
    assert not outlook.coupling_pays(8, 0.04, 1.1, 60.0)
    assert outlook.coupling_pays(7, 0.04, 1.1, 60.0)
    for _ in range(30):
        outlook.note_pace(2.0)
    assert outlook.pace == pytest.approx(2.0, abs=0.01)


def test_splits_that_leave_nothing_open_need_no_coupling() -> None:
    outlook = Outlook()
    outlook.note_split(0.05, [0.0, 0.0], 0.1)
    assert not outlook.coupling_pays(8, 0.05, 1.0, 60.0)
