"""The contract of every engine, with enumeration as referee."""

from __future__ import annotations

from functools import cache
from itertools import count, islice

import numpy as np
import pytest
from instances import TINY, Instance, make_instance, optimum
from support import Event, LocalSearch, Problem, Status, Stop, TimeBudget

from polysharp import Solution
from polysharp.engines import make_engine
from polysharp.errors import InputError

SOLVERS = ("cutting-planes", "cutting-planes-multitree", "big-m")  # on a foreign MIP solver
EXACT = ("tree", *SOLVERS)
ALL = ("enumeration", "local-search", *EXACT)
INSTANCES = 200
GROUPS = 10  # instances are run in groups, so that a failure names a few of them
LARGEST = {"big-m": 9}  # monomials; the big-M formulation is the slowest, so its problems are small

AGREEMENT = 1e-6  # relative, with a gap tolerance well below it
TIGHT = 1e-7  # gap


@cache
def solved(seed: int) -> tuple[Instance, Solution]:
    instance = make_instance(seed)
    return instance, optimum(instance.problem)


@cache
def seeds(largest: int, *, tiny: bool = False) -> tuple[int, ...]:
    """The first so many instances of a size, with a tiny ridge or without."""
    fitting = (
        seed
        for seed in count()
        if ((instance := make_instance(seed)).ridge == TINY) == tiny
        and instance.problem.size <= largest
    )
    return tuple(islice(fitting, INSTANCES // 4 if tiny else INSTANCES))


def tolerance(problem: Problem, best: float) -> float:
    return AGREEMENT * best + 1e3 * problem.resolution


def check_honest(instance: Instance, answer: Solution, best: float) -> None:
    problem, slack = instance.problem, tolerance(instance.problem, best)
    support = np.array(answer.support, dtype=np.intp)
    assert problem.structure.allows(support), instance.label
    assert answer.objective >= best - slack, instance.label
    assert answer.bound <= best + slack, instance.label
    assert answer.objective == pytest.approx(problem.refit(support).objective, rel=1e-9), (
        instance.label
    )


def check_agrees(instance: Instance, answer: Solution, best: float) -> None:
    check_honest(instance, answer, best)
    assert answer.objective <= best + tolerance(instance.problem, best), instance.label


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.parametrize("name", EXACT)
def test_agrees_with_enumeration(name: str, group: int) -> None:
    engine = make_engine(name)
    for seed in seeds(LARGEST.get(name, 20))[group::GROUPS]:
        instance, referee = solved(seed)
        answer = engine.solve(instance.problem, time=TimeBudget(60.0), gap_tol=TIGHT)
        check_agrees(instance, answer, referee.objective)


def test_the_tree_agrees_at_a_tiny_ridge() -> None:
    for seed in seeds(20, tiny=True):
        instance, referee = solved(seed)
        answer = make_engine("tree").solve(instance.problem, time=TimeBudget(60.0), gap_tol=TIGHT)
        check_agrees(instance, answer, referee.objective)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_at_a_tiny_ridge_agree_or_say_so(name: str) -> None:
    """Slopes of order 1/lam pass the tolerances of MIP solvers: no proof, but no false one."""
    agreed = 0
    for seed in seeds(9, tiny=True)[:20]:
        instance, referee = solved(seed)
        answer = make_engine(name).solve(instance.problem, time=TimeBudget(1.0), gap_tol=1e-7)
        check_honest(instance, answer, referee.objective)
        if answer.status is Status.OPTIMAL:
            check_agrees(instance, answer, referee.objective)
            agreed += 1
        else:
            assert answer.stop in {Stop.TIME, Stop.STALLED}, instance.label
    assert agreed


def test_local_search_is_honest_and_nearly_always_optimal() -> None:
    engine = LocalSearch(patience=3)
    missed = []
    for seed in (*seeds(20), *seeds(20, tiny=True)):
        instance, referee = solved(seed)
        answer = engine.solve(instance.problem)
        check_honest(instance, answer, referee.objective)
        if answer.objective > referee.objective + tolerance(instance.problem, referee.objective):
            missed.append(instance.label)
    assert len(missed) <= INSTANCES // 50, missed


@pytest.mark.parametrize("name", ALL)
def test_warm_start_is_never_made_worse(name: str) -> None:
    for seed in (0, 1, 2, 3):
        instance, referee = solved(seed)
        start = np.array(referee.support, dtype=np.intp)
        answer = make_engine(name).solve(instance.problem, start=start)
        slack = tolerance(instance.problem, referee.objective)
        assert answer.objective <= referee.objective + slack, instance.label


@pytest.mark.parametrize("name", ALL)
def test_forbidden_start_is_refused(name: str) -> None:
    problem = make_instance(0).problem
    with pytest.raises(InputError, match="start must satisfy"):
        make_engine(name).solve(problem, start=np.arange(problem.size))


@pytest.mark.parametrize("name", ALL)
def test_time_limit_returns_an_honest_answer(name: str) -> None:
    for seed in (2, 8, 15, 33):
        instance, referee = solved(seed)
        answer = make_engine(name).solve(instance.problem, time=TimeBudget(0.0))
        check_honest(instance, answer, referee.objective)
        if answer.status is not Status.OPTIMAL:
            assert answer.stop is Stop.TIME


@pytest.mark.parametrize("name", ALL)
def test_interrupt_returns_an_honest_answer(name: str) -> None:
    def interrupt(event: Event) -> None:
        if event.phase != "done":
            raise KeyboardInterrupt

    interrupted = 0
    for seed in range(0, 60, 5):  # some are solved before they have anything to report
        instance, referee = solved(seed)
        answer = make_engine(name).solve(instance.problem, listener=interrupt)
        check_honest(instance, answer, referee.objective)
        interrupted += answer.stop is Stop.INTERRUPTED
    assert interrupted


@pytest.mark.parametrize("name", ALL)
def test_same_seed_same_answer(name: str) -> None:
    problem = make_instance(27).problem
    first, second = (make_engine(name).solve(problem, seed=3) for _ in range(2))
    assert first.support == second.support
    assert first.bound == second.bound


@pytest.mark.parametrize("name", ALL)
def test_events_tell_a_consistent_story(name: str) -> None:
    problem = make_instance(27).problem
    events: list[Event] = []
    answer = make_engine(name).solve(problem, listener=events.append)
    assert events[-1].phase == "done"
    assert tuple(events) == answer.trace
    objectives = [event.objective for event in events]
    bounds = [event.bound for event in events]
    assert objectives == sorted(objectives, reverse=True)
    assert bounds == sorted(bounds)
    assert answer.engine == name
