"""A real cluster: scheduler and worker processes over TCP, workers that die, and none at all."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support import cluster, sum_over_blocks

from experiments import phase_transition
from experiments.runner import Plan, results
from polysharp import ClusterError, InputError, SparsePolynomialRegressor

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

N = 2000
LOCAL = {
    "threads_per_worker": 1,
    "processes": True,
    "protocol": "tcp://",
    "host": "127.0.0.1",
    "dashboard_address": ":0",
    "memory_limit": "1GiB",
    "silence_logs": "CRITICAL",
}
SETTINGS = {"degree": 3, "max_terms": 4, "gamma": 0.1}


@pytest.fixture(scope="module")
def workers():
    """Two worker processes of one thread; a lost one is replaced."""
    with (
        distributed.LocalCluster(n_workers=2, **LOCAL) as machine,
        distributed.Client(machine) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((N, 6)) + rng.uniform(-2, 2, 6)
    y = 40 + 2 * X[:, 0] ** 2 * X[:, 1] - X[:, 2] * X[:, 3] + 0.3 * rng.standard_normal(N)
    return X, y, rng.uniform(0.2, 3.0, N)


@pytest.fixture(scope="module")
def in_memory(rows):
    return SparsePolynomialRegressor(**SETTINGS).fit(*rows)


def assert_same(found, expected):
    assert found.polynomial_.monomials == expected.polynomial_.monomials
    np.testing.assert_allclose(
        found.polynomial_.coefficients, expected.polynomial_.coefficients, rtol=1e-9
    )
    assert found.intercept_ == pytest.approx(expected.intercept_, rel=1e-9)
    assert found.solution_.status is expected.solution_.status


@pytest.mark.parametrize("chunks", [N, 97, ((0, 900, 0, 1100),)], ids=str)
def test_chunks_on_a_cluster_do_not_matter(workers, rows, in_memory, chunks):
    rest = (chunks[0], (6,)) if isinstance(chunks, tuple) else (chunks, 4)
    X, y, v = rows
    table = da.from_array(X, chunks=rest)
    columns = [da.from_array(a, chunks=chunks) for a in (y, v)]
    assert_same(SparsePolynomialRegressor(**SETTINGS).fit(table, *columns), in_memory)


def test_data_frames_on_a_cluster(workers, rows, in_memory):
    X, y, v = rows
    names = [f"x{i}" for i in range(6)]
    frame = dd.from_pandas(pd.DataFrame(X, columns=names).assign(y=y, v=v), npartitions=5)
    model = SparsePolynomialRegressor(**SETTINGS, verbose=1)
    found = model.fit(frame[names], frame["y"], frame["v"])
    assert_same(found, in_memory)
    predicted = found.predict(frame[names])
    np.testing.assert_allclose(predicted.compute(), found.polynomial_(X), rtol=1e-12)


@pytest.mark.slow
def test_every_input_on_a_cluster(workers, rows):
    X, y, v = (a[:300] for a in rows)
    noise = np.random.default_rng(1).standard_normal((300, 30))
    X = np.hstack([X, noise])
    settings = {**SETTINGS, "n_candidates": None, "engine": "local-search"}
    found = SparsePolynomialRegressor(**settings).fit(da.from_array(X, chunks=(80, 36)), y, v)
    assert_same(found, SparsePolynomialRegressor(**settings).fit(X, y, v))
    assert found.solution_.scope == "all-inputs"


def _die_once(part, mark, block_info=None):
    """Kill the worker at block 3, the first time it is read there."""
    number = block_info[0]["chunk-location"][0]
    if number == 3 and not Path(mark).exists():
        Path(mark).write_text("here")
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def test_a_worker_killed_in_the_middle_changes_nothing(workers, rows, in_memory, tmp_path):
    X, y, v = rows
    mark = tmp_path / "died"
    table = da.from_array(X, chunks=(200, 6)).map_blocks(
        _die_once, str(mark), dtype=float, meta=np.empty((0, 0))
    )
    before = set(workers.scheduler_info(n_workers=-1)["workers"])
    assert_same(SparsePolynomialRegressor(**SETTINGS).fit(table, y, v), in_memory)
    assert mark.exists()
    workers.wait_for_workers(2, timeout=60)
    assert set(workers.scheduler_info(n_workers=-1)["workers"]) != before


def _die(number, block):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_its_workers_is_one_sentence():
    # Dask may blame any task that waited on the worker when it died, the innocent one too.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, **LOCAL) as machine,
        distributed.Client(machine),
        pytest.raises(ClusterError, match=r"task .*, [01]\) killed 1 workers, .* out of memory"),
    ):
        sum_over_blocks("dying", _die, [(0,), (1,)])


def test_nan_on_a_cluster_names_its_block(workers, rows):
    X = rows[0].copy()
    X[1234, 2] = np.nan
    with pytest.raises(InputError, match=r"^block 12: X must .* nan in row 34 of column 'x2'$"):
        SparsePolynomialRegressor().fit(da.from_array(X, chunks=(100, 6)), rows[1])


def test_an_interrupt_cancels_what_is_running(workers):
    calls = []

    def interrupt(done, total):
        calls.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sum_over_blocks("slow", _slow, [(t,) for t in range(40)], on_block=interrupt)
    assert len(calls) == 1
    assert calls[0][0] < calls[0][1] == 40
    # The cluster is free for the next fit, long before 40 slow blocks could be done.
    assert sum_over_blocks("quick", _one, [(t,) for t in range(10)]) == 10
    held = workers.run_on_scheduler(_tasks)
    assert held == []


def _tasks(dask_scheduler):
    return [str(key) for key in dask_scheduler.tasks if "slow" in str(key)]


def _slow(number, block):
    from time import sleep

    sleep(0.5)
    return 1


def _one(number, block):
    return 1


def test_progress_counts_blocks(workers):
    seen = []
    total = sum_over_blocks(
        "slow", _slow, [(t,) for t in range(6)], on_block=lambda *at: seen.append(at)
    )
    assert total == 6
    assert seen[-1] == (6, 6)
    assert seen == sorted(set(seen))


def test_joblib_carries_validation_and_resampling_to_the_cluster(workers, rows):
    import joblib

    from polysharp import SparsePolynomialRegressorCV, stability

    X, y = rows[0][:200], rows[1][:200]
    settings = {"degree": (1, 2), "max_terms": 3, "cv": 3, "gamma": 0.1, "random_state": 0}
    expected = SparsePolynomialRegressorCV(**settings).fit(X, y)
    shares = stability(expected, X, y, n_resamples=4, random_state=1)
    with joblib.parallel_config("dask"):
        found = SparsePolynomialRegressorCV(**settings).fit(X, y)
        same = stability(expected, X, y, n_resamples=4, random_state=1)
    scores = [model.cv_results_["mean_test_score"] for model in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    assert str(same) == str(shares)
    ran = workers.run_on_scheduler(_prefixes)
    assert any("batch_of_compare" in name for name in ran)
    assert any("_refit" in name for name in ran)


def _prefixes(dask_scheduler):
    return list(dask_scheduler.task_prefixes)


def test_a_cluster_without_workers(rows):
    X, y, _ = rows
    with (
        distributed.LocalCluster(n_workers=0, **LOCAL) as empty,
        dask.config.set({"polysharp.wait-for-workers": 0.3}),
        cluster(empty.scheduler_address),
        pytest.raises(ClusterError, match=r"at tcp://127.* no workers for 0.3 s; start some with"),
    ):
        SparsePolynomialRegressor().fit(da.from_array(X, chunks=500), y)


@pytest.mark.slow
def test_workers_that_leave_for_good():
    from threading import Timer

    with (
        dask.config.set({"polysharp.wait-for-workers": 2.0}),
        distributed.LocalCluster(n_workers=1, **LOCAL) as machine,
        distributed.Client(machine) as client,
    ):
        client.wait_for_workers(1)
        leaving = Timer(3.0, machine.scale, [0])
        leaving.start()
        with pytest.raises(ClusterError, match="no workers for 2 s"):
            sum_over_blocks("slow", _slow, [(t,) for t in range(100)])
        leaving.join()


def test_an_address_where_nobody_answers():
    with (
        dask.config.set({"polysharp.wait-for-workers": 0.3}),
        pytest.raises(ClusterError, match="no Dask scheduler answers at 'tcp"),
        cluster("tcp://127.0.0.1:9"),
    ):
        pass


def test_experiments_run_on_a_cluster(workers):
    def told(rows):
        return sorted((row["n"], row["method"], row["A"], row["F"]) for row in rows)

    experiment = phase_transition.EXPERIMENT
    cells = [c for c in experiment.cells(Plan([100], quick=True)) if c.method == "omp"]
    there = results(experiment, cells, 1, 3.0, scheduler=workers.scheduler.address)
    assert told(there) == told(results(experiment, cells, 1, 3.0))
    assert len(cells) > 1
