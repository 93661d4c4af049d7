"""Changes to a proof: some break it, some leave it true, some claim what is false.

``forge(proof, rng)`` applies a few at random, to nodes, vectors, diagonals, pairwise shifts,
screenings and the statement, and often raises the claim.  Whatever comes out, a checker may accept
it only if what it then calls proved is true of the changed statement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from polysharp.certificate.proof import Proof
from polysharp.checker import Diagonal, Pairs, ProofNode, Screening, Vector

Rng = np.random.Generator
KINDS = ("dual", "split", "enumeration", "void")
FACTORS = (0.0, -1.0, 0.5, 2.0, 1.0 + 1e-9, 1e8, 1e-8, 1e150, 1e300, np.nan, np.inf)


def forge(proof: Proof, rng: Rng, optimum: float) -> Proof:
    """Return a changed proof; ``optimum`` is the least cost that the true statement allows."""
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3, 8]))):
        change = CHANGES[int(rng.integers(len(CHANGES)))]
        with np.errstate(all="ignore"):
            proof = change(proof, rng)
    if rng.random() < 0.6:
        above = 1.0 + float(rng.choice([1e-12, 1e-9, 1e-7, 1e-4, 0.1, 10.0]))
        proof = replace(proof, bound=optimum * above + float(rng.choice([0.0, 0.0, 1e-12, 1.0])))
    if rng.random() < 0.5 and proof.statement is not None:
        dearer = proof.statement.objective * float(rng.choice([1.0, 10.0, 1e6])) + 1.0
        proof = replace(proof, statement=replace(proof.statement, objective=dearer))
    return proof


def _any(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))] if len(items) else None


def _with_node(proof: Proof, rng: Rng, change: Callable[[ProofNode], ProofNode]) -> Proof:
    if not proof.nodes:
        return proof
    number = int(rng.integers(len(proof.nodes)))
    nodes = list(proof.nodes)
    nodes[number] = change(nodes[number])
    return replace(proof, nodes=tuple(nodes))


def _positions(proof: Proof, rng: Rng) -> Any:
    f = len(proof.statement.monomials) if proof.statement is not None else 5
    count = int(rng.integers(0, f + 1))
    return rng.permutation(f)[:count].astype(np.intp)


def _vector(proof: Proof, rng: Rng, vector: Vector | None) -> Vector:
    """Change a vector, or make one up."""
    if vector is None or rng.random() < 0.2:
        index = _positions(proof, rng)
        size = 10.0 ** rng.uniform(-6, 12)
        return Vector(index, size * rng.standard_normal(len(index)), int(rng.integers(-1, 2)))
    how = int(rng.integers(6))
    if how == 5:
        return replace(vector, multiple=vector.multiple * float(_any(rng, FACTORS)))
    if how == 0:
        return replace(vector, value=vector.value * float(_any(rng, FACTORS)))
    if how == 1:
        return replace(vector, index=vector.index[1:], value=vector.value[1:])
    if how == 2:
        return replace(vector, diagonal=int(rng.integers(-2, len(proof.diagonals) + 2)))
    if how == 3:
        return replace(vector, value=vector.value + rng.standard_normal(len(vector.value)))
    return replace(vector, index=rng.permutation(vector.index))


def _screening(proof: Proof, rng: Rng, screening: Screening | None) -> Screening:
    """Change a screening, or make one up."""
    nothing = np.zeros(0, dtype=np.intp)
    if screening is None:
        return Screening(_vector(proof, rng, None), _positions(proof, rng), nothing)
    how = int(rng.integers(5))
    if how == 0:
        return replace(screening, out=np.union1d(screening.out, _positions(proof, rng)))
    if how == 1:
        return replace(screening, inn=_positions(proof, rng)[:2])
    if how == 2:
        return replace(screening, only=_positions(proof, rng))
    if how == 3:
        return replace(screening, along=_positions(proof, rng))
    return replace(screening, vector=_vector(proof, rng, screening.vector))


def change_a_kind(proof: Proof, rng: Rng) -> Proof:
    """Call a node something else."""
    return _with_node(proof, rng, lambda node: replace(node, kind=_any(rng, KINDS)))


def change_a_vector(proof: Proof, rng: Rng) -> Proof:
    """Give a node another vector."""
    other = _any(rng, proof.nodes)
    return _with_node(
        proof, rng, lambda node: replace(
            node,
            vector=other.vector if rng.random() < 0.4 else _vector(proof, rng, node.vector),
        ),
    )  # fmt: skip


def change_a_screening(proof: Proof, rng: Rng) -> Proof:
    """Change, add or borrow screenings."""
    other = _any(rng, proof.nodes)

    def changed(node: ProofNode) -> ProofNode:
        if rng.random() < 0.3:
            return replace(node, screenings=other.screenings)
        last = node.screenings[-1] if node.screenings else None
        return replace(node, screenings=(*node.screenings[:-1], _screening(proof, rng, last)))

    return _with_node(proof, rng, changed)


def change_the_tree(proof: Proof, rng: Rng) -> Proof:
    """Drop, repeat or exchange children and members of a chain."""

    def changed(node: ProofNode) -> ProofNode:
        how = int(rng.integers(6))
        if how == 0:
            return replace(node, children=node.children[:-1], chain=node.chain[:-1])
        if how == 1:
            return replace(node, children=node.children[::-1])
        if how == 2:
            return replace(node, chain=node.chain[::-1])
        if how == 3:
            return replace(node, chain=tuple(int(j) for j in _positions(proof, rng)))
        if how == 4:
            return replace(node, on_inputs=not node.on_inputs)
        return replace(node, children=tuple(int(c) for c in rng.permutation(node.children)))

    return _with_node(proof, rng, changed)


def close_the_root(proof: Proof, rng: Rng) -> Proof:
    """One node for everything."""
    vector = _vector(proof, rng, (_any(rng, proof.nodes) or ProofNode("dual")).vector)
    root = ProofNode(_any(rng, KINDS), vector=vector, on_inputs=bool(rng.random() < 0.5))
    return replace(proof, nodes=(root,))


def end_early(proof: Proof, rng: Rng) -> Proof:
    """Let the reader go through everything where the proof has split, or through sets of inputs."""
    sets = bool(rng.random() < 0.5)
    proof = _with_node(
        proof, rng, lambda node: replace(
            node, kind="enumeration", on_inputs=sets, vector=None, chain=(), children=()
        ),
    )  # fmt: skip
    reached, stack = set[int](), [0] if proof.nodes else []
    while stack:
        number = stack.pop()
        if number not in reached and 0 <= number < len(proof.nodes):
            reached.add(number)
            stack += proof.nodes[number].children
    order = sorted(reached)  # nodes that are cut off would be noticed at once
    place = {number: a for a, number in enumerate(order)}
    nodes = [proof.nodes[number] for number in order]
    moved = (replace(n, children=tuple(place.get(c, c) for c in n.children)) for n in nodes)
    return replace(proof, nodes=tuple(moved))


def name_exceptions(proof: Proof, rng: Rng) -> Proof:
    """Leave supports out of the claim: the model, others, forbidden ones, one twice."""
    s = proof.statement
    if s is None or not s.monomials:
        return proof
    place = {term: j for j, term in enumerate(s.monomials)}
    model = tuple(sorted(place[term] for term in s.support if term in place))
    some = tuple(sorted(_positions(proof, rng)[: s.max_terms].tolist()))
    named = _any(rng, ((model,), (some,), (model, some), (model, model), (), (model[::-1],)))
    return replace(proof, exceptions=(*proof.exceptions, *named))


def change_a_diagonal(proof: Proof, rng: Rng) -> Proof:
    """Change diagonals, or add one for everything."""
    if not proof.diagonals or rng.random() < 0.3:
        index = np.sort(_positions(proof, rng))
        value = 10.0 ** rng.uniform(-12, 12) * rng.standard_normal(len(index))
        return replace(proof, diagonals=(*proof.diagonals, Diagonal(index, value)))
    factor, added = float(_any(rng, FACTORS)), float(_any(rng, (0.0, 1e-9, 1.0, -1.0)))
    diagonals = tuple(replace(d, value=factor * d.value + added) for d in proof.diagonals)
    return replace(proof, diagonals=diagonals)


def _made_up(proof: Proof, rng: Rng, diagonal: Diagonal) -> Diagonal:
    """Give a diagonal a pairwise shift that nothing speaks against, and less of everything else."""
    index, T = np.sort(diagonal.index), int(rng.integers(1, 7))
    c = np.triu(rng.integers(-32767, 32768, (len(index), len(index))), 1)
    size = float(np.sqrt(np.abs(diagonal.value).mean())) if len(index) else 0.0
    reach = size * 10.0 ** rng.uniform(-3, 1) * rng.random(len(index))
    pairs = Pairs(index, reach, (c + c.T).astype(np.int16))
    free = rng.permutation(index)[: int(rng.integers(0, len(index) + 1))]
    value = float(rng.uniform(-1, 1)) * diagonal.value
    return replace(diagonal, value=value, pairs=pairs, free=free, terms=T)


def _pairs(proof: Proof, rng: Rng, diagonal: Diagonal) -> Diagonal:
    """Change what a diagonal's pairwise shift is, or where and for how many terms it counts."""
    if diagonal.pairs is None or rng.random() < 0.1:
        return _made_up(proof, rng, diagonal)
    index, reach, ratios = (getattr(diagonal.pairs, n) for n in ("index", "reach", "ratios"))
    how, size = int(rng.integers(8)), len(ratios)
    if how == 0:
        return replace(diagonal, terms=int(_any(rng, (diagonal.terms - 1, diagonal.terms + 1, 0))))
    if how == 1:
        return replace(diagonal, free=_positions(proof, rng))
    if how == 2:
        return replace(diagonal, pairs=None)
    if how == 3:
        reach = reach * float(_any(rng, FACTORS))
    if how == 4:
        reach = reach * 10.0 ** rng.uniform(-1, 1, len(reach))
    if how == 5:  # stays a pairwise shift
        c = np.triu(rng.integers(-32767, 32768, (size, size)), 1)
        ratios = np.where(rng.random() < 0.5, c + c.T, -ratios).astype(np.int16)
    if how == 6 and size:  # is none
        ratios = ratios.copy()
        ratios[int(rng.integers(size)), int(rng.integers(size))] = int(
            _any(rng, (-32768, 32767, 1))
        )
    if how == 7:
        index = _any(rng, (index[::-1], index + 1, _positions(proof, rng)))
    return replace(diagonal, pairs=Pairs(index, reach, ratios))


