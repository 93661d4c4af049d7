"""Data sets: one with a known law, one real table, and the eight real ones of the paper.

``cycling`` is drawn from the power balance of a cargo bicycle, in watts,

    P = m g (c_r + slope) v + 1/2 rho A (v + u)^2 v,

rolling and climbing plus drag, with speed v, total mass m, slope and headwind u.  Multiplied
out it is a polynomial of degree 3 with five terms in four inputs,

    P = g c_r m v + g m slope v + d v^3 + 2 d v^2 u + d v u^2,        d = rho A / 2.

Eight further columns are irrelevant, and two of them mislead: cadence follows speed through the
gears, and height follows mass.  The noise is that of a power meter.

``diabetes`` is the table of Efron et al. (2004) as scikit-learn ships it, in its own units.
``load_uci`` finds or downloads the files of the UCI repository that the paper uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes

from polysharp.datasets.uci_files import UCI_TABLES, find_table
from polysharp.errors import InputError
from polysharp.typing import Array, Monomial

UCI_NAMES = tuple(UCI_TABLES)

GRAVITY = 9.81  # m / s^2
ROLLING = 0.006  # resistance coefficient of a road tyre
DRAG = 0.5 * 1.2 * 0.32  # half of air density (kg / m^3) times drag area (m^2)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with named columns, and its law if it is known."""

    X: Array
    y: Array
    input_names: tuple[str, ...]
    units: tuple[str, ...]
    response_name: str
    response_unit: str  # empty for none
    law: dict[Monomial, float] | None = None  # the planted terms and their coefficients


def cycling(n: int = 1000, noise: float = 5.0, random_state: int = 0) -> Dataset:
    """Return a ``Dataset`` of rides: the power of a cargo bicycle; 4 of 12 inputs matter.

    Parameters
    ----------
    n : int
        Number of rides (rows).
    noise : float
        Standard deviation of the power meter, in watts.
    random_state : int
        Seed.

    Examples
    --------
    >>> rides = cycling()
    >>> rides.X.shape, rides.input_names[:4]
    ((1000, 12), ('speed', 'mass', 'slope', 'headwind'))
    >>> list(rides.law)
    [(0, 1), (0, 1, 2), (0, 0, 0), (0, 0, 3), (0, 3, 3)]
    """
    if n < 1:
        raise InputError(f"n must be at least 1, got {n}")
    if not noise >= 0.0:
        raise InputError(f"noise must not be negative, got {noise}")
    rng = np.random.default_rng(random_state)
    speed = rng.uniform(1.0, 13.0, n)
    mass = rng.uniform(60.0, 240.0, n)  # bicycle, rider and load
    slope = rng.normal(0.0, 0.03, n)
    headwind = rng.uniform(-1.0, 8.0, n)  # never faster than the rider from behind
    columns = {
        ("speed", "m/s"): speed,
        ("mass", "kg"): mass,
        ("slope", "1"): slope,
        ("headwind", "m/s"): headwind,
        ("cadence", "1/min"): 60.0 * speed / rng.uniform(4.5, 7.5, n),
        ("height", "m"): 1.75 + 0.001 * (mass - 150.0) + rng.normal(0.0, 0.05, n),
        ("age", "a"): rng.uniform(18.0, 70.0, n),
        ("temperature", "degC"): rng.normal(17.0, 7.0, n),
        ("humidity", "%"): rng.uniform(20.0, 95.0, n),
        ("saddle", "cm"): rng.normal(74.0, 4.0, n),
        ("crank", "mm"): rng.choice([165.0, 170.0, 172.5, 175.0], n),
        ("hour", "h"): rng.uniform(6.0, 21.0, n),
    }
    power = (
        GRAVITY * mass * (ROLLING + slope) * speed
        + DRAG * (speed + headwind) ** 2 * speed
        + noise * rng.standard_normal(n)
    )
    return Dataset(
        X=np.column_stack(list(columns.values())),
        y=power,
        input_names=tuple(name for name, _ in columns),
        units=tuple(unit for _, unit in columns),
        response_name="power",
        response_unit="W",
        law={
            (0, 1): GRAVITY * ROLLING,
            (0, 1, 2): GRAVITY,
            (0, 0, 0): DRAG,
            (0, 0, 3): 2.0 * DRAG,
            (0, 3, 3): DRAG,
        },
    )


def diabetes() -> Dataset:
    """Return the diabetes data as a ``Dataset``: 442 patients, 10 measurements, progression.

    Examples
    --------
    >>> patients = diabetes()
    >>> patients.X.shape, patients.input_names[2:6]
    ((442, 10), ('bmi', 'bp', 'tc', 'ldl'))
    """
    table = load_diabetes(scaled=False)
    return Dataset(
        X=np.asarray(table.data, dtype=np.float64),
        y=np.asarray(table.target, dtype=np.float64),
        input_names=("age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu"),
        units=("a", "1", "kg/m^2", "mmHg", "mg/dl", "mg/dl", "mg/dl", "1", "1", "mg/dl"),
        response_name="progression",
        response_unit="",
    )


def load_uci(name: str, *, download: bool = True) -> Dataset:
    """Return one of the paper's eight real data sets.

    They come from six files of the UCI repository:

    - airfoil: 1503 x 5, scaled sound pressure (Brooks, Pope & Marcolini 1989);
    - concrete: 1030 x 8, compressive strength (Yeh 1998);
    - energy_1, energy_2: 768 x 8, heating and cooling load (Tsanas & Xifara 2012);
    - wine_red, wine_white: 1599 and 4898 x 11, quality (Cortez et al. 2009);
    - music_1, music_2: 1059 x 68, latitude and longitude (Zhou, Claire & King 2014).

    The paper counts one row less for airfoil, concrete and music, whose first row it read as a
    header.  In energy, surface area is wall area + 2 roof area, so that monomials are collinear and
    several supports have equal cost.  Random splits put exact duplicates on both sides: 240 records
    of the red wines, 937 of the white, 25 of concrete.

    The file comes from the folder in the environment variable ``POLYSHARP_DATA``, from the cache
    (``$XDG_CACHE_HOME/polysharp`` or ``~/.cache/polysharp``), or from the UCI repository, which
    fills the cache.  Downloads must have the published contents.

    Parameters
    ----------
    name : str
        One of the names above.
    download : bool
        Whether the network may be used.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If the file is not available, or differs from the published one.

    Examples
    --------
    >>> from polysharp.datasets import load_uci
    >>> air = load_uci("airfoil")  # doctest: +SKIP
    >>> air.X.shape, air.response_name  # doctest: +SKIP
    ((1503, 5), 'sound')
    """
    if name not in UCI_TABLES:
        raise InputError(f"name must be one of {', '.join(map(repr, UCI_NAMES))}, got {name!r}")
    row = UCI_TABLES[name]
    table = find_table(row.file, download=download)
    names, units = zip(*row.inputs, strict=True)
    response, _, unit = row.response.partition(" ")
    X = np.ascontiguousarray(table[:, : len(names)])
    return Dataset(X, table[:, row.column].copy(), names, units, response, unit)
