"""What a newcomer waits for: the import, the first fit with an empty compile cache, a warm fit.

    python benchmarks/first_use.py

Each figure is taken in a new process; the compile cache is a temporary folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

PROBE = """
from time import perf_counter
began = perf_counter()
import polysharp
imported = perf_counter()
import numpy as np
from polysharp import SparsePolynomialRegressor
X = np.random.default_rng(0).normal(size=(200, 5))
y = X[:, 0] * X[:, 1] + 0.1 * X[:, 2]
model = SparsePolynomialRegressor(degree=2, max_terms=3)
ready = perf_counter()
model.fit(X, y)
first = perf_counter()
for _ in range(10):
    model.fit(X, y)
warm = perf_counter()
print(f"import polysharp {imported - began:.2f} s, estimator with scikit-learn "
      f"{ready - imported:.2f} s, first fit {first - ready:.2f} s, warm fit "
      f"{1e3 * (warm - first) / 10:.1f} ms")
"""


def main() -> None:
    """Run the probe with the cache empty, then filled."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for state in ("empty", "filled"):
            answer = subprocess.run(
                [sys.executable, "-c", PROBE], env=environment, check=True, capture_output=True
            )
            print(f"compile cache {state}: {answer.stdout.decode().strip()}")


if __name__ == "__main__":
    main()