def change_a_pairwise_shift(proof: Proof, rng: Rng) -> Proof:
    """Change the pairwise shifts of diagonals, or make some up."""
    diagonals = tuple(_pairs(proof, rng, d) if rng.random() < 0.5 else d for d in proof.diagonals)
    return replace(proof, diagonals=diagonals)


def change_the_statement(proof: Proof, rng: Rng) -> Proof:
    """Change a field of the statement."""
    s = proof.statement
    if s is None:
        return proof
    term = _any(rng, s.monomials) or (0,)
    factor = float(_any(rng, FACTORS))
    changes: list[dict[str, Any]] = [
        {"gamma": s.gamma * factor},
        {"scale": s.scale * factor},
        {"scale": s.scale * 10.0 ** rng.uniform(-200, 200, len(s.scale))},
        {"shift": s.shift + float(_any(rng, (0.1, 1e8, np.nan, 1e300)))},
        {"max_terms": s.max_terms + int(rng.integers(-2, 3))},
        {"max_inputs": s.max_inputs + int(rng.integers(-2, 3))},
        {"degree": s.degree + int(rng.integers(-1, 2))},
        {"degree": int(10.0 ** rng.uniform(1, 9))},
        {"heredity": _any(rng, (None, "weak", "strong", "strict"))},
        {"excluded_terms": (*s.excluded_terms, term)},
        {"excluded_terms": ()},
        {"required_terms": (*s.required_terms, term)},
        {"required_terms": ()},
        {"required_inputs": (0,)},
        {"monomials": s.monomials[1:]},
        {"monomials": s.monomials[::-1]},
        {"kept_inputs": s.kept_inputs[1:]},
        {"fit_intercept": not s.fit_intercept},
        {"listed": not s.listed},
        {"support": s.support[1:]},
        {"support": (term,)},
        {"max_interaction": int(rng.integers(0, 4))},
        {"interaction_degree": int(rng.integers(0, 4))},
        {"total_weight": s.total_weight * factor},
        {"objective": s.objective * factor},
        {"exact_size": not s.exact_size},
        {"refit_gamma": s.gamma * factor},
    ]
    return replace(proof, statement=replace(s, **_any(rng, changes)))


CHANGES = (
    *(change_a_kind, change_a_vector, change_a_screening, change_the_tree),
    *(
        close_the_root,
        end_early,
        name_exceptions,
        change_a_diagonal,
        change_a_pairwise_shift,
        change_the_statement,
    ),
)
