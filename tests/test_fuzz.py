"""Many random small problems: the tree engine against the referee, and a part of the campaign.

    make test ARGS="-m slow tests/test_fuzz.py"

The campaign itself, hostile problems for every engine, forged proofs and damaged files, is
``benchmarks/fuzz.py``.

The instances are those of ``instances.py`` (correlated, duplicate, ill-scaled columns, large means,
every kind of rule, ridges from 1e-6 to 1e6 of the diagonal), with seeds no other test uses.  A
certificate is wrong when the bound exceeds the enumerated optimum, or when the status says optimal
and the objective does not agree.  ``test_verify.py`` hands 2,000 proofs to the checker.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from instances import make_instance, optimum
from support import Status, TimeBudget

from polysharp.engines import make_engine

CAMPAIGN = Path(__file__).parent.parent / "benchmarks" / "fuzz.py"
FIRST, GROUP = 10_000, 25
TOLERANCES = (1e-4, 1e-7, 0.0, 0.05)  # of the gap


def check(seed: int) -> None:
    instance = make_instance(seed)
    problem, best = instance.problem, optimum(instance.problem).objective
    tol = TOLERANCES[seed % len(TOLERANCES)]
    answer = make_engine("tree").solve(problem, time=TimeBudget(30.0), gap_tol=tol, seed=seed)
    rounding = 1e-9 * best + 4.0 * problem.resolution
    support = np.array(answer.support, dtype=np.intp)
    assert problem.structure.allows(support), instance.label
    assert answer.bound <= best + rounding, f"{instance.label}: {answer.bound} > {best}"
    assert answer.objective >= best - rounding, instance.label
    if answer.status is Status.OPTIMAL:
        assert answer.objective <= best / (1.0 - tol) + rounding, instance.label
    else:
        # Only rounding may keep a gap open on problems as small as these.
        assert answer.objective - answer.bound <= max(tol * best, 1e-7 * best) + (
            1e3 * problem.resolution
        ), f"{instance.label}: {answer}"


@pytest.mark.parametrize("group", range(2))
def test_fuzz(group):
    for seed in range(FIRST + GROUP * group, FIRST + GROUP * (group + 1)):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(2, 98))
def test_fuzz_on_2400(group):
    for seed in range(FIRST + GROUP * group, FIRST + GROUP * (group + 1)):
        check(seed)


FOUND = {
    1088115: None,  # the square of a dual multiple underflows
    2430759: "tree",  # rounding may hide more than the floats can hold
    2570595: "tree",  # the same, with an input that must be used
    4417: "branching",  # what is in leaves nothing of others but rounding
    5546: "branching",
    8669: "branching",  # singular to rounding where a chain is chosen
    81010397: "branching",  # nothing is left to explain, and no share is left either
    152004812: "priced",  # a share of the constant, which the pool has not taken
}
FOUND_IN_BOXES = {
    500371: "local-search",  # a member joined once more where parking went round in circles
    501257: "local-search",
    501525: "local-search",
}
FOUND_IN_PROOFS = {
    94000027: "priced",  # coefficients from an engine, without a row for the response
    31002916: None,  # a shift that leaves a mean no digits
    83015153: "branching",  # honest: columns of rounding beside others, and a weak ridge
    83020047: "branching",  # honest: columns of 1e99 and of 1e-133
    83025615: "branching",
    86010097: "branching",  # honest: equal columns and a weak ridge
    86011386: "branching",
    86006500: "branching",  # honest: a perfect fit, weights over ten decades
    83009192: "branching",  # honest: large coefficients whose last digits count
    83012301: "branching",
    86008561: "branching",
    120007201: "branching",  # honest: inputs that do not fill the budget, of equal columns
    95002025: "branching",  # honest: one ridge that is almost nothing beside others
}
AGAIN = """
from argparse import Namespace
from fuzz import Tally, {check}
for tally in Tally(), Tally():  # what the first one compiles overruns nothing in the second
    for seed, engine in {found}.items():
        {check}(seed, Namespace(engine=engine, exact=False), tally)
assert tally.counts and not tally.findings, tally.findings
"""


@pytest.mark.parametrize(
    ("check", "found"),
    [("check_solve", FOUND), ("check_boxes", FOUND_IN_BOXES), ("check_proofs", FOUND_IN_PROOFS)],
)
def test_what_the_campaign_has_found(check, found):
    command = [sys.executable, "-c", AGAIN.format(check=check, found=found)]
    done = subprocess.run(command, cwd=CAMPAIGN.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("what", ["solves --engine tree", "proofs", "files"])
def test_a_part_of_the_campaign_finds_nothing(what, tmp_path):
    """Seeds that the campaign on the page of proofs does not use."""
    check, *more = what.split()
    seeds = ["--seeds", "90000000", "90000150", "--output", str(tmp_path)]
    command = [sys.executable, str(CAMPAIGN), check, *more, *seeds]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 seeds" in done.stdout
