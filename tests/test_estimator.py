"""The two-step method end to end, against enumeration, planted laws and plain algebra."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from typing import ClassVar

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support import (
    Basis,
    Columns,
    DenseGram,
    DesignGram,
    Engine,
    Enumeration,
    MemoryLimits,
    MemoryRows,
    Stop,
    StreamedGram,
    Structure,
    TermRules,
    assemble,
    count_monomials,
    inner,
    largest_products,
    parents_of,
    triage_size,
)

from polysharp import SparsePolynomialRegressor, verify
from polysharp.engines import AUTO, ENGINES, make_engine
from polysharp.errors import TooLargeError
from polysharp.synthetic import make_sparse_polynomial

read_rows = inner("read_rows", "checker")


def model(degree=2, max_terms=2, engine="enumeration", **options):
    return SparsePolynomialRegressor(degree, max_terms, engine=engine, **options)


def data(n=50, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * [1.0, 10.0, 0.01, 1.0][:p] + [0.0, 5.0, 0.02, -3.0][:p]
    y = 7.0 + 0.3 * X[:, 0] * X[:, 1] + 2e4 * X[:, 2] ** 2 + rng.standard_normal(n)
    return X, y


@dataclass(frozen=True)
class Idle(Engine):
    """An engine that looks at nothing and proves nothing."""

    name: ClassVar[str] = "idle"
    needs_start: ClassVar[bool] = False

    def search(self, run):
        return Stop.TIME


@dataclass(frozen=True)
class Started(Idle):
    """An engine that is given a start."""

    needs_start: ClassVar[bool] = True


@dataclass(frozen=True)
class Interrupted(Engine):
    """An engine that is interrupted after its first model."""

    name: ClassVar[str] = "interrupted"
    needs_start: ClassVar[bool] = False

    def search(self, run):
        run.offer(np.array([0]))
        raise KeyboardInterrupt


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_model_is_the_ridge_regression_it_claims(fit_intercept, center, scale, weighted):
    """Rebuild objective and coefficients of the chosen terms from the definition alone."""
    X, y = data()
    v = np.random.default_rng(1).random(50) + 0.1 if weighted else np.ones(50)
    fitted = model(fit_intercept=fit_intercept, center=center, scale=scale, gamma=0.3)
    fitted.fit(X, y, sample_weight=v if weighted else None)
    shift = np.average(X, axis=0, weights=v) if center else np.zeros(4)
    unit = np.sqrt(np.average((X - shift) ** 2, axis=0, weights=v)) if scale else np.ones(4)
    terms = fitted.polynomial_.monomials
    basis = Basis(range(4), 2, terms)
    M = basis.evaluate((X - shift) / unit)
    columns = np.column_stack([M, np.ones(50)]) if fit_intercept else M
    ridge = np.full(columns.shape[1], 1 / 0.3)
    ridge[len(terms) :] = 0.0
    w = np.linalg.solve(columns.T @ (v[:, None] * columns) + np.diag(ridge), columns.T @ (v * y))
    cost = 0.5 * v @ (y - columns @ w) ** 2 + 0.5 * ridge @ w**2
    assert fitted.solution_.objective == pytest.approx(cost, rel=1e-8)
    np.testing.assert_allclose(fitted.predict(X), columns @ w, rtol=1e-8, atol=1e-8)
    expected = [
        c * basis.scales[j] / np.prod(unit[list(m)])
        for j, (m, c) in enumerate(zip(terms, w[: len(terms)], strict=True))
    ]
    np.testing.assert_allclose(fitted.polynomial_.coefficients, expected, rtol=1e-7)
    assert fitted.intercept_ == pytest.approx(w[-1] if fit_intercept else 0.0, rel=1e-7)


@pytest.mark.parametrize("center", [True, False])
def test_formula_reproduces_predictions(center):
    X, y = data()
    fitted = model(center=center).fit(X, y)
    law = fitted.polynomial_
    shift = np.zeros(4) if law.shifts is None else law.shifts
    total = fitted.intercept_ + sum(
        c * np.prod((X - shift) ** row, axis=1)
        for c, row in zip(law.coefficients, fitted.powers_, strict=True)
    )
    np.testing.assert_allclose(fitted.predict(X), total, rtol=1e-12)
    assert ("(x" in str(law)) == center


def test_planted_law_is_found_and_proved_in_user_units():
    planted = make_sparse_polynomial(
        120, 4, 2, max_inputs=3, max_terms=3, snr_sqrt=100.0, random_state=3
    )
    units = np.array([1e3, 1e-3, 1.0, 50.0])
    fitted = model(2, 3, max_inputs=3, gamma=1e3).fit(planted.X * units, planted.y)
    assert fitted.polynomial_.monomials == planted.monomials
    true = planted.coefficients / [np.prod(units[list(m)]) for m in planted.monomials]
    np.testing.assert_allclose(fitted.polynomial_.coefficients, true, rtol=0.05)
    solution = fitted.solution_
    assert solution.status == "optimal"
    assert solution.scope == "all-inputs"
    assert solution.gap <= 1e-7  # no more than rounding may falsify
    assert fitted.ranking_ is None
    assert {"preparation", "start", "search", "total"} <= solution.times.keys()


def test_a_weight_of_two_is_the_row_twice_and_zero_is_no_row():
    X, y = data()
    v = np.random.default_rng(5).integers(0, 3, 50).astype(float)
    weighted = model(n_candidates=3).fit(X, y, sample_weight=v)
    repeated = model(n_candidates=3).fit(
        np.repeat(X, v.astype(int), axis=0), np.repeat(y, v.astype(int))
    )
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)
    assert weighted.polynomial_.monomials == repeated.polynomial_.monomials
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)
    np.testing.assert_array_equal(weighted.kept_inputs_, repeated.kept_inputs_)


# Triage


def test_triage_keeps_what_matters_and_says_so():
    planted = make_sparse_polynomial(200, 12, 2, max_inputs=2, max_terms=2, random_state=0)
    fitted = model(n_candidates=4).fit(planted.X, planted.y)
    assert fitted.solution_.scope == "kept-inputs"
    assert set(planted.inputs) <= set(fitted.kept_inputs_.tolist())
    assert len(fitted.kept_inputs_) == 4
    assert fitted.polynomial_.monomials == planted.monomials
    assert fitted.ranking_.scores.shape == (12,)
    assert set(fitted.ranking_.order[:4].tolist()) == set(fitted.kept_inputs_.tolist())


def test_triage_keeps_the_required_and_never_the_excluded():
    planted = make_sparse_polynomial(200, 8, 2, max_inputs=2, max_terms=2, random_state=0)
    weakest = int(model(n_candidates=2).fit(planted.X, planted.y).ranking_.order[-1])
    best = planted.inputs[0]
    fitted = model(n_candidates=3, include_inputs=[weakest], exclude_inputs=[best])
    fitted.fit(planted.X, planted.y)
    assert weakest in fitted.kept_inputs_
    assert weakest in fitted.polynomial_.inputs
    assert best not in fitted.kept_inputs_
    assert fitted.ranking_.scores[best] == 0.0


@pytest.mark.parametrize(
    ("n_candidates", "rules", "p", "kept"),
    [
        (None, {}, 100, 100),
        ("auto", {}, 34, 34),  # C(37, 3) = 7770
        ("auto", {}, 35, 34),  # C(38, 3) = 8436
        ("auto", {}, 1000, 34),
        ("auto", {"max_interaction": 1}, 1000, 1000),  # 3001 monomials
        ("auto", {"interaction_degree": 2}, 200, 125),
        (5, {}, 100, 5),
        (500, {}, 100, 100),
    ],
)
def test_triage_size(n_candidates, rules, p, kept):
    size = triage_size(n_candidates, TermRules(degree=3, max_terms=1, **rules), p)
    assert size == kept


# Rules about terms


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("max_interaction", [None, 1, 2])
@pytest.mark.parametrize("interaction_degree", [None, 1, 2, 3])
def test_candidates_are_the_filtered_full_basis(degree, max_interaction, interaction_degree):
    rules = TermRules(
        degree=degree,
        max_terms=1,
        constant=True,
        max_interaction=max_interaction,
        interaction_degree=interaction_degree,
    )
    full = Basis.full(4, degree)

    def allowed(m):
        distinct = len(set(m))
        return distinct <= (max_interaction or 9) and (
            distinct < 2 or len(m) <= (interaction_degree or 9)
        )

    expected = full.filter(allowed).monomials
    assert rules.basis(np.arange(4)).monomials == expected
    assert rules.count(4) == len(expected)
    if max_interaction is None and interaction_degree is None:
        assert len(expected) == count_monomials(4, degree)


def test_included_terms_are_in_and_excluded_ones_out():
    X, y = data()
    free = model(2, 2).fit(X, y)
    favourite = free.polynomial_.monomials[0]
    fitted = model(2, 2, include_terms=["x3", (1, 3)]).fit(X, y)
    assert fitted.polynomial_.monomials == ((3,), (1, 3))
    assert fitted.solution_.objective > free.solution_.objective
    fitted = model(2, 2, exclude_terms=[favourite]).fit(X, y)
    assert favourite not in fitted.polynomial_.monomials
    fitted = model(2, 2, include_inputs=["x3"], exclude_inputs=[0, "x1"]).fit(X, y)
    assert 3 in fitted.polynomial_.inputs
    assert not {0, 1} & set(fitted.polynomial_.inputs)
    assert fitted.solution_.scope == "all-inputs"


@pytest.mark.parametrize(
    ("text", "monomial"),
    [
        ("x0^2 x3", (0, 0, 3)),
        ("x3 * x0**2", (0, 0, 3)),
        ("x1", (1,)),
        ("x1^1 x10", (1, 10)),
        ("air gap^2", (11, 11)),
        ("`air gap` x1", (1, 11)),
        (" x0  x0 ", (0, 0)),
        ("1", ()),
        (("x0", 0, "air gap"), (0, 0, 11)),
        ((), ()),
    ],
)
def test_terms_as_users_write_them(text, monomial):
    from support import read_terms

    names = [f"x{i}" for i in range(11)] + ["air gap"]
    assert read_terms([text, text], names, "include_terms") == (monomial,)


@pytest.mark.parametrize("heredity", ["weak", "strong"])
def test_heredity(heredity):
    X, y = data()
    fitted = model(2, 3, heredity=heredity, fit_intercept=False).fit(X, y)
    terms = set(fitted.polynomial_.monomials)
    enough = all if heredity == "strong" else any
    for m in terms:
        assert not parents_of(m) or enough(q in terms for q in parents_of(m))
    assert fitted.solution_.status == "optimal"


def test_additive_model():
    X, y = data()
    fitted = model(3, 2, max_interaction=1).fit(X, y)
    assert all(len(set(m)) == 1 for m in fitted.polynomial_.monomials)


def test_the_paper_form_counts_the_constant():
    X, _ = data()
    y = 100.0 + 0.1 * X[:, 0]
    fitted = model(1, 1, fit_intercept=False, gamma=1e6).fit(X, y)
    assert fitted.polynomial_.monomials == ((),)
    assert fitted.intercept_ == 0.0
    assert fitted.get_feature_names_out().tolist() == ["1"]


def test_budgets_beyond_what_exists_limit_nothing():
    X, y = data()
    fitted = model(1, 50, max_inputs=40, n_candidates=99, gamma=10.0).fit(X, y)
    same = model(1, 4, max_inputs=4, n_candidates=None, gamma=10.0).fit(X, y)
    assert str(fitted.polynomial_) == str(same.polynomial_)
    assert fitted.max_terms == 50


# The three forms of G


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_gram_gives_the_same_problem(fit_intercept, weighted):
    X, y = data()
    v = np.random.default_rng(0).random(50) if weighted else None
    basis = Basis.full(4, 2, constant=not fit_intercept)
    structure = Structure.of_basis(basis, 3)
    built = {}
    for kind, dense, design in [(DenseGram, 99, 0), (DesignGram, 0, 2**30), (StreamedGram, 0, 0)]:
        built[kind] = assemble(
            MemoryRows(X, y, v),
            basis,
            structure,
            lam=2.0,
            fit_intercept=fit_intercept,
            limits=MemoryLimits(dense, design),
        )
        assert type(built[kind].problem.gram) is kind
    reference = built.pop(DenseGram)
    S = np.array([0, 3, 7])
    for other in built.values():
        np.testing.assert_allclose(other.problem.q, reference.problem.q, rtol=1e-9, atol=1e-7)
        assert other.problem.yy == pytest.approx(reference.problem.yy, rel=1e-12)
        fit, expected = other.problem.refit(S), reference.problem.refit(S)
        np.testing.assert_allclose(fit.w, expected.w, rtol=1e-7)
        assert fit.objective == pytest.approx(expected.objective, rel=1e-9)
        np.testing.assert_allclose(
            other.problem.gram.diagonal, reference.problem.gram.diagonal, rtol=1e-10
        )
        intercepts = [a.intercept((0, 3, 7), fit.w[0]) for a in (other, reference)]
        assert intercepts[0] == pytest.approx(intercepts[1], rel=1e-9)


# Engines by name

PROVING = [name for name in ENGINES if name not in {"local-search", "cutting-planes-gurobi"}]


@pytest.mark.parametrize("engine", PROVING)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": False, "max_inputs": 2},
        {"heredity": "strong", "include_inputs": ["x3"], "exclude_terms": ["x2"]},
    ],
    ids=["plain", "hierarchy", "rules"],
)
def test_every_engine_gives_the_referee_s_model(engine, options):
    X, y = data()
    options = options | {"gamma": 1.0}  # given, so that no choice depends on the time it takes
    fitted = model(2, 3, engine, gap_tol=1e-6, random_state=0, **options).fit(X, y)
    referee = model(2, 3, **options).fit(X, y)
    assert fitted.solution_.status == "optimal"
    assert fitted.solution_.objective == pytest.approx(referee.solution_.objective, rel=1e-6)
    np.testing.assert_allclose(fitted.predict(X), referee.predict(X), rtol=1e-3)


@pytest.mark.parametrize("engine", [*PROVING, "local-search"])
@pytest.mark.parametrize("level", [0.0, 0.1])
def test_every_engine_takes_a_constant_response(engine, level):
    X, _ = data()
    fitted = model(engine=engine).fit(X, np.full(50, level))
    assert fitted.solution_.status == "optimal"
    np.testing.assert_array_equal(fitted.predict(X), np.full(50, level))


@pytest.mark.parametrize("engine", [*PROVING, "local-search"])
def test_every_engine_stops_at_the_time_limit_with_a_model(engine):
    X, y = data(100)
    best = model(3, 3, gamma=0.1).fit(X, y).solution_.objective
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model(3, 3, engine, gamma=0.1, time_limit=1e-6, gap_tol=0.0).fit(X, y)
    assert fitted.solution_.bound <= best * (1.0 + 1e-9)  # however early it was stopped
    assert fitted.solution_.objective >= best * (1.0 - 1e-9)
    assert np.isfinite(fitted.predict(X)).all()


def test_local_search_does_not_warn_for_want_of_a_proof():
    X, y = data()
    fitted = model(3, 3, "local-search", gap_tol=0.0).fit(X, y)
    assert fitted.solution_.stop is Stop.LOCAL


# Stops, warnings, seeds, threads


@pytest.mark.parametrize("seed", range(4))
def test_of_a_formula_whose_digits_are_lost_the_constant_is_left(seed):
    """Squares of inputs near 1e10 have no digits left of a spread of 1: 98,623 for 3.07."""
    rng = np.random.default_rng(seed)
    X, y = 1e10 + rng.standard_normal((8, 3)), rng.standard_normal(8)
    constant = 0.5 * np.square(y - y.mean()).sum()
    model = SparsePolynomialRegressor(degree=2, max_terms=3, gamma=1.0, scale=False)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        solution = model.fit(X, y).solution_
    assert solution.objective <= constant * (1.0 + 1e-6)
    assert solution.status == "optimal" or any("center=True" in str(w.message) for w in seen)
    assert 0.5 * np.square(y - model.predict(X)).sum() <= constant * (1.0 + 1e-6)
    centred = model.set_params(center=True).fit(X, y)
    assert centred.solution_.status == "optimal"
    assert centred.solution_.objective < 0.9 * constant


def test_no_proof_warns_and_keeps_the_honest_gap():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match=r"not proved to be the best \(gap .* %"):
        fitted = model(engine=Idle(), gamma=10.0).fit(X, y)
    assert fitted.solution_.status == "feasible"
    assert fitted.solution_.gap > 0
    assert fitted.predict(X).shape == (50,)


def test_interrupt_keeps_the_best_model():
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="interrupted by the user"):
        fitted = model(engine=Interrupted(), gamma=10.0).fit(X, y)
    assert fitted.polynomial_.monomials == ((0,),)


def test_interrupt_of_the_start_ends_the_search(monkeypatch):
    monkeypatch.setattr("polysharp.engines.base.make_engine", lambda name: Interrupted())
    X, y = data()
    with pytest.warns(ConvergenceWarning, match="interrupted by the user"):
        fitted = model(engine=Started(), gamma=10.0).fit(X, y)
    assert fitted.polynomial_.monomials == ((0,),)


def test_interrupt_before_the_search_ends_the_fit(monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("polysharp.estimators.preparation.assemble", interrupted)
    X, y = data()
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, y)


def test_time_limit_covers_the_whole_fit():
    X, y = data(200)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        fitted = model(3, 3, time_limit=1e-6).fit(X, y)
    assert fitted.solution_.stop is Stop.TIME


def test_an_engine_object_keeps_its_settings():
    X, y = data()
    assert model(engine=Enumeration(max_supports=1000)).fit(X, y).solution_.status == "optimal"
    with pytest.raises(TooLargeError, match="at most 10 supports"):
        model(engine=Enumeration(max_supports=10)).fit(X, y)


@pytest.mark.parametrize("seed", [int, np.random.RandomState, np.random.default_rng])
@pytest.mark.parametrize("engine", ["tree", "local-search"])
def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(seed, engine):
    X, y = data()
    one, other = (
        model(3, 4, engine, n_candidates=3, random_state=seed(7), n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, -1)
    )
    assert one.polynomial_.monomials == other.polynomial_.monomials
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-9)


def test_no_seed_is_a_seed_too():
    X, y = data()
    assert model(2, 3, "local-search", random_state=None).fit(X, y).score(X, y) > 0.9


def test_large_offsets_keep_their_digits():
    rng = np.random.default_rng(0)
    X = 1e4 + rng.standard_normal((80, 2))
    y = 1e6 + 3.0 * (X[:, 0] - 1e4) * (X[:, 1] - 1e4)
    fitted = model(2, 1, center=True, gamma=1e9).fit(X, y)
    assert fitted.polynomial_.monomials == ((0, 1),)
    assert fitted.score(X, y) > 0.98
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(model(3, 2).fit(X, y).predict(X)).all()


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_bears_the_name_it_is_asked_for_by(name):
    assert make_engine(name).name == (AUTO if name == "auto" else name)


def two_valued_data():
    """Return two inputs of two values, one of three and one of many, and a response."""
    rng = np.random.default_rng(4)
    X = np.column_stack(
        [rng.integers(0, 2, 60), rng.choice([-1.5, 4.0], 60), rng.integers(0, 3, 60)]
    )
    X = np.column_stack([X, rng.standard_normal(60)])
    return X, X[:, 0] * X[:, 3] + X[:, 1] * X[:, 2] ** 2 + 0.1 * rng.standard_normal(60)


@pytest.mark.parametrize("options", [{}, {"center": True}, {"fit_intercept": False}])
def test_powers_of_two_valued_inputs_are_left_out_and_the_proof_says_so(options):
    X, y = two_valued_data()
    model = SparsePolynomialRegressor(3, 3, gamma=1.0, engine="tree", **options).fit(X, y)
    statement = model.solution_.proof.statement
    repeated = {i for m in statement.monomials for i in m if m.count(i) > 1}
    assert repeated == {2, 3}
    assert statement.two_valued == (0, 1)
    assert "two-valued inputs, at most once in a term: x0, x1" in str(statement)
    assert verify(model.solution_.proof, X, y)
    assert not verify(_with_all_powers(model.solution_.proof), X, y)
    every = SparsePolynomialRegressor(3, 3, gamma=1.0, engine="enumeration", **options).fit(X, y)
    assert model.solution_.objective == pytest.approx(every.solution_.objective, rel=1e-4)


def _with_all_powers(proof):
    return replace(proof, statement=replace(proof.statement, two_valued=()))


def test_priced_monomials_obey_the_rule_for_two_values():
    rules = TermRules(degree=4, max_terms=2, two_valued=(0, 2), max_interaction=3)
    listed = set(rules.basis(np.arange(4)).monomials)
    for d in range(1, 5):
        keys = list(combinations_with_replacement(range(4), d))
        kept = rules.may_price(np.array(keys, dtype=np.int32))
        allowed = [m in listed for m in keys]
        assert kept.tolist() == allowed == [rules.shape_allows(m) for m in keys]


def test_the_checker_prices_what_a_statement_allows():
    X, y = two_valued_data()
    for d, heredity in product((1, 2, 4), (None, "strong")):
        rules = TermRules(degree=d, max_terms=3, two_valued=(0, 1), heredity=heredity)
        model = SparsePolynomialRegressor(d, 3, gamma=1.0, engine="tree", heredity=heredity)
        own = model.fit(X, y).solution_.proof.statement
        statement = replace(own, monomials=(), listed=False)
        columns = Columns(statement, read_rows(statement, X, y, None), ())
        a = columns.residual(0, np.zeros(0, dtype=np.intp), np.zeros(0))
        for inputs in ([0, 1, 2, 3], [1, 3], [0], []):
            found, _ = largest_products(columns, a, np.array(inputs, dtype=np.intp))
            every = rules.basis(np.array(inputs, dtype=np.intp)).monomials if inputs else ()
            named = {one.monomial for one in found}
            assert named == {m for m in every if len(m) <= 3 or heredity is None}


def test_a_power_that_the_user_wants_is_in():
    X, y = two_valued_data()
    model = SparsePolynomialRegressor(2, 2, gamma=1.0, include_terms=["x0^2"]).fit(X, y)
    assert (0, 0) in model.polynomial_.monomials
