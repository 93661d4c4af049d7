"""Exact over every input: what is found and proved without a triage, beside the paper's two steps.

    python benchmarks/all_inputs.py                                  # p = 200, n = 2000, one seed
    python benchmarks/all_inputs.py --inputs 1000 --rows 2000 4000 --seeds 10 --time-limit 600
    python benchmarks/all_inputs.py --inputs 1000 --rows 10000 --time-limit 900 --two-steps 100
    python benchmarks/all_inputs.py --inputs 5000 --rows 5000 --degree 2
    python benchmarks/all_inputs.py --inputs 60 --rows 2000 --degree 4
    python benchmarks/all_inputs.py --inputs 1000 --rows 10000 --device cuda --time-limit 15

Planted (k, l) = (20, 40), sqrt(SNR) = 20, free intercept, inputs as they are.  For each ridge,
gamma = 1/sqrt(n) (``weak``) and 1/gamma = 0.1 n (``strong``): A% and F% of the monomials, inputs
found and false ones, the gap proved over all f monomials, passes over them, seconds of the whole
fit.  Beside them p', the number of inputs that the ranking (Algorithm 1) must keep to lose none
on the same data, and the paper's average for that n and p; ``--two-steps P`` also fits with
n_candidates = P.  A line at the end gives the peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import warnings
from time import perf_counter

import machine
from sklearn.exceptions import ConvergenceWarning

from polysharp import SparsePolynomialRegressor
from polysharp.data.arrays import Place
from polysharp.data.rows import MemoryRows
from polysharp.metrics import accuracy, false_alarm
from polysharp.monomials.basis import count_monomials
from polysharp.ranking.kernel_system import KernelSettings
from polysharp.ranking.ranking import Ranking, scores_of
from polysharp.synthetic import PlantedData, make_sparse_polynomial

K, L, SNR_SQRT = 20, 40, 20.0
PAPER = {  # table of p', degree 3, by p and n
    200: {2000: 72, 4000: 41, 6000: 36, 8000: 54, 10_000: 27},
    400: {2000: 117, 4000: 109, 6000: 75, 8000: 80, 10_000: 62},
    600: {2000: 222, 4000: 166, 6000: 128, 8000: 68, 10_000: 104},
    800: {2000: 361, 4000: 230, 6000: 96, 8000: 95, 10_000: 102},
    1000: {2000: 286, 4000: 264, 6000: 142, 8000: 103, 10_000: 78},
}


def ridge(name: str, n: int) -> float:
    """Return gamma."""
    return n**-0.5 if name == "weak" else 10.0 / n


def needed(data: PlantedData, degree: int, gamma: float, place: Place) -> tuple[int, float]:
    """Return p' that keeps every planted input, and the seconds of the ranking."""
    start = perf_counter()
    rows = MemoryRows(data.X, data.y, place=place)
    scores = scores_of(rows, None, KernelSettings(degree, gamma, True))
    seconds = perf_counter() - start
    order = Ranking(scores, degree, gamma).order
    place_of = {int(i): rank for rank, i in enumerate(order, start=1)}
    return max(place_of[i] for i in data.inputs), seconds


def fit_line(
    data: PlantedData,
    degree: int,
    gamma: float,
    candidates: int | None,
    options: argparse.Namespace,
) -> str:
    """Fit once and describe the outcome."""
    model = SparsePolynomialRegressor(
        degree,
        L,
        K if options.max_inputs else None,
        gamma,
        n_candidates=candidates,
        scale=False,
        device=options.device,
        engine="tree",
        time_limit=options.time_limit,
        n_jobs=options.jobs,
        verbose=options.verbose,
        random_state=0,
    )
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    seconds = perf_counter() - start
    found = model.polynomial_.monomials
    inputs, planted = {i for m in found for i in m}, set(data.inputs)
    solution = model.solution_
    return (
        f"A {accuracy(found, data.monomials):5.1f} %  F {false_alarm(found, data.monomials):5.1f} %"
        f"  inputs {len(inputs & planted)}+{len(inputs - planted)}"
        f"  objective {solution.objective:.6g}  bound {solution.bound:.6g}"
        f"  gap {100 * solution.gap:.3g} % ({solution.scope})"
        f"  {solution.counters.rounds} passes  {solution.counters.nodes} nodes  {seconds:.1f} s"
        f" ({solution.stop})"
    )


def main() -> None:
    """Run the settings asked for and print one line per fit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, nargs="+", default=[200])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000])
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument(
        "--ridges", nargs="+", choices=["strong", "weak"], default=["strong", "weak"]
    )
    parser.add_argument("--time-limit", type=float, default=300.0)
    parser.add_argument("--device", default=None, help="a PyTorch device, such as cuda")
    parser.add_argument("--jobs", type=int, default=None, help="threads; -1 for all cores")
    parser.add_argument("--two-steps", type=int, default=None, metavar="P", help="also with p' = P")
    parser.add_argument("--no-ranking", action="store_true", help="leave Algorithm 1 out")
    parser.add_argument("--no-max-inputs", dest="max_inputs", action="store_false")
    parser.add_argument("--verbose", type=int, default=0)
    options = parser.parse_args()
    print(machine.describe(), flush=True)
    place = Place.find(None, options.device)
    for p in options.inputs:
        for n in options.rows:
            f = count_monomials(p, options.degree)
            print(f"p = {p}, n = {n}, r = {options.degree}, f = {f:,}, (k, l) = ({K}, {L})")
            for seed in range(options.first_seed, options.first_seed + options.seeds):
                run_seed(p, n, seed, place, options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory of the process {peak:.2f} GiB")


def run_seed(p: int, n: int, seed: int, place: Place, options: argparse.Namespace) -> None:
    """Draw one law and fit it under every ridge."""
    data = make_sparse_polynomial(n, p, options.degree, K, L, SNR_SQRT, random_state=seed)
    if not options.no_ranking:
        size, seconds = needed(data, options.degree, n**-0.5, place)
        paper = PAPER.get(p, {}).get(n, "-") if options.degree == 3 else "-"
        print(
            f"  seed {seed}: ranking needs p' = {size} ({seconds:.1f} s); paper {paper} on average"
        )
    for name in options.ridges:
        gamma = ridge(name, n)
        print(f"  seed {seed} {name:6} {fit_line(data, options.degree, gamma, None, options)}")
        if options.two_steps is not None:
            line = fit_line(data, options.degree, gamma, options.two_steps, options)
            print(f"  seed {seed} {name:6} two steps, p' = {options.two_steps}: {line}", flush=True)


if __name__ == "__main__":
    main()
