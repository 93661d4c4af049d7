"""Write the awkward tables of the page *A first use*, with laws that are known.

python docs/first_use/make_tables.py
"""

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parent


def pump(rng: np.random.Generator) -> None:
    """Two lines above the names, a line of units below them, an empty last column."""
    speed, gap = rng.uniform(600, 1800, 90), rng.uniform(0.2, 1.2, 90)
    head = 4.1e-5 * speed**2 - 9.5 * gap + rng.normal(0, 0.8, 90)
    rows = [f"{n:.0f},{g:.2f},{h:.1f}," for n, g, h in zip(speed, gap, head, strict=True)]
    lines = ["# test bench 3", "# 14 May", "speed,gap,head,", "1/min,mm,m,", *rows]
    (FOLDER / "pump.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def rents(rng: np.random.Generator) -> None:
    """Districts of many names, and a copied and a constant column."""
    names = [f"district {i}" for i in range(1, 25)]
    share = np.array([12, 10, 8, *[3] * 7, *[1] * 14], float)
    district = rng.choice(names, 400, p=share / share.sum())
    area, year = rng.uniform(25, 120, 400), rng.integers(1920, 2024, 400)
    dear = np.where(district == "district 1", 3.2, np.where(district == "district 3", 1.6, 0.0))
    rent = 140 + 8.4 * area + dear * area + 0.9 * (year - 1920) + rng.normal(0, 30, 400)
    table = pd.DataFrame({"district": district, "area": area.round(1), "year": year})
    table["area (copy)"], table["city"] = table["area"], "Graz"
    table.assign(rent=rent.round(2)).to_csv(FOLDER / "rents.csv", index=False)


def weather(rng: np.random.Generator) -> None:
    """-999 where a sensor was silent, and a word where somebody wrote it by hand."""
    wind, humidity = rng.uniform(0, 12, 150), rng.uniform(30, 95, 150)
    sun = rng.uniform(0, 900, 150)
    loss = 0.31 * sun**0.5 + 0.052 * wind * (100 - humidity) + rng.normal(0, 1.0, 150)
    table = pd.DataFrame(
        {"wind": wind.round(1), "humidity": humidity.round(0), "sun": sun.round(0)}
    )
    table = table.astype(object).assign(evaporation=loss.round(2))
    table.loc[[3, 40, 41, 97], "humidity"], table.loc[[10, 77], "wind"] = -999, "n/a"
    table.to_csv(FOLDER / "weather.csv", index=False)


def tank(rng: np.random.Generator) -> None:
    """Excel: a title, and names over two rows because of merged cells."""
    inlet, outlet = rng.uniform(20, 60, 80), rng.uniform(15, 45, 80)
    flow = rng.uniform(0.5, 3.0, 80)
    heat = 4.18 * flow * (inlet - outlet) + rng.normal(0, 1.5, 80)
    rows = np.column_stack([inlet.round(1), outlet.round(1), flow.round(2), heat.round(1)])
    head = [["Heat exchanger", None, None, None], ["temperature", None, "flow", "heat"]]
    head.append(["in", "out", "kg/s", "kW"])
    pd.DataFrame([*head, *rows.tolist()]).to_excel(FOLDER / "tank.xlsx", header=False, index=False)


if __name__ == "__main__":
    for seed, write in enumerate((pump, rents, weather, tank)):
        write(np.random.default_rng(seed))
