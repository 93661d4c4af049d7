"""Which of many budgets is taken, on errors written by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from polysharp.choice import NEAR, choose
from polysharp.errors import InfeasibleError
from polysharp.grid_search import Candidate, Scores


def scores(curves, sizes=None):
    """Errors of one curve over the sizes for each gamma."""
    candidates, errors = [], []
    for gamma, curve in curves.items():
        for size, error in zip(sizes or range(1, len(curve) + 1), curve, strict=True):
            candidates.append(Candidate(2, gamma, False, None, size))
            errors.append([error - 0.1, error + 0.1])
    count = len(candidates)
    zeros = np.zeros(count)
    return Scores(tuple(candidates), np.array(errors), zeros, zeros, count, count)


def chosen(found, rule):
    candidate = found.candidates[choose(found, rule)]
    return candidate.gamma, candidate.max_terms


def test_an_error_that_is_low_by_luck_stands_alone():
    flat, lucky = np.full(40, 1.0), np.full(40, 1.2)
    flat[24] = 0.99
    lucky[9] = 0.9
    found = scores({1.0: lucky, 2.0: flat})
    assert chosen(found, "best") == (1.0, 10)
    assert chosen(found, "smooth") == (2.0, 25)


@pytest.mark.parametrize("terms", [1, 2, 5, 12, 30])
def test_a_law_of_so_many_terms_is_not_blurred(terms):
    """Each further term costs a little; averages must not prefer the sizes behind the fall."""
    curve = [10.0 if size < terms else 1.0 + 1e-3 * size for size in range(1, 61)]
    assert chosen(scores({1.0: curve}), "smooth") == (1.0, terms)


def test_neighbours_share_all_but_the_size():
    """The low errors of another gamma do not speak for this one."""
    low = np.full(20, 1.0)
    mixed = np.tile([0.95, 1.3], 10)
    found = scores({1.0: mixed, 2.0: low}, range(20, 40))
    assert chosen(found, "best")[0] == 1.0
    assert chosen(found, "smooth")[0] == 2.0


def test_sizes_far_apart_are_no_neighbours():
    sizes = [5, 10, 20, 40]
    assert all(b - a > NEAR * b for a, b in pairwise(sizes))
    found = scores({1.0: [2.0, 1.0, 1.5, 1.4]}, sizes)
    assert chosen(found, "smooth") == chosen(found, "best") == (1.0, 10)


@pytest.mark.parametrize("rule", ["smooth", "best", "one-se"])
def test_what_was_not_compared_is_not_chosen(rule):
    curve = np.full(30, 1.0)
    curve[10:] = np.nan
    curve[8] = 0.7
    assert chosen(scores({1.0: curve, 2.0: np.full(30, np.nan)}), rule) == (1.0, 9)
    with pytest.raises(InfeasibleError, match="no polynomial within the budgets"):
        choose(scores({1.0: np.full(3, np.nan)}), rule)


def test_one_standard_error_takes_the_shortest():
    found = scores({1.0: [2.0, 1.09, 1.0, 1.05]})  # standard error 0.1
    assert chosen(found, "one-se") == (1.0, 2)


def test_long_goes_as_far_as_validation_cannot_tell():
    sizes = list(range(1, 61))
    rising = [2.0 if size < 20 else 1.0 + 1e-3 * (size - 20) for size in sizes]
    found = scores({1.0: rising, 2.0: np.full(60, 3.0)})
    # Both splits see the same small rise at every size: it is no noise, and the rule stays.
    place = choose(found, "long")
    assert found.candidates[place].gamma == 1.0
    assert 20 <= found.candidates[place].max_terms <= 25
    # One split sees a rise and the other a fall of nearly the same size: nobody can tell.
    found.errors[19:60] += np.outer(np.arange(41), [0.05, -0.05])
    assert chosen(found, "long") == (1.0, 60)


def test_long_with_one_split_is_the_least_average():
    found = scores({1.0: np.r_[np.full(20, 2.0), np.full(20, 1.0)]})
    single = replace(found, errors=found.errors[:, :1])
    size = chosen(single, "long")[1]
    assert size == 40
