"""Scorers: rows and moments agree on the errors of models, which are those of the predictions."""

from __future__ import annotations

import numpy as np
import pytest
from support import (
    Basis,
    MemoryRows,
    Model,
    MomentScorer,
    PartedRows,
    Plan,
    RowScorer,
    SplitModels,
    TermRules,
    accumulate,
    edge_scorers,
    fold_moments,
    scorers,
)


def rows(n=40, *, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, n) if weighted else None
    X, y = rng.standard_normal((n, 3)), rng.standard_normal(n)
    return MemoryRows(X, y, weights)


def models(basis, seed=1):
    rng = np.random.default_rng(seed)
    supports = [rng.choice(len(basis), size, replace=False) for size in (1, 3, 5)]
    supports.append(np.zeros(0, dtype=np.intp))
    return [Model(np.sort(s), rng.standard_normal(len(s)), rng.standard_normal()) for s in supports]


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_moments_agree(weighted):
    basis, held = Basis.full(3, 3, constant=False), rows(weighted=weighted)
    by_moments = MomentScorer(accumulate(basis, held.X, held.y, held.sample_weight))
    by_rows = RowScorer(held, basis)
    np.testing.assert_allclose(
        by_rows.errors(models(basis)), by_moments.errors(models(basis)), rtol=1e-9
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_count_as_they_are(weighted):
    basis, held = Basis.full(3, 3), rows(weighted=weighted)
    found = RowScorer(held, basis).errors(models(basis))
    M = basis.evaluate(held.X)
    for model, error in zip(models(basis), found, strict=True):
        squares = (held.y - M[:, model.support] @ model.w - model.intercept) ** 2
        expected = np.sqrt(np.average(squares, weights=held.sample_weight))
        assert error == pytest.approx(expected, rel=1e-12)


def test_the_empty_model_alone():
    held = rows()
    nothing = [Model(np.zeros(0, dtype=np.intp), np.zeros(0), 0.25)]
    (error,) = RowScorer(held, Basis.full(3, 2)).errors(nothing)
    assert error == pytest.approx(np.sqrt(np.mean((held.y - 0.25) ** 2)))


def test_inputs_are_clamped_to_the_range_of_the_training_rows():
    basis, every = Basis.full(3, 1, constant=False), rows(30)
    folds = np.array_split(np.arange(30), 3)
    parts = fold_moments(every, basis, folds)
    found = scorers(basis, parts, Plan.k_fold(3), PartedRows(every, folds), clamp=True)
    for v, scorer in enumerate(found):
        seen = np.delete(every.X, folds[v], axis=0)
        np.testing.assert_array_equal(scorer.rows.y, every.y[folds[v]])
        np.testing.assert_array_equal(
            scorer.rows.X, every.X[folds[v]].clip(seen.min(0), seen.max(0))
        )
        assert (every.X[folds[v]] != scorer.rows.X).any()


def test_edge_scorers_say_what_clamping_changes():
    basis, every = Basis.full(3, 2, constant=False), rows(30, weighted=True)
    folds = np.array_split(np.arange(30), 3)
    parts, plan, table = fold_moments(every, basis, folds), Plan.k_fold(3), PartedRows(every, folds)
    own = models(basis)
    free, clamped = (scorers(basis, parts, plan, table, clamp=clamp) for clamp in (False, True))
    for a, b, edge in zip(free, clamped, edge_scorers(basis, plan, table), strict=True):
        np.testing.assert_allclose(a.errors(own) ** 2 + edge.changes(own), b.errors(own) ** 2)
    inside = MemoryRows(np.tile([[0.0], [1.0]], (15, 3)), np.zeros(30))
    assert list(edge_scorers(basis, plan, PartedRows(inside, folds))) == [None] * 3


def test_several_parts_judge_together_with_their_weights():
    basis, every = Basis.full(3, 2, constant=False), rows(30, weighted=True)
    folds = [np.arange(10), np.arange(10, 15), np.arange(15, 30)]
    parts = fold_moments(every, basis, folds)
    plan = Plan(train=((1,),), test=((0, 2),))
    (scorer,) = scorers(basis, parts, plan, PartedRows(every, folds))
    (by_moments,) = scorers(basis, parts, plan, None)
    model = [Model(np.array([0, 4]), np.array([1.0, -2.0]), 0.0)]
    np.testing.assert_allclose(scorer.errors(model), by_moments.errors(model), rtol=1e-9)


def test_many_rows_judge_by_their_moments():
    basis, every = Basis.full(3, 1, constant=False), rows(30)
    folds = [np.arange(12), np.arange(12, 30)]
    parts = fold_moments(every, basis, folds)
    table, plan = PartedRows(every, folds), Plan.k_fold(2)
    chosen = scorers(basis, parts, plan, table, most_rows=12)
    assert [type(scorer) for scorer in chosen] == [RowScorer, MomentScorer]
    assert [type(scorer) for scorer in scorers(basis, parts, plan, None)] == [MomentScorer] * 2


@pytest.mark.parametrize("responses", [1, 2])
def test_a_model_without_terms_is_the_mean_of_the_training_rows(responses):
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((30, 2)), rng.standard_normal((responses, 30)) + 5.0
    basis = Basis.full(2, 2, constant=False)
    train, units = accumulate(basis, X, Y if responses > 1 else Y[0]), (1.0,) * responses
    every = np.arange(len(basis))
    split = SplitModels(train, (), basis, TermRules(degree=2, max_terms=3), every, units)
    models = split.models(split.problem(1.0, 3, None).refit(every[:0]))
    assert [len(model.support) for model in models] == [0] * responses
    np.testing.assert_allclose([model.intercept for model in models], Y.mean(axis=1))


def test_designs_that_are_kept_and_those_made_for_each_model_agree():
    rng = np.random.default_rng(0)
    rows = MemoryRows(rng.standard_normal((30, 3)), rng.standard_normal(30))
    models = [Model(np.array([2, 5, 11]), rng.standard_normal(3), 0.3)]
    kept = RowScorer(rows, Basis.full(3, 3))
    made = RowScorer(rows, Basis.full(3, 3), small_design=0)
    assert np.array_equal(made.errors(models), kept.errors(models))
