"""Units of coefficients, and terms that units allow."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement
from math import factorial, prod

import numpy as np
import pytest
from support import Applied, inner, read_rules

from polysharp import InfeasibleError, InputError, Polynomial, SparsePolynomialRegressor, verify
from polysharp.report import write_report

FUNCTIONS = inner("FUNCTIONS", "data")

pytest.importorskip("pint")

UNITS = {"x0": "m", "x1": "s", "x2": "kg", "y": "J"}


def rows(n=200):
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 3.0, (n, 3))
    return X, 0.5 * X[:, 2] * X[:, 0] ** 2 / X[:, 1] ** 2 + 0.01 * rng.standard_normal(n)


def test_coefficients_have_the_units_that_are_missing():
    law = Polynomial(
        ((2, 0, 0), (3, 3), (4,), (5,), (1,)),
        np.ones(5),
        0.0,
        ("x0", "x1", "x2"),
        functions=(
            Applied(1, FUNCTIONS["inverse"]),
            Applied(0, FUNCTIONS["square-root"]),
            Applied(0, FUNCTIONS["log"]),
        ),
    )
    found = law.coefficient_units(UNITS)
    assert found == ("J/kg/m²", "J·s²", "J/m⁰⋅⁵", "?", "J/s")
    assert law.coefficient_units({"y": "J"}) == ("J",) * 5


def test_a_law_of_nature_is_the_only_consistent_term():
    """Of all products of powers up to degree 5, kinetic energy alone needs no constant."""
    X, y = rows()
    options = {"degree": 5, "max_terms": 1, "functions": ("inverse",), "gamma": 1.0}
    model = SparsePolynomialRegressor(**options, units=UNITS, constants=[]).fit(X, y)
    assert model.polynomial_.term_names == ("x0^2 x2 x1^-2",)
    assert len(model.solution_.proof.statement.monomials) == 1
    assert verify(model.solution_.proof, X, y)


def test_constants_let_terms_in():
    options = SparsePolynomialRegressor(degree=2, functions=("inverse",)).get_params(deep=False)
    names, powers = ("x0", "x1", "x2"), {"m": (1, 0, 0), "s": (0, 1, 0), "kg": (0, 0, 1)}
    columns = [*powers.values(), *(tuple(-e for e in v) for v in powers.values())]
    for constants, dimensions in (([], []), (["m/s^2"], [(1, -2, 0)]), (["J"], [(2, -2, 1)])):
        rules = read_rules({**options, "units": UNITS, "constants": constants}, names)
        left = set(rules.basis(np.arange(3)).monomials) if _any_left(rules) else set()
        expected = set()
        for d in (1, 2):
            for m in combinations_with_replacement(range(6), d):
                if any(a + 3 in m for a in m if a < 3):
                    continue
                need = np.array([2, -2, 1]) - sum(np.array(columns[c]) for c in m)
                products = [np.zeros(3)] + [
                    k * np.array(v) for v in dimensions for k in (-2, -1, 1, 2)
                ]
                if any((need == product).all() for product in products):
                    expected.add(m)
        assert left == expected


def _any_left(rules):
    return len(rules.exclude_terms) < rules.count(3) - 1


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"units": {"x0": "m"}, "constants": []}, "once, the response, got inputs only"),
        ({"units": {"x0": "m", "y": "J", "z": "s"}, "constants": []}, "once, the response"),
        ({"units": {"x0": "smoot-ish", "y": "J"}, "constants": []}, "that pint knows"),
        ({"units": None, "constants": []}, "beside units"),
        ({"units": UNITS, "constants": "m"}, "list of units"),
        ({"units": UNITS, "constants": [], "include_terms": ["x0"]}, "consistent"),
        ({"units": ["m"], "constants": []}, "mapping"),
    ],
)
def test_what_is_no_unit_is_refused(options, rule):
    X, y = rows(20)
    model = SparsePolynomialRegressor(degree=2, functions=("inverse",), gamma=1.0, **options)
    with pytest.raises(InputError, match=rule):
        model.fit(X, y)


LENGTHS = {"m": (1, 0), "s": (0, 1), "m/s": (1, -1), "m*s": (1, 1), "m^2": (2, 0)}
LENGTHS["dimensionless"] = (0, 0)


def check(seed: int) -> None:
    """Compare with enumeration over the terms that dimensions allow, and read the proof."""
    rng = np.random.default_rng([31, seed])
    n, p, degree = 25, int(rng.integers(2, 4)), int(rng.integers(1, 4))
    X = rng.uniform(0.5, 3.0, (n, p))
    drawn = [str(rng.choice(list(LENGTHS))) for _ in range(p + 1)]
    constants = [[], ["m"], ["m/s"]][int(rng.integers(3))]
    inverse, gamma, size = rng.random() < 0.6, 10.0 ** rng.uniform(-2, 2), int(rng.integers(1, 3))
    names = [*(f"x{i}" for i in range(p)), "y"]
    model = SparsePolynomialRegressor(
        degree, size, gamma=gamma, gap_tol=1e-7, functions=("inverse",) if inverse else None,
        units=dict(zip(names, drawn, strict=True)), constants=constants,
    )  # fmt: skip
    *of_inputs, of_y = (np.array(LENGTHS[unit]) for unit in drawn)
    dimensions = [*of_inputs, *(-d for d in of_inputs)] if inverse else of_inputs
    columns = [*X.T, *(1.0 / X.T)] if inverse else [*X.T]
    pure = [k * np.array(LENGTHS[c]) for c in constants for k in (-2, -1, 1, 2)]
    listed, design = [], []
    for d in range(1, degree + 1):
        for m in combinations_with_replacement(range(len(columns)), d):
            missing = of_y - sum(dimensions[c] for c in m)
            fits = any((missing == product).all() for product in (0 * of_y, *pure))
            if fits and not any(c + p in m for c in m if c < p):
                orderings = factorial(degree) / factorial(degree - d)
                orderings /= prod(factorial(m.count(c)) for c in set(m))
                scaled = [columns[c] / np.sqrt(np.mean(columns[c] ** 2)) for c in m]
                listed.append(m)
                design.append(np.sqrt(orderings) * np.prod(scaled, axis=0))
    y = rng.standard_normal(n) + (sum(design[:2]) if design else 0.0)
    if not listed:
        with pytest.raises(InfeasibleError):
            model.fit(X, y)
        return
    M, centred = np.array(design).T, y - y.mean()
    M = M - M.mean(axis=0)
    G, q, best = M.T @ M, M.T @ centred, 0.5 * float(centred @ centred)
    for few in (s for k in range(1, size + 1) for s in combinations(range(len(listed)), k)):
        s = list(few)
        w = np.linalg.solve(G[np.ix_(s, s)] + np.eye(len(s)) / gamma, q[s])
        best = min(best, 0.5 * float(centred @ centred - q[s] @ w))
    found, label = model.fit(X, y).solution_, f"{seed}: {drawn} {constants}"
    assert set(model.polynomial_.monomials) <= set(listed), label
    assert found.objective == pytest.approx(best, rel=1e-6), label
    verdict = verify(found.proof, X, y)
    assert verdict.valid, f"{label}: {verdict}"
    assert verdict.bound <= best * (1 + 1e-9), label


def test_agrees_with_enumeration():
    for seed in range(25):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(20))
def test_a_thousand_agree_with_enumeration(group):
    for seed in range(100 + group, 1100, 20):
        check(seed)


def test_the_report_shows_units(tmp_path):
    X, y = rows(60)
    model = SparsePolynomialRegressor(degree=2, max_terms=1, gamma=1.0, units=UNITS).fit(X, y)
    write_report(model, X, y, tmp_path / "report.html")
    assert model.polynomial_.coefficient_units(UNITS)[0] in (tmp_path / "report.html").read_text()
