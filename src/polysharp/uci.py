"""The eight rows of the paper's table of real data, from six files of the UCI repository.

    airfoil                1503 x 5    scaled sound pressure    Brooks, Pope & Marcolini 1989
    concrete               1030 x 8    compressive strength     Yeh 1998
    energy_1, energy_2      768 x 8    heating, cooling load    Tsanas & Xifara 2012
    wine_red, wine_white   1599, 4898 x 11    quality           Cortez et al. 2009
    music_1, music_2       1059 x 68   latitude, longitude      Zhou, Claire & King 2014

What to know before using them: the paper counts one row less where its reader took the first one
for a header (airfoil, concrete, music).  In energy, surface area is wall area + 2 roof area, so
monomials are collinear and supports of equal cost exist.  Exact duplicates straddle random
splits: 240 records of the red wines, 937 of the white, 25 of concrete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polysharp.datasets import Dataset
from polysharp.datasets.uci_files import UciFile, find_table
from polysharp.errors import InputError


@dataclass(frozen=True)
class _Row:
    """One row of the table: a file and which of its last columns is the response."""

    file: UciFile
    inputs: str  # "name unit, name unit, ...", in the order of the file
    response: str
    column: int = -1


_AIRFOIL = UciFile(
    "airfoil.csv.gz",
    "291/airfoil+self+noise.zip",
    (1503, 6),
    ("11fab2c660f61031935f9995d27929df39a175d3551271b397c8aa254b19b6b6",),
    member="airfoil_self_noise.dat",
    delimiter="\t",
    header=False,
)
_CONCRETE = UciFile(
    "concrete.csv.gz",
    "165/data.csv",
    (1030, 9),
    (
        "8b9a7af0366e0f437ad04cfba6bb729ec0c3ea76fa780ff3d3f4d057356b6af6",
        # UCI's own CSV is rounded; the spreadsheet beside it is not.  Checked as bytes.
        "8d4b15b6fc68cd932d745cbd663d5ceae66dd54422e99c1e4865f2936ab7e2af",
    ),
)
_ENERGY = UciFile(
    "energy_efficiency.csv.gz",
    "242/data.csv",
    (768, 10),
    ("9911e8d48851b4c8189c02346a26d6f42eadf7a56c43ccc4331f7ab9c4f75fa4",),
)
_WINE_RED = UciFile(
    "wine_quality_red.csv.gz",
    "186/wine+quality.zip",
    (1599, 12),
    ("d4f6a6d672e0ee31d41fdd93b4b58985b45a31f2f971499c18137c42229278ac",),
    member="winequality-red.csv",
    delimiter=";",
)
_WINE_WHITE = replace(
    _WINE_RED,
    name="wine_quality_white.csv.gz",
    shape=(4898, 12),
    checksums=("8cc6071e55becf6ae84cdad82ef0b43ede7f74e6d85599fa8098d98b15f47b9d",),
    member="winequality-white.csv",
)
_MUSIC = UciFile(
    "music_origin.csv.gz",
    "315/geographical+original+of+music.zip",
    (1059, 70),
    ("62edd48c45991c7d7e89609d17cea5d7a0fad40a6d679720fbb5243a8d3c732e",),
    member="default_features_1059_tracks.txt",
    header=False,
)

_AIR = "frequency Hz, angle deg, chord m, velocity m/s, thickness m"
_MIX = (
    "cement kg/m^3, slag kg/m^3, ash kg/m^3, water kg/m^3, plasticizer kg/m^3, coarse kg/m^3, "
    "fine kg/m^3, age d"
)
_HOUSE = (
    "compactness 1, surface m^2, wall m^2, roof m^2, height m, orientation 1, glazing 1, "
    "distribution 1"
)
_WINE = (
    "fixed_acidity g/dm^3, volatile_acidity g/dm^3, citric_acid g/dm^3, sugar g/dm^3, "
    "chlorides g/dm^3, free_so2 mg/dm^3, total_so2 mg/dm^3, density g/cm^3, pH 1, "
    "sulphates g/dm^3, alcohol %"
)
_SOUND = ", ".join(f"V{i} 1" for i in range(1, 69))

_ROWS = {
    "airfoil": _Row(_AIRFOIL, _AIR, "sound dB"),
    "concrete": _Row(_CONCRETE, _MIX, "strength MPa"),
    "energy_1": _Row(_ENERGY, _HOUSE, "heating kWh/m^2", -2),
    "energy_2": _Row(_ENERGY, _HOUSE, "cooling kWh/m^2"),
    "wine_red": _Row(_WINE_RED, _WINE, "quality"),
    "wine_white": _Row(_WINE_WHITE, _WINE, "quality"),
    "music_1": _Row(_MUSIC, _SOUND, "latitude deg", -2),
    "music_2": _Row(_MUSIC, _SOUND, "longitude deg"),
}

UCI_NAMES = tuple(_ROWS)


def load_uci(name: str, *, download: bool = True) -> Dataset:
    """Return one of the paper's real data sets.

    The file is looked for in the folder named by the environment variable ``POLYSHARP_DATA``,
    then in the cache (``$XDG_CACHE_HOME/polysharp`` or ``~/.cache/polysharp``), and then
    downloaded from the UCI repository into the cache.  What is downloaded or cached must have
    the published contents.

    Parameters
    ----------
    name : str
        "airfoil", "concrete", "energy_1", "energy_2", "wine_red", "wine_white", "music_1" or
        "music_2".
    download : bool
        Whether the network may be used.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        Where the file is nowhere to be had, or not what was published.

    Examples
    --------
    >>> from polysharp.uci import load_uci
    >>> air = load_uci("airfoil")  # doctest: +SKIP
    >>> air.X.shape, air.response_name  # doctest: +SKIP
    ((1503, 5), 'sound')
    """
    if name not in _ROWS:
        raise InputError(f"name must be one of {', '.join(map(repr, UCI_NAMES))}, got {name!r}")
    row = _ROWS[name]
    table = find_table(row.file, download=download)
    names, units = zip(*(column.split() for column in row.inputs.split(", ")), strict=True)
    response, _, unit = row.response.partition(" ")
    X = np.ascontiguousarray(table[:, : len(names)])
    return Dataset(X, table[:, row.column].copy(), names, units, response, unit)
