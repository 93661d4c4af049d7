"""When a node is strengthened before it is branched on: by what both have taken so far."""

from __future__ import annotations

import pytest
from support import StrengtheningPolicy


def after_branching(worth: float = 1.0) -> StrengtheningPolicy:
    """Return what is known after branching of 0.1 s that leave two children 0.01 closer."""
    policy = StrengtheningPolicy(worth)
    for _ in range(200):
        policy.note_branching(0.05, [0.04, 0.04, 0.0], 0.1)
    return policy


def test_the_first_node_is_strengthened_while_that_brings_something() -> None:
    policy = StrengtheningPolicy()
    assert policy.begins(8, 0.3, 1.0, 60.0)
    assert policy.continues(0.3, 0.1, 1.0, 60.0)
    assert not policy.continues(0.3, 0.01, 1.0, 60.0)


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
def test_a_begins_that_saves_more_than_it_takes(
    short: float, brought: float, seconds: float, pays: bool
) -> None:
    assert after_branching().saves(short, brought, seconds, 60.0) == pays
    assert after_branching(10.0).saves(short, brought, seconds / 10.0, 60.0) == pays


def test_what_shifts_bring_is_learnt() -> None:
    policy = after_branching()
    assert policy.begins(8, 0.04, 1.1, 60.0)
    for _ in range(30):
        policy.note_shift(8, 0.04, 0.039)
    assert not policy.begins(8, 0.04, 1.1, 60.0)
    assert policy.begins(7, 0.04, 1.1, 60.0)


def test_branching_that_leaves_nothing_open_needs_no_shift() -> None:
    policy = StrengtheningPolicy()
    policy.note_branching(0.05, [0.0, 0.0], 0.1)
    assert not policy.begins(8, 0.05, 1.0, 60.0)
