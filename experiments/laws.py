"""Laws that are known: terms, coefficients, and tables drawn from them.

Ten equations of motion (competing species, van der Pol, Lorenz, Roessler) on trajectories from
random starts, and the sixteen Feynman laws that are polynomials of degree five or less, with the
ranges of the Feynman data base; and those that are sums of products with negative powers as well.
Laws that are the same up to the names and the order of their inputs are listed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from scipy.integrate import solve_ivp

from polysharp.typing import Array

Terms = dict[tuple[str, ...], float]


PI = np.pi


@dataclass(frozen=True)
class Law:
    """A polynomial in named inputs, and how its inputs are drawn."""

    terms: Terms  # inputs (or "1/input") with repetition; the constant is a free intercept
    inputs: tuple[str, ...]
    draw: Callable[[int, np.random.Generator], Array]
    constant: float = 0.0

    def table(self, n: int, noise: float, seed: int | list[int]) -> tuple[Array, Array]:
        """Return rows of the inputs and the response, noise in parts of its standard deviation."""
        rng = np.random.default_rng(seed)
        X = self.draw(n, rng)
        column = {name: X[:, i] for i, name in enumerate(self.inputs)}
        column |= {f"1/{name}": 1.0 / x for name, x in column.items()}
        y = np.full(n, self.constant)
        for inputs, coefficient in self.terms.items():
            y += coefficient * np.prod([column[name] for name in inputs], axis=0)
        return X, y + noise * y.std() * rng.standard_normal(n)


def _uniform(low: float, high: float, p: int) -> Callable[[int, np.random.Generator], Array]:
    return lambda n, rng: rng.uniform(low, high, (n, p))


def _motion(
    slope: Callable[[float, Array], list[float]], starts: tuple[Array, Array], time: float
) -> Callable[[int, np.random.Generator], Array]:
    """Twenty trajectories from random starts, sampled at equal times."""

    def draw(n: int, rng: np.random.Generator) -> Array:
        runs = []
        for _ in range(20):
            at = np.linspace(0.0, time, n // 20)
            run = solve_ivp(slope, (0.0, time), rng.uniform(*starts), t_eval=at, rtol=1e-8)
            runs.append(run.y.T)
        return np.concatenate(runs)

    return draw


def _feynman(names: str, terms: Terms, low: float = 1.0, high: float = 5.0) -> Law:
    inputs = tuple(names.split())
    return Law(terms, inputs, _uniform(low, high, len(inputs)))


SPECIES = _motion(
    lambda _, v: [v[0] * (3 - v[0] - 2 * v[1]), v[1] * (2 - v[0] - v[1])],
    (np.full(2, 0.1), np.full(2, 3.0)),
    3.0,
)
VAN_DER_POL = _motion(
    lambda _, v: [v[1], 2 * (1 - v[0] ** 2) * v[1] - v[0]], (np.full(2, -3.0), np.full(2, 3.0)), 6.0
)
LORENZ = _motion(
    lambda _, v: [10 * (v[1] - v[0]), v[0] * (28 - v[2]) - v[1], v[0] * v[1] - 8 / 3 * v[2]],
    (np.array([-15.0, -15.0, 10.0]), np.array([15.0, 15.0, 40.0])),
    3.0,
)
ROESSLER = _motion(
    lambda _, v: [-v[1] - v[2], v[0] + 0.2 * v[1], 0.2 + v[2] * (v[0] - 5.7)],
    (np.array([-8.0, -8.0, 0.0]), np.array([8.0, 8.0, 5.0])),
    20.0,
)
XY, XYZ = ("x", "y"), ("x", "y", "z")

LAWS = {
    "species 1": Law({("x",): 3, ("x", "x"): -1, ("x", "y"): -2}, XY, SPECIES),
    "species 2": Law({("y",): 2, ("x", "y"): -1, ("y", "y"): -1}, XY, SPECIES),
    "van der Pol 1": Law({("y",): 1}, XY, VAN_DER_POL),
    "van der Pol 2": Law({("x",): -1, ("y",): 2, ("x", "x", "y"): -2}, XY, VAN_DER_POL),
    "Lorenz 1": Law({("x",): -10, ("y",): 10}, XYZ, LORENZ),
    "Lorenz 2": Law({("x",): 28, ("y",): -1, ("x", "z"): -1}, XYZ, LORENZ),
    "Lorenz 3": Law({("z",): -8 / 3, ("x", "y"): 1}, XYZ, LORENZ),
    "Roessler 1": Law({("y",): -1, ("z",): -1}, XYZ, ROESSLER),
    "Roessler 2": Law({("x",): 1, ("y",): 0.2}, XYZ, ROESSLER),
    "Roessler 3": Law({("z",): -5.7, ("x", "z"): 1}, XYZ, ROESSLER, 0.2),
    "I.11.19": _feynman("x1 x2 x3 y1 y2 y3", {("x1", "y1"): 1, ("x2", "y2"): 1, ("x3", "y3"): 1}),
    "I.12.1": _feynman("mu Nn", {("Nn", "mu"): 1}),
    "I.13.4": _feynman(
        "m v u w", {("m", "v", "v"): 0.5, ("m", "u", "u"): 0.5, ("m", "w", "w"): 0.5}
    ),
    "I.14.3": _feynman("m g z", {("g", "m", "z"): 1}),
    "I.14.4": _feynman("k x", {("k", "x", "x"): 0.5}),
    "I.24.6": _feynman(
        "m omega omega_0 x",
        {("m", "omega", "omega", "x", "x"): 0.25, ("m", "omega_0", "omega_0", "x", "x"): 0.25},
        1.0,
        3.0,
    ),
    "I.34.27": _feynman("h omega", {("h", "omega"): 1 / (2 * np.pi)}),
    "I.39.10": _feynman("pr V", {("V", "pr"): 1.5}),
    "II.27.16": _feynman("epsilon c Ef", {("Ef", "Ef", "c", "epsilon"): 1}),
    "II.27.18": _feynman("epsilon Ef", {("Ef", "Ef", "epsilon"): 1}),
    "II.34.2": _feynman("q v r", {("q", "r", "v"): 0.5}),
    "II.37.1": _feynman("mom B chi", {("B", "mom"): 1, ("B", "chi", "mom"): 1}),
}


def _inverse(names: str, *terms: tuple[float, str], high: float = 5.0) -> Law:
    """A Feynman law whose terms are written "q r^-2": inputs with exponents."""

    def factors(text: str) -> tuple[str, ...]:
        found: list[str] = []
        for factor in text.split():
            name, _, exponent = factor.partition("^")
            power = int(exponent or 1)
            found += [name if power > 0 else f"1/{name}"] * abs(power)
        return tuple(sorted(found))

    return _feynman(names, {factors(text): c for c, text in terms}, high=high)


INVERSE_LAWS = {
    "I.12.2": _inverse("q1 q2 epsilon r", (1 / (4 * PI), "q1 q2 epsilon^-1 r^-2")),
    "I.12.4": _inverse("q1 epsilon r", (1 / (4 * PI), "q1 epsilon^-1 r^-2")),
    "I.13.12": _inverse("m1 m2 r1 r2 G", (1, "G m1 m2 r2^-1"), (-1, "G m1 m2 r1^-1")),
    "I.25.13": _inverse("q C", (1, "q C^-1")),
    "I.29.4": _inverse("omega c", (1, "omega c^-1"), high=10.0),
    "I.32.5": _inverse("q a epsilon c", (1 / (6 * PI), "q^2 a^2 epsilon^-1 c^-3")),
    "I.34.8": _inverse("q v B p", (1, "q v B p^-1")),
    "I.38.12": _inverse("m q h epsilon", (1 / PI, "epsilon h^2 m^-1 q^-2")),
    "II.2.42": _inverse("kappa T1 T2 A d", (1, "kappa T2 A d^-1"), (-1, "kappa T1 A d^-1")),
    "II.3.24": _inverse("Pwr r", (1 / (4 * PI), "Pwr r^-2")),
    "II.4.23": _inverse("q epsilon r", (1 / (4 * PI), "q epsilon^-1 r^-1")),
    "II.8.7": _inverse("q epsilon d", (3 / (20 * PI), "q^2 epsilon^-1 d^-1")),
    "II.11.20": _inverse("n_rho p_d Ef kb T", (1 / 3, "n_rho p_d^2 Ef kb^-1 T^-1")),
    "II.13.17": _inverse("epsilon c I r", (1 / (2 * PI), "I epsilon^-1 c^-2 r^-1")),
    "II.34.2a": _inverse("q v r", (1 / (2 * PI), "q v r^-1")),
    "II.34.11": _inverse("g q B m", (1 / 2, "g q B m^-1")),
    "II.34.29a": _inverse("q h m", (1 / (4 * PI), "q h m^-1")),
    "II.34.29b": _inverse("g h Jz mom B", (2 * PI, "g mom B Jz h^-1")),
    "II.36.38": _inverse(
        "mom H kb T alpha epsilon c M",
        (1, "mom H kb^-1 T^-1"),
        (1, "mom alpha M epsilon^-1 c^-2 kb^-1 T^-1"),
        high=3.0,
    ),
    "III.7.38": _inverse("mom B h", (4 * PI, "mom B h^-1")),
    "III.13.18": _inverse("E_n d k h", (4 * PI, "E_n d^2 k h^-1")),
    "III.15.14": _inverse("h E_n d", (1 / (8 * PI**2), "h^2 E_n^-1 d^-2")),
    "III.15.27": _inverse("alpha n d", (2 * PI, "alpha n^-1 d^-1")),
    "III.19.51": _inverse("m q h n epsilon", (-1 / 8, "m q^4 epsilon^-2 h^-2 n^-2")),
    "III.21.20": _inverse("rho_c_0 q A_vec m", (-1, "rho_c_0 q A_vec m^-1")),
}
FEYNMAN = {name: law for name, law in LAWS.items() if "." in name} | INVERSE_LAWS


def draw(name: str, n: int, noise: float, seed: int) -> tuple[Array, Array]:
    """Return a table of a law; each law has random numbers of its own."""
    law = (LAWS | INVERSE_LAWS)[name]
    return law.table(n, noise, [seed, crc32(name.encode())])
