"""A campaign for what stands around the search, beside ``benchmarks/fuzz.py``.

    python benchmarks/surroundings.py intervals --seeds 0 10000 --processes 2 --seconds 600
    python benchmarks/surroundings.py commands --seeds 4711 4712 --again

``benchmarks/around`` has a file for each kind of case:

    intervals   how often prediction intervals hold: heavy tails, few rows, weights; through files
    bounded     bounds on coefficients and several responses against all supports tried one by one
    exports     formulas as Python, C, SQL, ONNX and SymPy against predict; hostile names and values
    files       model files damaged and hostile
    tables      Dask and every table library against arrays
    interrupts  Ctrl-C and SIGTERM at random moments of every command
    commands    hostile tables and options on the command line
    pages       the local page: other hosts and origins, scripts in cells, large files, leftovers

Counts are kept in benchmarks/results/around-<kind>.json, with every finding; ``campaign`` goes
through the seeds, and a run that is started again goes on where it was.  ``python
benchmarks/campaign.py`` writes the table of the documentation.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: processes are many, cases small
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from campaign import Campaign, Tally

RESULTS = Path(__file__).parent / "results"
KINDS = (
    *("intervals", "bounded", "exports", "files"),
    *("tables", "interrupts", "commands", "pages"),
)


def check(kind: str, seed: int, options: Any, tally: Tally) -> None:
    """Check one case; whatever it raises is a finding."""
    del options
    idea = importlib.import_module(f"around.{kind}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            idea.check(seed, tally)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        tally.find("crash", f"seed {seed}", f"{type(error).__name__} {error} at {where}")


def main() -> int:
    """Run what is not finished yet, and print the counts of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 200), metavar=("FIRST", "END"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    parser.add_argument("--again", action="store_true", help="run and store nothing")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the results")
    options = parser.parse_args()
    campaign = Campaign(
        options.kind,
        partial(check, options.kind),
        options,
        options.output,
        partial(importlib.import_module, f"around.{options.kind}"),
        prefix="around",
    )
    first, last = options.seeds
    return campaign.run(first, last, options.processes, options.seconds, store=not options.again)


if __name__ == "__main__":
    sys.exit(main())
