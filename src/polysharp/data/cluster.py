"""Dask: one function over all blocks of rows, and the sum of the results.

A fit needs nothing of distributed rows but sums over blocks:

    result = f(block 1) + f(block 2) + ... ,

added in a tree, so that workers add each other's results and one result travels to the client.
The scheduler is the one that Dask would use: the cluster of an open ``distributed.Client``, the one
set by ``dask.config``, or threads of this process.  A block that returns None adds nothing.

If a cluster loses a worker, Dask computes its blocks again elsewhere.  Failures that Dask cannot
repair become one sentence here (``ClusterError``), and Ctrl-C cancels running tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from itertools import count
from operator import add
from os import cpu_count
from time import monotonic
from typing import Any
from uuid import uuid4

from polysharp.errors import ClusterError, load_optional
from polysharp.threads import limited_threads
from polysharp.typing import OnBlock

FAN_IN = 4  # results added by one task; a worker keeps this number in memory
POLL = 0.2  # seconds between two looks at the progress of a cluster
PATIENCE = 30.0  # seconds to wait for a worker; dask.config "polysharp.wait-for-workers" sets it


def is_dask(X: object) -> bool:
    """Whether X is a Dask collection; does not import Dask."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def dask_module(name: str = "dask") -> Any:
    """Import a module of Dask, or raise MissingSolverError."""
    return load_optional(name, "a table beyond one machine", "dask")


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Use the cluster whose scheduler is at ``address``; None leaves the choice to Dask."""
    if address is None:
        yield None
        return
    client = dask_module("distributed").Client
    try:
        connection = client(address, timeout=_patience())
    except (OSError, TimeoutError, ValueError) as refused:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r} within {_patience():g} s"
        ) from refused
    with connection:
        yield connection


def sum_over_blocks(
    stage: str,
    function: Callable[..., Any],
    blocks: Sequence[tuple[Any, ...]],
    *shared: Any,
    then: Callable[..., Any] | None = None,
    on_block: OnBlock | None = None,
) -> Any:
    """Return the sum of ``function(number, *block, *shared)`` over the blocks.

    With ``then``, return ``then(sum, *shared)``, computed by the worker that has the sum.
    ``stage`` names the tasks on Dask's dashboard.  ``on_block(done, total)`` is called after
    blocks; an exception that it raises ends the computation.
    """
    delayed = partial(dask_module().delayed, pure=False)
    name = f"polysharp-{stage}-{uuid4().hex}"
    task, merge = (delayed(f, traverse=False) for f in (function, _add))
    # Each shared argument is one node of the graph, so that a worker receives it once.
    everyone = [delayed(value, traverse=False) for value in shared]
    leaves = [
        task(number, *block, *everyone, dask_key_name=(name, number))
        for number, block in enumerate(blocks)
    ]
    level, depth = leaves, 0
    while len(level) > 1 or not depth:
        level = [
            merge(*level[a : a + FAN_IN], dask_key_name=(f"polysharp-sum-{name}", depth, a))
            for a in range(0, len(level), FAN_IN)
        ]
        depth += 1
    root = level[0] if then is None else delayed(then)(level[0], *everyone)
    client = _client()
    if client is None:
        return _locally(root, name, len(leaves), on_block)
    return _on_cluster(client, root, leaves, on_block)


def _add(*parts: Any) -> Any:
    """Add the results that are not None."""
    results = [part for part in parts if part is not None]
    return reduce(add, results) if results else None


def _client() -> Any:
    """Return the client of Dask's cluster, None for a local scheduler."""
    get = dask_module("dask.base").get_scheduler()
    owner = getattr(get, "__self__", None)
    return owner if hasattr(owner, "scheduler_info") else None


def n_threads() -> int:
    """Return the number of blocks that are processed at a time."""
    client = _client()
    return (cpu_count() or 1) if client is None else max(1, sum(client.nthreads().values()))


def _locally(root: Any, name: str, total: int, on_block: OnBlock | None) -> Any:
    """Compute with the threads or processes of this machine."""
    done = count(1)

    def after(key: Any, *_: Any) -> None:
        if on_block is not None and isinstance(key, tuple) and key[0] == name:
            on_block(min(next(done), total), total)

    # Blocks fill the cores; BLAS threads would compete with them.
    with dask_module("dask.callbacks").Callback(posttask=after), limited_threads(1):
        return root.compute()


def _on_cluster(client: Any, root: Any, leaves: Sequence[Any], on_block: OnBlock | None) -> Any:
    """Compute on a cluster; turn failures into one sentence."""
    distributed = dask_module("distributed")
    # Dask releases the result of a block after adding it; a mark remains and can be counted.
    mark = dask_module().delayed(_mark, pure=False)
    futures = client.compute([root, *(mark(leaf) for leaf in leaves if on_block is not None)])
    try:
        _follow(client, futures[0], futures[1:], on_block)
        return futures[0].result()
    except distributed.KilledWorker as killed:
        raise ClusterError(
            f"task {killed.task!r} killed {killed.allowed_failures + 1} workers, most likely by "
            "running out of memory; use smaller partitions (repartition, rechunk) or workers with "
            "more memory"
        ) from killed
    except BaseException:
        client.cancel(futures)
        raise
    finally:
        # Release now, not at garbage collection: workers keep the results until then.
        for future in futures:
            future.release()


def _mark(_: Any) -> None:
    """Stand for a finished block."""


def _patience() -> float:
    return float(dask_module().config.get("polysharp.wait-for-workers", PATIENCE))


def _follow(client: Any, root: Any, marks: Sequence[Any], on_block: OnBlock | None) -> None:
    """Wait for the result and report finished blocks; give up after a time without workers."""
    wait = dask_module("distributed").wait
    done, since, seconds = 0, monotonic(), _patience()
    while not root.done():
        try:
            wait([root], timeout=POLL)
        except TimeoutError:
            finished = sum(mark.done() for mark in marks)
            if finished == done and monotonic() - since > seconds:
                if not client.nthreads():
                    address = client.scheduler_info(n_workers=0).get("address", "?")
                    raise ClusterError(
                        f"the Dask scheduler at {address} has had no workers for {seconds:g} s; "
                        f"start some with 'dask worker {address}'"
                    ) from None
                since = monotonic()
            if finished > done:
                since, done = monotonic(), finished
                if on_block is not None:
                    on_block(done, len(marks))
    if on_block is not None and done < len(marks):
        on_block(len(marks), len(marks))
