"""Tables that no setting was chosen on, from the Rdatasets collection.

    https://vincentarelbundock.github.io/Rdatasets

A file is looked for in the folder named by POLYSHARP_TABLES (``PACKAGE/NAME.csv`` in it), then
downloaded.  Columns of numbers are kept, without row numbers and those that lack more than three in
ten of their values; then rows with nothing missing.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from polysharp.datasets import Dataset

SOURCE = "https://vincentarelbundock.github.io/Rdatasets/csv"
NO_INPUTS = {"rownames", "id", "case", "site", "pop"}

# The settings of gamma="auto" were chosen on some of these ...
TUNING = {
    "MASS/Boston": "medv", "ISLR/Auto": "mpg", "DAAG/ais": "pcBfat", "MASS/cpus": "perf",
    "datasets/airquality": "Ozone", "modeldata/biomass": "HHV",
    "MedDataSets/bdims_tbl_df": "wgt", "ISLR/Carseats": "Sales", "AER/CASchools": "math",
    "ISLR/College": "Grad.Rate", "DAAG/frogs": "altitude", "MASS/birthwt": "bwt",
    "MASS/UScereal": "calories", "ISLR/Hitters": "Salary", "AER/HousePrices": "price",
    "DAAG/possum": "totlngth", "mosaicData/Utilities": "ccf",
    "OncoDataSets/ProstateSurgery_df": "lpsa", "AER/Electricity1970": "cost",
    "np/oecdpanel": "growth", "MASS/fgl": "RI", "MASS/gilgais": "pH00", "boot/urine": "gravity",
}  # fmt: skip
# ... and nothing on these ...
FURTHER = {
    "mosaicData/SaratogaHouses": "price", "modeldata/car_prices": "Price",
    "modeldata/Sacramento": "price", "ISLR/Credit": "Balance",
    "bayesrules/coffee_ratings_small": "total_cup_points",
}  # fmt: skip
# ... nor on these, which were listed before gamma="auto" had seen any of them.
FRESH = {
    "openintro/fastfood": "calories", "AER/Guns": "violent", "Ecdat/Fatality": "mrall",
    "AER/CigarettesSW": "packs", "carData/Prestige": "prestige",
    "palmerpenguins/penguins": "body_mass_g", "robustbase/ambientNOxCH": "lu",
    "Stat2Data/Hawks": "Weight", "texmex/summer": "O3", "carData/UN": "lifeExpF",
    "openintro/cia_factbook": "life_exp_at_birth", "quantreg/barro": "y.net",
    "openintro/babies": "bwt", "wooldridge/ncaa_rpi": "postrpi", "plm/RiceFarms": "goutput",
    "Ecdat/Produc": "gsp",
}  # fmt: skip
WIDE = {"modeldata/permeability_qsar": "permeability"}


@cache
def load_table(name: str) -> Dataset:
    """Return a table as inputs and response."""
    folder = os.environ.get("POLYSHARP_TABLES")
    local = Path(folder or ".", f"{name}.csv")
    frame = pd.read_csv(local if folder and local.is_file() else f"{SOURCE}/{name}.csv")
    frame = frame.drop(columns=[c for c in frame if c.lower() in NO_INPUTS])
    frame = frame.select_dtypes("number").dropna(axis=1, thresh=int(0.7 * len(frame))).dropna()
    response = (TUNING | FURTHER | FRESH | WIDE)[name]
    y = frame.pop(response).to_numpy(dtype=np.float64)
    frame = frame.loc[:, frame.std() > 0]
    X = frame.to_numpy(dtype=np.float64)
    names = tuple(map(str, frame.columns))
    return Dataset(X, y, names, ("",) * len(names), response, "")
