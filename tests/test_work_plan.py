"""What a fit works on in the time it has: sizes that fit, and what is said where none does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support import (
    KernelRows,
    KernelSettings,
    Machine,
    MemoryRows,
    TermRules,
    TimeBudget,
    home,
    inner,
    moments_work,
    passes_work,
    plan_work,
    product_rate,
    rank_rows,
    ranking_work,
)

from polysharp import SparsePolynomialRegressor
from polysharp.synthetic import make_sparse_polynomial

OutOfTime = inner("OutOfTime", "time_budget")

RULES = TermRules(degree=3, max_terms=5)
RATE = 1e10


def extent(n_candidates, n, p, *, seconds=60.0, rate=RATE, prices=True, rules=RULES):
    machine = None if seconds is None else Machine(seconds, lambda: rate)
    return plan_work(n_candidates, rules, (n, p), prices=prices, machine=machine)


@pytest.mark.parametrize(
    ("n_candidates", "p", "n", "options", "kept", "priced"),
    [
        (None, 34, 100, {}, 34, False),  # 7770 monomials: listed
        (None, 35, 100, {}, 35, True),
        (None, 1000, 10_000, {}, 1000, True),
        (None, 35, 100, {"prices": False}, 35, False),
        (35, 1000, 100, {}, 35, False),
        ("auto", 200, 2000, {}, 200, True),  # 5 x 2.7e9 multiply-adds
        ("auto", 1000, 2000, {}, 34, False),  # 5 x 3.4e11
        ("auto", 1000, 2000, {"seconds": 300.0}, 1000, True),
        ("auto", 1000, 10_000, {"seconds": None}, 1000, True),
        ("auto", 1000, 10_000, {"rate": 2e12}, 1000, True),  # a GPU
        ("auto", 30, 10**6, {}, 30, True),  # moments would take 25 minutes, a pass half a second
        ("auto", 30, 10**6, {"prices": False}, 12, False),
    ],
)
def test_which_way_is_taken(n_candidates, p, n, options, kept, priced):
    chosen = extent(n_candidates, n, p, **options)
    assert (chosen.n_inputs, chosen.priced) == (kept, priced)
    higher = extent(n_candidates, n, p, **options, rules=replace(RULES, degree=7))
    may = options.get("prices", True) and not isinstance(n_candidates, int)
    assert higher.priced == may if n_candidates is None else higher.priced <= may


@pytest.mark.parametrize("n", [100, 10_000, 10**5, 10**7])
@pytest.mark.parametrize("p", [5, 30, 200, 5000])
@pytest.mark.parametrize("seconds", [0.5, 5.0, 60.0])
@pytest.mark.parametrize("prices", [True, False])
def test_what_is_chosen_fits(n, p, seconds, prices):
    chosen = extent("auto", n, p, seconds=seconds, prices=prices)
    f = RULES.count(chosen.n_inputs)
    work = passes_work(n, f, chosen.pool) if chosen.priced else moments_work(n, f)
    if chosen.n_inputs < p:
        kernel = chosen.kernel or KernelRows()
        one = kernel.block**2 * (kernel.block / 6 + 3 * p)  # one block is always ranked
        work += max(one if chosen.kernel else 0.0, ranking_work(n, p, 3, kernel))
    least = chosen.n_inputs == 1 or (chosen.kernel and chosen.kernel.block == 256)
    assert least or work <= 1.01 * RATE * seconds


def test_a_small_fit_asks_for_no_rate():
    def rate():
        raise AssertionError("measured")

    for n, p in ((50, 5), (2000, 20), (50_000, 10)):
        assert (
            plan_work("auto", RULES, (n, p), prices=True, machine=Machine(60.0, rate)).n_inputs == p
        )


def test_more_time_never_takes_less():
    sizes = [extent("auto", 10**5, 200, seconds=s).n_inputs for s in (1, 5, 20, 50, 100, 1e3, 1e4)]
    assert sizes[-1] == 200
    assert sizes == sorted(sizes)


def test_the_rate_of_this_machine_is_positive():
    assert 0.0 < product_rate(MemoryRows(np.zeros((1, 1)), np.zeros(1)).place) < np.inf


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_pace_ends_what_will_not_be_in_time():
    clock, told = Clock(), []
    pace = TimeBudget(10.0, clock=clock).callback(lambda *done: told.append(done))
    clock.now = 0.1
    pace(1, 1000)  # too early to tell
    clock.now = 1.0
    pace(100, 1000)
    clock.now = 3.0
    with pytest.raises(OutOfTime) as slow:
        pace(200, 1000)
    assert slow.value.seconds == pytest.approx(15.0)
    assert told == [(1, 1000), (100, 1000), (200, 1000)]
    clock.now = 99.0
    pace(1000, 1000)  # done is done


def test_a_ranking_in_a_hurry_sees_rows_from_everywhere_and_says_how_many():
    data = make_sparse_polynomial(4000, 40, 3, 4, 6, 20.0, random_state=1)
    order = np.argsort(data.X[:, data.inputs[0]])  # sorted by an input that matters
    rows, settings = MemoryRows(data.X[order], data.y[order]), KernelSettings(3, 0.03, True)
    ranking = rank_rows(rows, np.arange(40), settings, sizes=KernelRows(0, 1000, 0.5))
    assert ranking.n_rows == 2000
    assert set(data.inputs) <= set(ranking.order[:6].tolist())


def test_blocks_done_in_time_are_averaged():
    data = make_sparse_polynomial(1000, 20, 3, 3, 4, 20.0, random_state=0)

    def stop(done, total):
        if done == 2:
            raise OutOfTime(99.0)

    sizes, settings = KernelRows(0, 100), KernelSettings(4, 0.03, True)
    rows = MemoryRows(data.X, data.y)
    found = rank_rows(rows, np.arange(20), settings, sizes=sizes, on_block=stop)
    assert found.n_rows == 200


def planted():
    return make_sparse_polynomial(3000, 30, 3, 3, 4, 20.0, random_state=0)


def fitted(monkeypatch, rate, **options):
    """Fit as if the machine did so many operations a second."""
    monkeypatch.setattr(
        home("CodedTable"),
        "Machine",
        lambda left, _, listing: Machine(left, lambda: rate, slow=0.0, listing=listing),
    )
    data = planted()
    settings = {"degree": 3, "max_terms": 4, "gamma": 0.02, "engine": "local-search", **options}
    return data, SparsePolynomialRegressor(**settings).fit(data.X, data.y)


def test_a_slow_machine_is_given_less_and_the_user_is_told(monkeypatch):
    with pytest.warns(ConvergenceWarning, match=r"time_limit=60 .* of the 30 inputs, .* of 3,000"):
        data, model = fitted(monkeypatch, 1e6)
    assert len(model.kept_inputs_) < 30
    assert model.solution_.scope == "kept-inputs"
    assert model.ranking_.n_rows < 3000
    assert set(data.inputs) <= set(model.kept_inputs_.tolist())
    assert sorted(model.polynomial_.monomials) == sorted(data.monomials)


def test_the_user_s_own_choice_is_kept_and_the_estimate_said(monkeypatch):
    message = r"n_candidates=29 takes about \d+ s .* more than time_limit=60"
    with pytest.warns(ConvergenceWarning, match=message):
        _, model = fitted(monkeypatch, 1e8, n_candidates=29)
    assert len(model.kept_inputs_) == 29


def test_moments_that_take_too_long_are_begun_again_with_fewer_inputs(monkeypatch):
    class Slow(TimeBudget):
        """Finds the first moments too slow, whatever they take."""

        calls = 0

        def callback(self, tell):
            del tell

            def on_block(done, total):
                Slow.calls += 1
                if Slow.calls == 1:
                    raise OutOfTime(16.0 * self.seconds)

            return on_block

    own = home("FitContext")
    before = own.FitContext.on_block

    def on_block(self, stage, timed):
        monkeypatch.setattr(own, "TimeBudget", Slow)
        try:
            return before(self, stage, timed)
        finally:
            monkeypatch.setattr(own, "TimeBudget", TimeBudget)

    monkeypatch.setattr(own.FitContext, "on_block", on_block)
    with pytest.warns(ConvergenceWarning, match="a longer time_limit takes more"):
        data, model = fitted(monkeypatch, 1e12)
    assert 1 < len(model.kept_inputs_) < 30
    assert model.ranking_.n_rows < 3000
    assert set(data.inputs) <= set(model.kept_inputs_.tolist())


def test_a_gpu_lists_more() -> None:
    """With room for more monomials they are listed, by the user's choice or by "auto"."""
    rules = TermRules(degree=1, max_terms=5)
    for n_candidates in (None, "auto"):
        machine = Machine(60.0, lambda: 1e13)
        small = plan_work(n_candidates, rules, (2000, 12_000), prices=True, machine=machine)
        large = plan_work(
            n_candidates, rules, (2000, 12_000), prices=True, machine=machine, most=20_000
        )
        assert small.priced
        assert not large.priced
        assert large.n_inputs == 12_000
