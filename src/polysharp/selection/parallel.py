"""Jobs that know nothing of each other, run through joblib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from polysharp.progress import Progress
from polysharp.threads import one_blas_thread


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
