"""Diagonals with a coupling: what they prove is true, and forgeries of them are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from support import (
    Curvature,
    Diagonal,
    DiagonalStart,
    InnerProducts,
    PairwiseMatrix,
    ProofError,
    ProofNode,
    ProofWriter,
    Screening,
    Vector,
    best_diagonal,
    find_pairwise_shift,
    first_start,
    inner,
    make_reader,
)

from polysharp import (
    MultiTaskSparsePolynomialRegressor,
    Proof,
    SparsePolynomialRegressor,
    verify,
)
from tests.instances import while_it_gains

read_rows = inner("read_rows", "checker")

NONE = np.zeros(0, dtype=np.intp)
SHAPES = ((12, 1), (3, 2), (2, 3), (10, 1))  # inputs and degree: 9 to 12 monomials


@dataclass
class Case:
    """A table, the proof of a search over it, and its moments by the checker."""

    X: np.ndarray
    y: np.ndarray
    proof: Proof
    moments: InnerProducts
    L: int

    @property
    def f(self) -> int:
        return len(self.moments.q)

    @property
    def G(self) -> np.ndarray:
        return self.moments.G(np.arange(self.f))

    @property
    def q(self) -> np.ndarray:
        return self.moments.q[:, 0]

    @property
    def yy(self) -> float:
        return float(self.moments.yy[0])

    @property
    def H(self) -> np.ndarray:
        return self.G + self.moments.lam * np.eye(self.f)

    def least(self, held: tuple[int, ...] = ()) -> float:
        """Return the least cost of all supports that have what is held."""
        H, q, cost = self.H, self.q, np.inf
        others = [j for j in range(self.f) if j not in held]
        for more in combinations(others, self.L - len(held)):
            S = [*held, *more]
            gain = 0.5 * q[S] @ np.linalg.solve(H[np.ix_(S, S)], q[S])
            cost = min(cost, 0.5 * self.yy - gain)
        return cost

    def with_leaf(self, diagonal: Diagonal, w: np.ndarray, bound: float) -> Proof:
        """Return a proof of one node."""
        node = ProofNode("dual", vector=Vector(diagonal.index, w, 0))
        return replace(self.proof, nodes=(node,), diagonals=(diagonal,), bound=bound)


def make_case(seed: int, shape: tuple[int, int] | None = None, L: int | None = None) -> Case:
    rng = np.random.default_rng(seed)
    p, degree = shape or SHAPES[seed % len(SHAPES)]
    L, n = L or 2 + seed % 4, 40
    X = rng.standard_normal((n, p))
    if seed % 2:
        X = 0.3 * X + rng.standard_normal((n, 1)) + 0.5 * rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) * (rng.random() < 0.7) + X[:, 0] * X[:, -1]
    y += 2.0 * rng.standard_normal(n)
    options = {"degree": degree, "max_terms": L, "gamma": float(10.0 ** rng.uniform(-1, 2))}
    model = SparsePolynomialRegressor(engine="tree", gap_tol=1e-6, time_limit=20.0, **options)
    proof = model.fit(X, y).solution_.proof
    s = proof.statement
    return Case(X, y, proof, InnerProducts(s, read_rows(s, X, y, None), s.monomials), L)


@dataclass
class Coupled:
    """A proof by a coupling, what it claims, and what no diagonal alone could reach."""

    proof: Proof
    bound: float
    uncoupled: float
    best: float


def coupled(case: Case) -> Coupled:
    """Couple all monomials of a case, and prove what that proves."""
    H, q, L, yy, every = case.H, case.q, case.L, case.yy, np.arange(case.f)
    start = first_start(H, L)
    assert start is not None
    plain = best_diagonal(H, q, L, start, aim=0.0, tol=1e-4, max_steps=60)
    found = find_pairwise_shift(
        H, q, L, start, aim=0.5 * yy - case.least(), worthwhile=while_it_gains
    )
    assert plain is not None
    assert found is not None
    coupling = found.matrix_over(every)
    K = coupling.matrix(every, np.ones(case.f, dtype=bool), L)
    shares = DiagonalStart(0.98 * found.delta, 0.5 * found.delta, found.shares)
    better = best_diagonal(H - K, q, L, shares, aim=0.0, tol=1e-4, max_steps=60)
    assert better is not None
    delta = (1.0 - 1e-7) * better.delta
    R = H - np.diag(delta) - K
    Z = np.sort((q - R @ better.w) ** 2 / (2.0 * delta))[::-1]
    bound = 0.5 * yy - 0.5 * better.w @ R @ better.w - Z[:L].sum()
    diagonal = Diagonal(every, delta - case.moments.lam, coupling, every, L)
    claim = max(bound, 0.0) - 1e-9 * 0.5 * yy
    return Coupled(case.with_leaf(diagonal, better.w, claim), bound, 0.5 * yy - plain.least,
                   case.least())  # fmt: skip


def tangent_bound(case: Case, proof: Proof, exact: bool = False) -> float:
    """Return what the vector of the root proves, with no comparison to a claim."""
    reader = make_reader(proof, (case.X, case.y, None), exact, {})
    at = reader.rules.root()
    reader.rules.deduce(at)
    return reader.tangent(proof.nodes[0].vector, at, close=False).bound


# What couplings prove -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_coupling_proves_no_more_than_is_true(seed: int) -> None:
    case = make_case(seed)
    found = coupled(case)
    size = 0.5 * case.yy
    assert found.bound <= found.best + 1e-9 * size
    rough = verify(found.proof, case.X, case.y)
    assert rough, rough.reason
    assert tangent_bound(case, found.proof) <= max(found.bound, 0.0) + 1e-12 * size
    raised = replace(found.proof, bound=found.best * (1.0 + 1e-9))
    assert not verify(raised, case.X, case.y)
    pytest.importorskip("flint")
    exact = verify(found.proof, case.X, case.y, exact=True)
    assert exact, exact.reason
    assert tangent_bound(case, found.proof, exact=True) <= max(found.bound, 0.0) + 1e-12 * size
    assert not verify(raised, case.X, case.y, exact=True)


def test_a_coupling_proves_more_than_any_diagonal() -> None:
    better = [coupled(make_case(seed, L=3)) for seed in (0, 1, 2, 4)]
    for found in better:
        assert found.bound <= found.best * (1.0 + 1e-9)
        assert found.bound > found.uncoupled + 0.5 * (found.best - found.uncoupled)
        assert found.proof.bound > found.uncoupled


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 220))
def test_many_couplings_prove_no_more_than_is_true(seed: int) -> None:
    test_a_coupling_proves_no_more_than_is_true(seed)
    test_couplings_at_random_prove_no_more_than_is_true(seed)


@pytest.mark.parametrize("seed", range(16))
def test_couplings_at_random_prove_no_more_than_is_true(seed: int) -> None:
    """Any reach, any ratios, over some of the monomials, with and without some that are in."""
    case, rng = make_case(seed), np.random.default_rng(1000 + seed)
    f, lam, size = case.f, case.moments.lam, 0.5 * case.yy
    held = tuple(sorted(rng.permutation(f)[: int(rng.integers(0, case.L))].tolist()))
    required = tuple(case.proof.statement.monomials[j] for j in held)
    stated = replace(case.proof.statement, required_terms=required, objective=np.inf)
    stated = replace(stated, support=tuple({*required, *stated.support})[: max(len(held), 1)])
    index = rng.permutation(f)
    over = np.sort(rng.permutation(f)[: int(rng.integers(2, f + 1))])
    free = rng.permutation(over)[: int(rng.integers(1, len(over) + 1))]
    inside = len(set(held) & set(free.tolist()))
    terms = inside + case.L - len(held)
    c = np.triu(rng.integers(-32767, 32768, (len(over), len(over))), 1).astype(np.int16)
    reach = np.sqrt(np.diag(case.H)[over] * rng.uniform(0.0, 1.0, len(over)) / terms)
    coupling = PairwiseMatrix(over, reach, (c + c.T).astype(np.int16))
    acts = np.isin(np.arange(f), free)
    K = coupling.matrix(np.arange(f), acts, terms)
    # As much of the diagonal as is left, which may be less than nothing.
    root = np.sqrt(np.diag(case.H))
    left = np.linalg.eigvalsh((case.G - K) / np.outer(root, root))[0]
    d = (left - 1e-9) * root**2
    Q = case.G - K - np.diag(d)
    S = case.proof.statement.support
    w = rng.standard_normal(f) * 0.01 * np.sqrt(case.yy) / root
    for j in (case.proof.statement.monomials.index(m) for m in S):
        w[j] = rng.uniform(0.0, 1.5) * case.q[j] / root[j] ** 2
    diagonal = Diagonal(index, d[index], coupling, free, terms)
    proof = replace(case.with_leaf(diagonal, w[index], 0.0), statement=stated)
    least = case.least(held)
    value = None
    if np.all(lam + d > 0.0):  # the formula, where nothing is bounded
        Z = (case.q - Q @ w) ** 2 / (2.0 * (lam + d))
        others = np.sort(np.delete(Z, held))[::-1][: case.L - len(held)]
        value = size - 0.5 * w @ Q @ w - Z[list(held)].sum() - others.sum()
        assert value <= least + 1e-9 * size
    for exact in (False, True):
        if exact:
            pytest.importorskip("flint")
        bound = tangent_bound(case, proof, exact)
        assert bound <= least
        if value is not None and value > 0.0:
            assert bound == pytest.approx(value, abs=1e-6 * size)
        fewer = replace(diagonal, terms=terms - 1)
        assert not verify(replace(proof, diagonals=(fewer,)), case.X, case.y, exact=exact)
        above = replace(proof, bound=least * (1.0 + 1e-9))
        assert not verify(above, case.X, case.y, exact=exact)


def test_several_responses_share_a_coupling() -> None:
    rng = np.random.default_rng(5)
    X = 0.3 * rng.standard_normal((50, 8)) + rng.standard_normal((50, 1))
    X += 0.5 * rng.standard_normal((50, 8))
    Y = X @ rng.standard_normal((8, 2)) + 2.0 * rng.standard_normal((50, 2))
    model = MultiTaskSparsePolynomialRegressor(1, 3, gamma=10.0, gap_tol=1e-6).fit(X, Y)
    proof, s = model.solution_.proof, model.solution_.proof.statement
    products = InnerProducts(s, read_rows(s, X, Y, None), s.monomials)
    G, lam, f = products.G(np.arange(8)), products.lam, 8
    H, L = G + lam * np.eye(f), 3
    start = first_start(H, L)
    found = find_pairwise_shift(H, products.q[:, 0], L, start, aim=0.0, worthwhile=while_it_gains)
    coupling = found.matrix_over(np.arange(f))
    K = coupling.matrix(np.arange(f), np.ones(f, dtype=bool), L)
    delta = 0.9 * found.delta
    R = H - np.diag(delta) - K
    while np.linalg.eigvalsh(R)[0] < 1e-9:
        delta = 0.9 * delta
        R = H - np.diag(delta) - K
    s_mid = np.full(f, L / f)
    w = [np.linalg.solve(R + np.diag(delta / s_mid), own) for own in products.q.T]
    Z = sum((q - R @ v) ** 2 / (2.0 * delta) for q, v in zip(products.q.T, w, strict=True))
    value = sum(0.5 * yy - 0.5 * v @ R @ v for yy, v in zip(products.yy, w, strict=True))
    value -= np.sort(Z)[::-1][:L].sum()
    assert value > 0.0
    diagonal = Diagonal(np.arange(f), delta - lam, coupling, np.arange(f), L)
    leaf = ProofNode("dual", vector=Vector(np.arange(2 * f), np.concatenate(w), 0))
    proof = replace(proof, nodes=(leaf,), diagonals=(diagonal,), bound=value * (1.0 - 1e-9))
    verdict = verify(proof, X, Y)
    assert verdict, verdict.reason
    assert not verify(replace(proof, bound=value * (1.0 + 1e-9)), X, Y)
    few = replace(proof, diagonals=(replace(diagonal, terms=2),))
    assert "fewer terms" in verify(few, X, Y).reason
    pytest.importorskip("flint")
    assert verify(proof, X, Y, exact=True)


@pytest.mark.parametrize("seed", range(5))
def test_integers_of_a_coupling_are_off_by_less_than_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, T, bits = 6, int(rng.integers(1, 30)), int(rng.integers(10, 140))
    c = np.triu(rng.integers(-32767, 32768, (m, m)), 1).astype(np.int16)
    reach = 10.0 ** rng.uniform(-20, 20, m)
    ratios, every = (c + c.T).astype(np.int16), np.arange(m)
    K = Curvature(every, np.zeros(m), every, reach, every, ratios, T)
    units = [Fraction(int(a), int(b)) for a, b in rng.integers(1, 10**9, (m, 2))]
    found = K.in_integers(units, bits)
    scaled = [Fraction(a) * u for a, u in zip(reach, units, strict=True)]
    for i in every:
        for j in every:
            t = Fraction(T - 1) if i == j else Fraction(int(ratios[i, j]), 2**15)
            assert abs(found[i][j] - scaled[i] * scaled[j] * t * 2**bits) < 2


# Forgeries ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample() -> tuple[Case, Coupled]:
    case = make_case(1, (3, 2), 3)
    return case, coupled(case)


Change = Callable[[Diagonal, PairwiseMatrix], Diagonal]


def with_coupling(**changes: object) -> Change:
    def change(d: Diagonal, c: PairwiseMatrix) -> Diagonal:
        made = {name: make(getattr(c, name)) for name, make in changes.items()}  # type: ignore[operator]
        return replace(d, pairs=PairwiseMatrix(**({"index": c.index, "reach": c.reach,
                                                "ratios": c.ratios} | made)))  # fmt: skip

    return change


def entry(where: object, value: object) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[where] = value
        return array

    return change


def both(value: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda ratios: entry((1, 0), value)(entry((0, 1), value)(ratios))


FORGERIES: dict[str, Change] = {
    "a ratio of -1": with_coupling(ratios=both(-(2**15))),
    "another ratio": with_coupling(ratios=entry((0, 1), 1280)),
    "no ratio of a pair": with_coupling(ratios=entry((2, 4), 19_712)),
    "a pair of one": with_coupling(ratios=entry((3, 3), 100)),
    "ratios beyond two bytes": with_coupling(ratios=lambda t: t.astype(np.int64) * 3),
    "wider ratios": with_coupling(ratios=lambda t: t.astype(np.int64)),
    "ratios as floats": with_coupling(ratios=lambda t: t.astype(float)),
    "ratios as a list": with_coupling(ratios=lambda t: t.tolist()),
    "unsigned ratios": with_coupling(ratios=lambda t: t.view(np.uint16)),
    "fewer ratios": with_coupling(ratios=lambda t: t[1:, 1:]),
    "flat ratios": with_coupling(ratios=lambda t: t.ravel()),
    "no reach": with_coupling(reach=entry(0, np.nan)),
    "negative reach": with_coupling(reach=lambda a: -a),
    "one negative reach": with_coupling(reach=entry(2, -1e-3)),
    "infinite reach": with_coupling(reach=entry(2, np.inf)),
    "huge reach": with_coupling(reach=entry(2, 1e200)),
    "large reach": with_coupling(reach=entry(2, 1e60)),
    "tiny reach": with_coupling(reach=entry(2, 1e-200)),
    "twice the reach": with_coupling(reach=lambda a: 2.0 * a),
    "shorter reach": with_coupling(reach=lambda a: a[1:]),
    "reach in half precision": with_coupling(reach=lambda a: a.astype(np.float16)),
    "reach in long doubles": with_coupling(reach=lambda a: a.astype(np.longdouble)),
    "reach as texts": with_coupling(reach=lambda a: a.astype(str)),
    "a table of reach": with_coupling(reach=lambda a: a[:, None], index=lambda j: j[:, None]),
    "the same monomial twice": with_coupling(index=entry(1, 0)),
    "another order": with_coupling(index=lambda j: j[::-1]),
    "monomials beyond": with_coupling(index=lambda j: j + 1),
    "monomials before": with_coupling(index=lambda j: j - 1),
    "floats for monomials": with_coupling(index=lambda j: j.astype(float)),
    "no monomials": with_coupling(index=lambda j: None),
    "an empty coupling": lambda d, c: replace(
        d, pairs=PairwiseMatrix(NONE, np.zeros(0), np.zeros((0, 0), np.int16))
    ),
    "no coupling": lambda d, c: replace(d, pairs=7),
    "a text": lambda d, c: replace(d, pairs="pairs"),
    "fewer terms": lambda d, c: replace(d, terms=d.terms - 1),
    "no terms": lambda d, c: replace(d, terms=0),
    "negative terms": lambda d, c: replace(d, terms=-3),
    "more terms": lambda d, c: replace(d, terms=d.terms + 4),
    "countless terms": lambda d, c: replace(d, terms=10**400),
    "terms of a float": lambda d, c: replace(d, terms=float(d.terms)),
    "terms that are true": lambda d, c: replace(d, terms=True),
    "terms that are none": lambda d, c: replace(d, terms=None),
    "free beyond": lambda d, c: replace(d, free=np.append(d.free, 999)),
    "free before": lambda d, c: replace(d, free=np.append(d.free, -1)),
    "free twice": lambda d, c: replace(d, free=np.append(d.free, d.free[0])),
    "free as floats": lambda d, c: replace(d, free=d.free + 0.5),
    "free as a table": lambda d, c: replace(d, free=d.free[:, None]),
    "free as nothing": lambda d, c: replace(d, free=None),
    "a diagonal that covers less": lambda d, c: replace(d, index=d.index[1:], value=d.value[1:]),
    "forgotten": lambda d, c: replace(d, pairs=None),
    "acts on nothing": lambda d, c: replace(d, free=NONE),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_coupling_is_rejected(sample: tuple[Case, Coupled], change: Change, exact: bool):
    if exact:
        pytest.importorskip("flint")
    case, found = sample
    first = found.proof.diagonals[0]
    forged = replace(found.proof, diagonals=(change(first, first.pairs),))
    verdict = verify(forged, case.X, case.y, exact=exact)
    assert not verdict
    assert verdict.reason


# What is said of some of them: that they are no couplings, before anything is computed.
REASONS = {
    "a ratio of -1": "a ratio of one",
    "another ratio": "not symmetric",
    "a pair of one": "pairs monomials with themselves",
    "wider ratios": "no 16-bit integers",
    "fewer ratios": "no 16-bit integers",
    "no reach": "a number that is none",
    "one negative reach": "negative or leaves the floats",
    "huge reach": "negative or leaves the floats",
    "shorter reach": "of another length",
    "the same monomial twice": "not in order",
    "monomials beyond": "not in order",
    "no coupling": "of no numbers",
    "an empty coupling": "leaves its pairwise shift",
    "fewer terms": "fewer terms than may join",
    "no terms": "no number of terms",
    "countless terms": "leave the floats",
    "terms of a float": "no number of terms",
    "free beyond": "leaves the problem",
    "free twice": "repeats itself",
    "free as floats": "no list of monomials",
    "a diagonal that covers less": "does not cover its pairwise shift",
}


@pytest.mark.parametrize("name", REASONS)
def test_the_reason_is_what_is_wrong(sample: tuple[Case, Coupled], name: str) -> None:
    case, found = sample
    first = found.proof.diagonals[0]
    forged = replace(found.proof, diagonals=(FORGERIES[name](first, first.pairs),))
    assert REASONS[name] in verify(forged, case.X, case.y).reason


@pytest.mark.parametrize("seed", range(40))
def test_changed_couplings_prove_nothing_false(sample: tuple[Case, Coupled], seed: int) -> None:
    """Whatever reach, ratios, F, terms and diagonal are: above the optimum nothing is accepted."""
    case, found = sample
    rng = np.random.default_rng(seed)
    d, f = found.proof.diagonals[0], case.f
    c = d.pairs
    shift = np.triu(rng.integers(-23_000, 23_001, (f, f)), 1)
    ratios = np.clip(c.ratios + shift + shift.T, -32767, 32767).astype(np.int16)
    np.fill_diagonal(ratios, 0)
    reach = c.reach * 10.0 ** rng.uniform(-1, 1, f)
    terms = int(rng.integers(1, f))
    free = rng.permutation(f)[: int(rng.integers(1, f + 1))]
    value = d.value - rng.choice([0.0, 1.0]) * np.diag(case.H) * rng.uniform(0, 3)
    changed = Diagonal(d.index, value, PairwiseMatrix(c.index, reach, ratios), free, terms)
    proof = replace(found.proof, diagonals=(changed,), bound=found.best * (1.0 + 1e-9))
    assert not verify(proof, case.X, case.y)


def test_coefficients_that_leave_the_floats_are_refused_exactly(sample: tuple[Case, Coupled]):
    pytest.importorskip("flint")
    case, found = sample
    node = found.proof.nodes[0]
    huge = replace(node.vector, value=np.full(case.f, 1e305))
    forged = replace(found.proof, nodes=(replace(node, vector=huge),))
    assert verify(forged, case.X, case.y, exact=True).reason == "its numbers leave the floats"


def test_a_vector_that_is_a_table_is_refused(sample: tuple[Case, Coupled]) -> None:
    case, found = sample
    twice = Vector(np.zeros((2, 1), dtype=np.intp), np.ones((2, 1)), 0)
    node = replace(found.proof.nodes[0], vector=twice)
    verdict = verify(replace(found.proof, nodes=(node,)), case.X, case.y)
    assert "is no list" in verdict.reason


# Files and writers --------------------------------------------------------------------------------


def equal(one: Diagonal, other: Diagonal) -> bool:
    """Whether two diagonals hold the same numbers, bit by bit."""
    pairs = [(one.index, other.index), (one.value, other.value), (one.free, other.free)]
    if (one.pairs is None) != (other.pairs is None) or one.terms != other.terms:
        return False
    if one.pairs is not None:
        names = ("index", "reach", "ratios")
        pairs += [(getattr(one.pairs, n), getattr(other.pairs, n)) for n in names]
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def several(found: Coupled) -> Proof:
    """Return a proof with more diagonals, some with the same coupling, one with another."""
    first = found.proof.diagonals[0]
    c = first.pairs
    small = PairwiseMatrix(c.index[[2]], c.reach[[2]], np.zeros((1, 1), np.int16))
    last = Diagonal(first.index[2:3], first.value[2:3], small, first.index[2:3], 1)
    others = Diagonal(first.index, first.value), replace(first, free=NONE, terms=9)
    return replace(found.proof, diagonals=(first, *others, last))


def test_a_file_gives_back_the_same_couplings(sample: tuple[Case, Coupled], tmp_path: Path) -> None:
    case, found = sample
    proof = several(found)
    proof.save(tmp_path / "proof")
    again = Proof.load(tmp_path / "proof")
    assert all(map(equal, proof.diagonals, again.diagonals))
    assert again.diagonals[0].pairs is again.diagonals[2].pairs
    assert again.diagonals[0].pairs is not again.diagonals[3].pairs
    assert verify(again, case.X, case.y)
    with np.load(tmp_path / "proof") as archive:
        assert archive["pairs_ratios"].dtype == np.uint16
        assert len(archive["pairs_ratios"]) == case.f * (case.f - 1) // 2
    replace(proof, diagonals=proof.diagonals[1:2]).save(tmp_path / "plain")
    assert Proof.load(tmp_path / "plain").diagonals[0].pairs is None


DAMAGES = {
    "a ratio of -1": {"pairs_ratios": entry(0, 0)},
    "ratios of another kind": {"pairs_ratios": lambda a: a.astype(np.int64)},
    "fewer ratios": {"pairs_ratios": lambda a: a[:-1]},
    "more ratios": {"pairs_ratios": lambda a: np.append(a, a[:1])},
    "fewer reaches": {"pairs_reach": lambda a: a[:-1]},
    "no reach": {"pairs_reach": entry(0, np.nan)},
    "longer": {"pairs_index_length": lambda a: a + 1},
    "vast": {"pairs_index_length": entry(0, 2**31)},
    "vaster": {"pairs_index_length": entry(0, 2**62)},
    "negative": {"pairs_index_length": entry(0, -3)},
    "lengths in floats": {"pairs_index_length": lambda a: a + 0.5},
    "no such coupling": {"diagonal_pairs": entry(0, 2)},
    "before all couplings": {"diagonal_pairs": entry(0, -2)},
    "a coupling by a float": {"diagonal_pairs": lambda a: a.astype(float)},
    "fewer diagonals": {"diagonal_pairs": lambda a: a[:-1]},
    "fewer terms": {"diagonal_terms": lambda a: a[:-1]},
    "terms in floats": {"diagonal_terms": lambda a: a.astype(float)},
    "longer lists": {"diagonal_free_length": lambda a: a + 1},
    "no terms": {"diagonal_terms": None},
    "no lists": {"diagonal_free": None},
    "no couplings": {"pairs_index": None},
    "no ratios": {"pairs_ratios": None},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_couplings_are_refused(
    sample: tuple[Case, Coupled], damage: dict, tmp_path: Path
) -> None:
    path = tmp_path / "proof"
    several(sample[1]).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for name, change in damage.items():
        if change is None:
            del arrays[name]
        else:
            arrays[name] = change(arrays[name])
    with open(path, "wb") as file:
        np.savez_compressed(file, **arrays)
    with pytest.raises(ProofError, match="is not a valid polysharp proof"):
        Proof.load(path)


def test_couplings_that_unpack_to_too_much_are_refused(
    sample: tuple[Case, Coupled], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "proof"
    several(sample[1]).save(path)
    monkeypatch.setattr("polysharp.checker.archive.MOST_RATIOS", 50)
    with pytest.raises(ProofError, match="more than 50 ratios"):
        Proof.load(path)


def test_a_coupling_counts_once_and_moves_with_its_monomials(sample: tuple[Case, Coupled]) -> None:
    case, found = sample
    proof, f = several(found), case.f
    writer = ProofWriter(limit=10**6)
    first, second = proof.diagonals[0], proof.diagonals[2]
    assert (writer.listed(first), writer.listed(second), writer.listed(first)) == (0, 1, 0)
    assert writer.stored == 2 * f + f * f // 8 + f
    places = np.random.default_rng(0).permutation(2 * f)[:f]
    screening = Screening(Vector(NONE, np.zeros(0)), NONE, NONE, only=np.sort(places))
    grafted = ProofWriter(limit=10**6)
    grafted.continue_with(grafted.reserve(), screening, proof, places)
    moved = grafted.diagonals
    assert moved[0].pairs is moved[2].pairs
    assert moved[1].pairs is None
    coupling = moved[0].pairs
    assert np.all(np.diff(coupling.index) > 0)
    assert np.array_equal(np.sort(places[first.pairs.index]), coupling.index)
    assert np.array_equal(places[first.free], moved[0].free)
    # K between two monomials is what it was.
    K = first.pairs.matrix(np.arange(f), np.ones(f, dtype=bool), case.L)
    order = np.argsort(places)
    placed = PairwiseMatrix(coupling.index, coupling.reach, coupling.ratios)
    there = placed.matrix(places[order], np.ones(f, dtype=bool), case.L)
    assert np.array_equal(K[np.ix_(order, order)], there)
    vectors = len(proof.nodes[0].vector.index)
    assert grafted.stored == 3 * f + 1 + f * f // 8 + f + 1 + vectors + f
