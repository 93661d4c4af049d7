"""Jobs that know nothing of each other, run through joblib, and when they must be done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import time
from typing import Any

import numpy as np

from polysharp.progress import Progress
from polysharp.threads import one_blas_thread


@dataclass(frozen=True)
class Deadline:
    """A moment on a clock, by default that of ``time.time``; None for never."""

    at: float | None = None
    clock: Callable[[], float] = time

    def __call__(self) -> bool:
        """Whether it has passed."""
        return self.at is not None and self.clock() > self.at

    @property
    def left(self) -> float:
        """Seconds until then."""
        return np.inf if self.at is None else max(0.0, self.at - self.clock())

    def share(self, share: float) -> Deadline:
        """Return the moment when a share of the time that is left has passed."""
        return self if self.at is None else replace(self, at=self.clock() + share * self.left)


NEVER = Deadline()


@dataclass(frozen=True)
class Workers:
    """How many jobs run at a time, where joblib's backend says, and who watches them."""

    n_jobs: int | None = None
    progress: Progress = field(default_factory=Progress)

    def run(self, job: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], stage: str) -> Any:
        """Return what the job returns for each of the arguments, in their order."""
        from joblib import Parallel, delayed

        with one_blas_thread(), Parallel(n_jobs=self.n_jobs, prefer="threads") as parallel:
            results = parallel(delayed(job)(*own) for own in arguments)
        if (tell := self.progress.on_block(stage)) is not None:
            tell(1, 1)
        return results
