"""What rules force, against all supports of small structures."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from instances import make_instance
from support import inner, propagate

FREE = inner("FREE", "problem")
IN = inner("IN", "problem")
OUT = inner("OUT", "problem")


def allowed_supports(structure):
    """Yield all allowed supports as masks of monomials."""
    for size in range(structure.max_terms + 1):
        for chosen in combinations(range(structure.n_terms), size):
            support = np.array(chosen, dtype=np.intp)
            if structure.allows(support):
                mask = np.zeros(structure.n_terms, dtype=bool)
                mask[support] = True
                yield mask


def fixings(rng, structure):
    """Fix a few monomials and inputs at random."""
    terms = rng.choice([IN, FREE, OUT], structure.n_terms, p=[0.1, 0.7, 0.2]).astype(np.int8)
    inputs = rng.choice([IN, FREE, OUT], structure.n_inputs, p=[0.1, 0.8, 0.1]).astype(np.int8)
    return terms, inputs


def within(structure, mask, terms, inputs):
    """Whether a support keeps to the fixings; an input that is in need not be used."""
    used = structure.uses[mask].any(axis=0)
    counted = used | (inputs == IN)
    return (
        mask[terms == IN].all()
        and not mask[terms == OUT].any()
        and not used[inputs == OUT].any()
        and counted.sum() <= structure.max_inputs
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_allowed_support_is_lost(seed):
    structure = make_instance(seed).problem.structure
    rng = np.random.default_rng(seed)
    supports = list(allowed_supports(structure))
    for _ in range(10):
        terms, inputs = fixings(rng, structure)
        before = [m for m in supports if within(structure, m, terms, inputs)]
        # Inputs are rows of the rules only where they can bind.
        if not (structure.inputs_bind or len(structure.required_inputs)):
            inputs[:] = FREE
            before = [m for m in supports if within(structure, m, terms, inputs)]
        fixed = terms.copy(), inputs.copy()
        possible = propagate(structure, *fixed)
        assert possible or not before
        if possible:
            assert all(within(structure, m, *fixed) for m in before)
            assert np.all(fixed[0][terms != FREE] == terms[terms != FREE])
            assert np.all(fixed[1][inputs != FREE] == inputs[inputs != FREE])


def test_a_full_budget_takes_all_others_out():
    structure = make_instance(0).problem.structure
    terms = np.zeros(structure.n_terms, dtype=np.int8)
    terms[: structure.max_terms] = IN
    inputs = np.zeros(structure.n_inputs, dtype=np.int8)
    assert propagate(structure, terms, inputs)
    assert np.all(terms[structure.max_terms :] == OUT)
    terms[structure.max_terms] = IN
    assert not propagate(structure, terms, inputs)
