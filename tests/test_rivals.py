"""Every formula that comes close to a fitted one: the door, its proof, its files."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import NearOptimalRun, Stop, Swap, Tree, UsageCounts, home

from polysharp import (
    InputError,
    MissingSolverError,
    MultiTaskSparsePolynomialRegressor,
    PolynomialLasso,
    Proof,
    Rivals,
    SparsePolynomialRegressor,
    SparsePolynomialRegressorCV,
    load_model,
    rivals,
    save_model,
    verify,
)

WITHIN = 0.3  # of the example

RULES: list[dict[str, Any]] = [
    {},
    {"max_inputs": 2},
    {"heredity": "strong"},
    {"heredity": "weak", "max_inputs": 3},
    {"include_terms": ["x1"], "exclude_terms": ["x0 x1"]},
    {"include_inputs": ["x2"], "fit_intercept": False},
    {"max_interaction": 1, "center": True},
    {"coefficient_bounds": (-0.6, 0.9)},
]


def table(seed: int = 0, n: int = 60, p: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which the last two can replace each other."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, -1] = X[:, -2] + 0.2 * rng.standard_normal(n)
    return X, X[:, 0] ** 2 + X[:, -2] + X[:, 1] * X[:, -2] + 0.8 * rng.standard_normal(n)


def fitted(X: Any, y: Any, **options: Any) -> SparsePolynomialRegressor:
    settings = {"degree": 2, "max_terms": 3, "gamma": 1.0, **options}
    return SparsePolynomialRegressor(**settings).fit(X, y)


def by_fits(model: SparsePolynomialRegressor, X: Any, y: Any, within: float) -> set[frozenset[Any]]:
    """The referee: fit every choice of terms by itself, as one that is required."""
    names = [f"x{i}" for i in range(X.shape[1])]
    terms = [*combinations(names, 1), *combinations(names, 2), *((n, n) for n in names)]
    terms = [t for t in terms if model.fit_intercept or t]
    if not model.fit_intercept:
        terms.append(())
    costs = {}
    for some in combinations(terms, len(model.polynomial_)):
        settings = model.get_params() | {"include_terms": list(some), "engine": "enumeration"}
        required = {tuple(t.split()) for t in model.include_terms or ()}
        if not required <= set(some):
            continue
        try:
            one = SparsePolynomialRegressor(**settings).fit(X, y)
        except ValueError:  # the rules do not allow it
            continue
        costs[frozenset(one.polynomial_.monomials)] = one.solution_.objective
    limit = min(costs.values()) * (1.0 + within)
    return {terms for terms, cost in costs.items() if cost <= limit}


BRANCHING = Tree(leaf_worth=0.0, late_share=0.0, outright_share=0.0)  # no end tries everything


@pytest.mark.parametrize("engine", ["tree", BRANCHING], ids=["ends", "splits"])
@pytest.mark.parametrize("rules", RULES, ids=[str(rule) for rule in RULES])
def test_rivals_are_those_that_fits_one_by_one_find(rules: dict[str, Any], engine: Any) -> None:
    X, y = table(n=30, p=3 if engine is BRANCHING else 4)
    model = fitted(X, y, max_terms=2, engine=engine, **rules)
    found = rivals(model, X, y, within=0.3)
    assert found.complete
    assert found.bound >= 1.3 * found.objectives[0]
    assert {frozenset(p.monomials) for p in found} == by_fits(model, X, y, 0.3)
    assert found.polynomials[0].monomials == model.polynomial_.monomials
    np.testing.assert_allclose(found.best.coefficients, model.polynomial_.coefficients)
    verdict = verify(found.proof, X, y)
    assert verdict, verdict.reason
    assert verdict.bound >= 1.3 * found.objectives[0]
    assert verdict.excepted >= found.count


@pytest.fixture(scope="module")
def example() -> tuple[SparsePolynomialRegressor, np.ndarray, np.ndarray, Rivals]:
    X, y = table()
    model = fitted(X, y)
    return model, X, y, rivals(model, X, y, within=WITHIN)


def test_what_rivals_say(example: Any) -> None:
    model, _, _, found = example
    assert found.count == len(found) > 2
    assert list(found.objectives) == sorted(found.objectives)
    has = [set(p.term_names) for p in found]
    for name, share in found.shares.terms.items():
        assert share == pytest.approx(np.mean([name in own for own in has]))
    assert set(found.indispensable.terms) == set.intersection(*has)
    assert set(found.indispensable.inputs) < set(found.shares.inputs)
    for term, swaps in found.replaceable.terms.items():
        assert term not in found.indispensable.terms
        for swap in swaps:
            other = (set(model.polynomial_.term_names) - set(swap.out)) | set(swap.into)
            assert found.excess[has.index(other)] == pytest.approx(swap.excess)
    assert set(found.replaceable.inputs) == {"x2", "x3"}
    assert "it is proved that there are no others" in str(found)


def test_tables_say_what_they_need(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingSolverError, match=r"to_frame needs .*pandas.*polysharp\[cli\]"):
        example[3].to_frame()


@pytest.mark.needs("pandas")
def test_rivals_as_a_table(example: Any) -> None:
    _, _, _, found = example
    has = [set(p.term_names) for p in found]
    frame = found.to_frame()
    assert frame["x0^2"].tolist() == ["x0^2" in own for own in has]
    assert frame["objective"].tolist() == found.objectives.tolist()


def test_a_proof_of_completeness_fails_when_one_is_left_out(example: Any, tmp_path: Path) -> None:
    _, X, y, found = example
    found.proof.save(tmp_path / "rivals.proof")
    proof = Proof.load(tmp_path / "rivals.proof")
    assert proof.exceptions == found.proof.exceptions
    assert verify(proof, X, y)
    for a in range(len(proof.exceptions)):
        fewer = proof.exceptions[:a] + proof.exceptions[a + 1 :]
        assert not verify(replace(proof, exceptions=fewer), X, y)
    assert not verify(replace(proof, exceptions=(*proof.exceptions, (0,))), X, y)
    assert not verify(replace(proof, exceptions=(*proof.exceptions, proof.exceptions[0])), X, y)
    assert not verify(replace(proof, bound=4.0 * proof.bound), X, y)


def test_the_best_ones_are_held_and_all_are_written(example: Any, tmp_path: Path) -> None:
    model, X, y, found = example
    file = tmp_path / "rivals.jsonl"
    few = rivals(model, X, y, within=WITHIN, max_count=2, path=file)
    assert (len(few), few.count, few.proof) == (2, found.count, None)
    assert few.shares == found.shares
    assert few.indispensable == found.indispensable
    assert few.replaceable.terms.keys() == found.replaceable.terms.keys()
    for name, swaps in found.replaceable.terms.items():
        assert few.replaceable.terms[name] == swaps[:2]
    head, lines = lines_of(file)
    assert head == few.summary
    assert few.written == few.count == len(lines)
    assert [line["objective"] for line in lines] == found.objectives.tolist()
    for line, polynomial in zip(lines, found, strict=True):
        assert line["terms"] == dict(
            zip(polynomial.term_names, polynomial.coefficients.tolist(), strict=True)
        )


def failing(real: Any, at: int, error: BaseException) -> Any:
    """A function that fails when it is called for the ``at``-th time."""
    calls = count(1)

    def call(*given: Any) -> Any:
        if next(calls) == at:
            raise error
        return real(*given)

    return call


def lines_of(file: Path) -> tuple[Any, list[Any]]:
    head, *lines = [json.loads(line) for line in file.read_text().splitlines()]
    return head, lines


def test_ctrl_c_in_the_search_leaves_a_file_of_what_was_found(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X, y, found = example
    keep = failing(NearOptimalRun.keep, 5, KeyboardInterrupt())
    monkeypatch.setattr(NearOptimalRun, "keep", keep)
    some = rivals(model, X, y, within=WITHIN, path=tmp_path / "r.jsonl")
    head, lines = lines_of(tmp_path / "r.jsonl")
    assert some.stop is Stop.INTERRUPTED
    assert (head["complete"], head["count"]) == (False, len(lines))
    assert some.bound <= found.objectives[0]
    assert {line["objective"] for line in lines} < set(found.objectives)


def test_ctrl_c_while_a_file_is_written_ends_it_after_a_whole_line(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X, y, found = example
    door = home("rivals")
    monkeypatch.setattr(door, "line", failing(door.line, 3, KeyboardInterrupt()))
    some = rivals(model, X, y, within=WITHIN, max_count=1, path=tmp_path / "r.jsonl")
    head, lines = lines_of(tmp_path / "r.jsonl")
    assert (some.complete, some.count, some.written) == (True, found.count, 2)
    assert (head["count"], len(lines)) == (found.count, 2)
    assert [line["objective"] for line in lines] == found.objectives[:2].tolist()
    assert some.shares == found.shares


def test_a_file_that_cannot_be_written_leaves_the_old_one(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, X, y, _ = example
    file = tmp_path / "r.jsonl"
    file.write_text("what was there")
    door = home("rivals")
    monkeypatch.setattr(door, "line", failing(door.line, 3, OSError(28, "no space left")))
    with pytest.raises(OSError, match="no space left"):
        rivals(model, X, y, within=WITHIN, path=file)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("what was there", [file])


def by_hand(sets: list[frozenset[int]], costs: list[float]) -> dict[int, list[Any]]:
    """What stands in for each member of the first set, all sets being at hand."""
    first, found = sets[0], dict[int, list[Any]]()
    for member in sorted(first):
        changes = [
            (first - one, one - first, cost) for one, cost in zip(sets, costs, strict=True)
            if member not in one
        ]  # fmt: skip
        fewest = min((len(out) + len(into) for out, into, _ in changes), default=0)
        near = {}
        for out, into, cost in changes:
            if len(out) + len(into) == fewest:
                near.setdefault((out, into), (out, into, cost))
        if near:
            found[member] = list(near.values())
    return found


@pytest.mark.parametrize("seed", range(10))
def test_what_stands_in_for_what_is_counted_block_by_block(seed: int) -> None:
    rng = np.random.default_rng(seed)
    has = rng.random((40, 7)) < rng.uniform(0.3, 0.9)
    costs = np.sort(rng.uniform(1.0, 2.0, 40))
    usage = UsageCounts(has[0], 3)
    for start in range(0, 40, 9):
        usage.add(has[start : start + 9], costs[start : start + 9])
    names = {j: str(j) for j in range(7)}
    assert usage.shares(names) == pytest.approx(
        {str(j): share for j, share in enumerate(has.mean(axis=0))}
    )
    sets = [frozenset(np.flatnonzero(row).tolist()) for row in has]
    expected = {
        str(member): tuple(
            Swap(tuple(map(str, sorted(out))), tuple(map(str, sorted(into))), cost / costs[0] - 1.0)
            for out, into, cost in ways[:3]
        )
        for member, ways in by_hand(sets, costs.tolist()).items()
    }
    assert usage.swaps(names, float(costs[0])) == expected


def test_a_worse_model_meets_the_best_one_among_its_rivals(tmp_path: Path) -> None:
    X, y = table()
    worse = fitted(X, y, include_terms=["x1", "x3"])
    worse.set_params(include_terms=None)
    best = fitted(X, y)
    found = rivals(worse, X, y, within=0.05, path=tmp_path / "r.jsonl")
    assert found.complete
    # Those that were close to the model and are not to the best one are left out.
    head, lines = lines_of(tmp_path / "r.jsonl")
    assert head["count"] == len(lines) == found.count
    assert all(line["objective"] <= 1.05 * found.objectives[0] for line in lines)
    assert worse.solution_.objective > 1.05 * found.objectives[0]
    assert found.polynomials[0].monomials == best.polynomial_.monomials
    assert found.count == rivals(best, X, y, within=0.05).count


def test_without_time_only_what_is_there_is_claimed(example: Any) -> None:
    model, X, y, found = example
    little = rivals(model, X, y, within=WITHIN, time_limit=1e-9)
    assert not little.complete
    assert little.bound <= found.objectives[0]
    assert little.polynomials[0].monomials == model.polynomial_.monomials
    assert "so far" in str(little)


def test_weights_models_from_files_and_searches(tmp_path: Path) -> None:
    X, y = table(n=40)
    weights = np.random.default_rng(1).integers(0, 3, 40).astype(float)
    settings = SparsePolynomialRegressor(degree=2, max_terms=2, gamma=1.0)
    model = settings.fit(X, y, weights)
    save_model(model, tmp_path / "model.json")
    found = rivals(load_model(tmp_path / "model.json"), X, y, weights, within=0.1)
    rows = np.repeat(np.arange(40), weights.astype(int))
    again = rivals(fitted(X[rows], y[rows], max_terms=2), X[rows], y[rows], within=0.1)
    assert [p.monomials for p in found] == [p.monomials for p in again]
    assert verify(found.proof, X, y, weights)
    search = SparsePolynomialRegressorCV(degree=2, max_terms=3, gamma=1.0, random_state=0).fit(X, y)
    one = rivals(search, X, y, within=0.05)
    assert one.polynomials[0].monomials == search.polynomial_.monomials
    assert one.best.response == search.polynomial_.response


def test_rows_on_dask_have_the_same_rivals(example: Any) -> None:
    da = pytest.importorskip("dask.array")
    model, X, y, found = example
    blocks = da.from_array(X, chunks=(20, -1)), da.from_array(y, chunks=20)
    again = rivals(model, *blocks, within=WITHIN)
    assert again.complete
    assert [p.monomials for p in again] == [p.monomials for p in found]


def test_monomials_that_are_priced_have_rivals_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 130))  # 8,645 monomials
    X[:, 7] = X[:, 3] + 0.1 * rng.standard_normal(50)
    y = X[:, 3] * X[:, 5] + 0.2 * rng.standard_normal(50)
    model = SparsePolynomialRegressor(2, 1, gamma=0.1, scale=False, n_candidates=None).fit(X, y)
    found = rivals(model, X, y, within=0.3)
    assert found.complete
    assert found.proof is None
    # With one term the cost is yy/2 - q^2 / (2 (G + lam)) in the scaled basis.
    pairs = list(combinations_with_replacement(range(130), 2))
    M = np.array([X[:, i] * X[:, j] * (1.0 if i == j else 2.0**0.5) for i, j in pairs])
    M = np.concatenate([2.0**0.5 * X.T, M])
    M, centred = M - M.mean(axis=1, keepdims=True), y - y.mean()
    costs = 0.5 * (centred @ centred - (M @ centred) ** 2 / ((M * M).sum(axis=1) + 10.0))
    terms = [*((i,) for i in range(130)), *pairs]
    close = {terms[j] for j in np.flatnonzero(costs <= 1.3 * costs.min())}
    assert {p.monomials[0] for p in found} == close
    assert len(close) > 1
    little = rivals(model, X, y, within=0.3, time_limit=1e-9)
    assert not little.complete
    assert little.bound <= found.objectives[0]


def test_a_constant_has_no_rivals() -> None:
    X, _ = table()
    model = fitted(X, np.ones(60))
    found = rivals(model, X, np.ones(60))
    assert found.count >= 1


def test_refusals(example: Any, tmp_path: Path) -> None:
    model, X, y, _ = example
    for options, said in [
        ({"within": -0.1}, "within must be"),
        ({"within": np.nan}, "within must be"),
        ({"max_count": 0}, "max_count must be"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"path": tmp_path}, "path must name a file"),
    ]:
        with pytest.raises(InputError, match=said):
            rivals(model, X, y, **options)
    with pytest.raises(InputError, match="must be the rows of the fit"):
        rivals(model, X, 2.0 * y)
    with pytest.raises(InputError, match="columns of the fit"):
        rivals(model, X[:, :3], y)
    with pytest.raises(InputError, match="model must be"):
        rivals(PolynomialLasso().fit(X, y), X, y)
    Y = np.column_stack([y, y])
    several = MultiTaskSparsePolynomialRegressor(degree=1, max_terms=1).fit(X, Y)
    with pytest.raises(InputError, match=r"model must be .* one response, got MultiTaskSparse"):
        rivals(several, X, Y)
