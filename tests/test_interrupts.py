"""Ctrl-C: noted while foreign code runs, answered by every engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from importlib import import_module

import numpy as np
import pytest
from support import Basis, DeferredInterrupt, Problem, Stop, Structure, TimeBudget, home

from polysharp import SparsePolynomialRegressorCV
from polysharp.cli import main
from polysharp.engines import make_engine

TERMS = {"enumeration": 3, "big-m": 8, "tree": 12}  # each far from done when the signal comes


def long_problem(terms: int) -> Problem:
    """Noise on 164 monomials: nothing can be proved about it in seconds."""
    rng = np.random.default_rng(0)
    basis = Basis.full(8, 3, constant=False)
    M = basis.evaluate(rng.standard_normal((80, 8)))
    y = rng.standard_normal(80)
    return Problem.dense(M.T @ M, M.T @ y, float(y @ y), 1.0, Structure.of_basis(basis, terms))


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("tree", 1),
        ("tree", 2),
        ("enumeration", 1),
        ("big-m", 1),
        ("cutting-planes", 1),
        ("cutting-planes-multitree", 1),
    ],
)
def test_every_engine_answers_the_signal(name, threads):
    if name not in {"tree", "enumeration"}:
        pytest.importorskip("highspy" if name.endswith("multitree") else "pyscipopt")
    problem = long_problem(TERMS.get(name, 8))
    engine = make_engine(name)
    engine.solve(problem, time=TimeBudget(0.1))  # loads what it needs
    # From another process, as a terminal sends it: a thread of this one may wait for the solver.
    code = f"import os, signal, time; time.sleep(0.5); os.kill({os.getpid()}, signal.SIGINT)"
    sender = subprocess.Popen([sys.executable, "-c", code])
    # An engine that is deaf to the signal ends by the time limit.
    answer = engine.solve(problem, time=TimeBudget(8.0), gap_tol=0.0, threads=threads)
    sender.wait()
    assert answer.stop is Stop.INTERRUPTED
    assert answer.objective == pytest.approx(problem.refit(np.array(answer.support)).objective)
    known = make_engine("local-search").solve(problem).objective  # which is not below the optimum
    assert 0.0 <= answer.bound <= known


def interrupted(seen, error=None):
    with DeferredInterrupt() as interrupt:
        signal.raise_signal(signal.SIGINT)
        seen.append(interrupt.pending)
        if error is not None:
            raise error


def test_a_deferred_interrupt_is_raised_at_the_end():
    seen = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(seen)
    assert seen == [True]


def test_an_error_comes_before_a_deferred_interrupt():
    with pytest.raises(ZeroDivisionError):
        interrupted([], ZeroDivisionError())


def test_afterwards_the_signal_is_handled_as_before():
    before = signal.getsignal(signal.SIGINT)
    with DeferredInterrupt() as interrupt:
        assert signal.getsignal(signal.SIGINT) != before
    assert not interrupt.pending
    assert signal.getsignal(signal.SIGINT) == before


def test_other_threads_leave_the_signal_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with DeferredInterrupt() as interrupt:
            seen.append((signal.getsignal(signal.SIGINT), interrupt.pending))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]


@pytest.mark.parametrize("case", [1, 4])
def test_an_interrupted_search_over_budgets_keeps_the_best_so_far(monkeypatch, case):
    """As Ctrl-C does it: the comparison ends after so many cases, and the best is refitted."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * rng.standard_normal(120)
    compared, seen = home("SplitModels").SplitModels.compare, []

    def interrupted_later(*arguments):
        seen.append(arguments)
        if len(seen) > 5 * case:  # five splits
            raise KeyboardInterrupt
        return compared(*arguments)

    monkeypatch.setattr(home("SplitModels").SplitModels, "compare", interrupted_later)
    search = SparsePolynomialRegressorCV(max_terms=6, cv=5, random_state=0)
    with pytest.warns(UserWarning, match="The comparison was interrupted at degree"):
        search.fit(X, y)
    assert search.interrupted_
    assert len(search.cv_results_["params"]) > 0
    assert search.polynomial_.monomials
    assert search.solution_.bound <= search.solution_.objective


def test_an_interrupt_before_anything_was_compared_is_raised(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(home("SplitModels").SplitModels, "compare", interrupt)
    X = np.random.default_rng(0).standard_normal((60, 3))
    with pytest.raises(KeyboardInterrupt):
        SparsePolynomialRegressorCV(max_terms=4, cv=3).fit(X, X[:, 0])


def test_ctrl_c_while_a_module_is_loaded_ends_the_command(monkeypatch, capsys):
    def stopped(name):
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("polysharp.cli.import_module", stopped)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "polysharp: interrupted\n"


def test_other_errors_of_running_are_not_taken_for_ctrl_c(monkeypatch):
    def broken(name):
        raise RuntimeError("broken")

    monkeypatch.setattr("polysharp.cli.import_module", broken)
    with pytest.raises(RuntimeError, match="broken"):
        main(["info"])


def test_a_command_that_has_ended_hears_no_ctrl_c(monkeypatch):
    command = import_module("polysharp.__main__")
    monkeypatch.setattr(command, "main", lambda: 3)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as end:
            command.run()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert end.value.code == 3
