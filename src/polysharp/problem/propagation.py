"""What the rules of a structure force once some monomials and inputs are fixed.

States are 1 (in), 0 (free), -1 (out).  ``propagate`` applies, until nothing changes:

- a monomial that is in brings its inputs in; an input that is out takes its monomials out;
- with k inputs in, all others are out; a monomial that needs more new inputs than are left is
  out; with l monomials in, all others are out; if exactly l are asked for and no more are left,
  those are in;
- a required input with a single monomial left that uses it brings that monomial in;
- strong heredity: a monomial that is in brings its parents in, one with a parent out is out;
  weak heredity: one with all parents out is out, one that is in with a single parent left
  brings it in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polysharp.monomials.structure import Structure

States = NDArray[np.int8]
IN, FREE, OUT = 1, 0, -1


class Contradiction(Exception):
    """The fixings leave no allowed support."""


def propagate(structure: Structure, terms: States, inputs: States) -> bool:
    """Fix in place what follows from the fixings; return whether any allowed support may remain."""
    before, now = -1, _fixed(terms, inputs)
    try:
        while before != now:
            before = now
            if structure.inputs_bind or len(structure.required_inputs):
                _apply_inputs(structure, terms, inputs)
            if structure.heredity is not None:
                _apply_heredity(structure, terms)
            _apply_budget(structure, terms)
            now = _fixed(terms, inputs)
    except Contradiction:
        return False
    return True


def _fixed(terms: States, inputs: States) -> int:
    return int(np.count_nonzero(terms)) + int(np.count_nonzero(inputs))


def _fix(states: States, where: NDArray[np.bool_] | NDArray[np.intp], value: int) -> None:
    """Fix entries to ``value``; contradiction if one is already fixed the other way."""
    if np.any(states[where] == -value):
        raise Contradiction
    states[where] = value


def _apply_budget(structure: Structure, terms: States) -> None:
    count = int(np.count_nonzero(terms == IN))
    if count > structure.max_terms:
        raise Contradiction
    if count == structure.max_terms:
        terms[terms == FREE] = OUT
    elif structure.exact_size:
        left = int(np.count_nonzero(terms != OUT))
        if left < structure.max_terms:
            raise Contradiction
        if left == structure.max_terms:
            terms[terms == FREE] = IN


def _apply_inputs(structure: Structure, terms: States, inputs: States) -> None:
    uses = structure.uses
    _fix(inputs, np.asarray(uses[terms == IN].any(axis=0)), IN)
    _fix(inputs, structure.required_inputs, IN)
    left = structure.max_inputs - int(np.count_nonzero(inputs == IN))
    if left < 0:
        raise Contradiction
    if left == 0:
        inputs[inputs == FREE] = OUT
    _fix(terms, np.asarray(uses[:, inputs == OUT].any(axis=1)), OUT)
    _fix(terms, np.asarray(uses[:, inputs == FREE].sum(axis=1) > left), OUT)
    for i in structure.required_inputs:
        alive = np.flatnonzero(uses[:, i] & (terms != OUT))
        if not len(alive):
            raise Contradiction
        if len(alive) == 1:
            terms[alive] = IN


def _apply_heredity(structure: Structure, terms: States) -> None:
    strong = structure.heredity == "strong"
    for j in np.flatnonzero(terms != OUT):
        parents = structure.parents[j]
        if not len(parents):
            continue
        alive = parents[terms[parents] != OUT]
        if len(alive) < (len(parents) if strong else 1):
            _fix(terms, np.array([j]), OUT)
        elif terms[j] == IN and (strong or len(alive) == 1):
            terms[alive] = IN
