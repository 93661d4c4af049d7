"""Wide tables as they come: the default search beside the Lasso, nothing else set.

    python -m experiments.wide_tables --quick
    python -m experiments.wide_tables

    compounds        21,263 x 79, a stand-in for a table of superconductors: formulas of one to nine
                     elements, and ten averages over the elements of eight properties, most of them
                     nearly collinear; the response is a quadratic form in the elements' shares
    superconductors  21,263 x 81, the real one (Hamidieh 2018, UCI 464): ``superconduct.csv``, which
                     is called ``train.csv`` there
    genes            71 x 4088, a stand-in for a table of gene expressions: eight factors, noise,
                     and a response that follows five of the genes
    permeability     165 x 1107, a real one (fingerprints of molecules)
    riboflavin       71 x 4088, a real one (gene expressions of B. subtilis; Buehlmann, Kalisch and
                     Meier 2014, in the R package hdi): ``riboflavin.npz`` with X and y

The two files are looked for in the folder named by POLYSHARP_DATA, and tables without one are left
out.  The stand-ins have the shape and the correlations of the tables, and none of their numbers.
A fifth of the rows is for the test; TE is the root mean square error there.  The Lasso is
scikit-learn's ``LassoCV`` on standardised inputs.  On the tables of gene expressions
"five terms" is ``SparsePolynomialRegressor(degree=1, max_terms=5)``, all else as it comes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.rows import Row
from experiments.runner import Cell, Experiment, Plan, main
from experiments.summary import NOTHING, markdown, numbers, where
from experiments.tables import load_table
from polysharp import SparsePolynomialRegressor, SparsePolynomialRegressorCV
from polysharp.metrics import test_error
from polysharp.typing import Array

N_ELEMENTS, N_PROPERTIES = 86, 8


def compounds(seed: int, n: int = 21_263) -> tuple[Array, Array]:
    """Draw formulas, and the averages that tables of materials have."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.standard_normal((N_ELEMENTS, N_PROPERTIES)))
    popular = rng.dirichlet(np.full(N_ELEMENTS, 0.3))
    size = rng.integers(1, 10, n)
    rank = np.argsort(np.log(popular + 1e-12) + rng.gumbel(size=(n, N_ELEMENTS)), axis=1)[:, ::-1]
    share = np.zeros((n, N_ELEMENTS))
    for place in range(9):
        more = np.flatnonzero(size > place)
        share[more, rank[more, place]] = rng.exponential(size=len(more)) + 0.05
    share /= share.sum(axis=1, keepdims=True)
    even = (share > 0) / size[:, None]
    columns = [size.astype(float)]
    for part in values.T:
        inside = np.where(share > 0, part, np.nan)
        for weight in (even, share):
            average = weight @ part
            tilted = weight * part / average[:, None]
            spread = np.sqrt(np.maximum(weight @ part**2 - average**2, 0.0))
            entropy = -np.sum(np.where(tilted > 0, tilted * np.log(tilted + 1e-300), 0.0), axis=1)
            columns += [average, np.exp(weight @ np.log(part)), spread, entropy]
        high, low = np.nanmax(inside, axis=1), np.nanmin(inside, axis=1)
        tilt = share * part
        columns += [high - low, tilt.max(axis=1)]
    B = rng.standard_normal((N_ELEMENTS, N_ELEMENTS)) + 4.0 * rng.standard_normal(N_ELEMENTS)
    signal = np.sum((share @ B) * share, axis=1)
    y = 30.0 * np.maximum(0.0, (signal - np.median(signal)) / signal.std())
    return np.column_stack(columns)[:, :79], y + 8.0 * rng.standard_normal(n)


def genes(seed: int) -> tuple[Array, Array]:
    """Draw expressions that follow a few factors, and a response that follows five of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((71, 8)) @ rng.standard_normal((8, 4088))
    X = X / X.std(axis=0) + rng.standard_normal(X.shape)
    chosen = rng.choice(4088, 5, replace=False)
    signal = X[:, chosen] @ rng.choice([-1.0, 1.0], 5)
    return X, signal / signal.std() + 0.5 * rng.standard_normal(71)


def permeability(seed: int) -> tuple[Array, Array]:
    """Return the table; the seed draws the split alone."""
    del seed
    data = load_table("modeldata/permeability_qsar")
    return data.X, data.y


FILES = {"riboflavin": "riboflavin.npz", "superconductors": "superconduct.csv"}


def file_of(data: str) -> Path:
    """Return where a table is looked for."""
    return Path(os.environ.get("POLYSHARP_DATA", "."), FILES[data])


def riboflavin(seed: int) -> tuple[Array, Array]:
    """Return the table; the seed draws the split alone."""
    del seed
    with np.load(file_of("riboflavin")) as table:
        return table["X"], table["y"]


def superconductors(seed: int) -> tuple[Array, Array]:
    """Return the table; the seed draws the split alone."""
    del seed
    values = np.loadtxt(file_of("superconductors"), delimiter=",", skiprows=1)
    return values[:, :-1], values[:, -1]


DATA: dict[str, Callable[[int], tuple[Array, Array]]] = {
    "compounds": compounds, "superconductors": superconductors, "genes": genes,
    "permeability": permeability, "riboflavin": riboflavin,
}  # fmt: skip


def default(X: Array, y: Array, time_limit: float) -> tuple[Any, dict[str, Any]]:
    """Fit with nothing set."""
    model = SparsePolynomialRegressorCV(time_limit=time_limit, random_state=0).fit(X, y)
    degrees = sorted(set(model.cv_results_["param_degree"]))
    return model, {
        "terms": len(model.polynomial_),
        "degree": model.polynomial_.degree,
        "compared": " ".join(map(str, degrees)),
        "remark": " ".join(model.remarks_),
    }


def lasso(X: Array, y: Array, time_limit: float) -> tuple[Any, dict[str, Any]]:
    """Fit the Lasso to the inputs themselves."""
    del time_limit
    model = make_pipeline(StandardScaler(), LassoCV(cv=5, max_iter=5000)).fit(X, y)
    return model, {"terms": int(np.count_nonzero(model[-1].coef_)), "degree": 1}


def five_terms(X: Array, y: Array, time_limit: float) -> tuple[Any, dict[str, Any]]:
    """Fit five of the inputs themselves."""
    model = SparsePolynomialRegressor(1, 5, time_limit=time_limit, random_state=0).fit(X, y)
    return model, {"terms": len(model.polynomial_), "degree": model.polynomial_.degree}


METHODS: dict[str, Callable[[Array, Array, float], tuple[Any, dict[str, Any]]]] = {
    "default": default,
    "five terms": five_terms,
    "lasso": lasso,
}
LEFT_OUT = {  # what a method has nothing to say about, or no time for
    "five terms": ("compounds", "superconductors", "permeability"),
}


def cells(plan: Plan) -> Iterator[Cell]:
    """List every method on every table that is there."""
    tables = ["genes"] if plan.quick else list(DATA)
    for data in FILES:
        if data in tables and not file_of(data).is_file():
            print(f"{data} is skipped: {file_of(data)} is not there")
            tables.remove(data)
    for seed in plan.seeds:
        for data in tables:
            for method in METHODS:
                if data not in LEFT_OUT.get(method, ()):
                    yield Cell(method, seed, {"data": data})


def run(cell: Cell, time_limit: float) -> dict[str, Any]:
    """Fit four fifths of the rows."""
    X, y = DATA[cell.data["data"]](cell.seed)
    order = np.random.default_rng(cell.seed).permutation(len(y))
    seen, tested = order[: 4 * len(y) // 5], order[4 * len(y) // 5 :]
    began = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, measured = METHODS[cell.method](X[seen], y[seen], time_limit)
    seconds = perf_counter() - began
    return {
        **measured,
        "TE": test_error(y[tested], model.predict(X[tested])),
        "spread": float(np.std(y[tested])),
        "seconds": seconds,
    }


def excess(rows: Sequence[Row], data: str, method: str) -> float | None:
    """Return mean TE over that of the Lasso, on the splits that both have."""
    both = [where(list(rows), data=data, method=m) for m in (method, "lasso")]
    common = set.intersection(*({row["seed"] for row in mine} for mine in both))
    if not common:
        return None
    own, other = (mean(numbers([r for r in m if r["seed"] in common], "TE")) for m in both)
    return own / other


def table(rows: Sequence[Row]) -> str:
    """Return errors, sizes and what was compared, by table and method."""
    lines = []
    for data in DATA:
        for method in METHODS:
            mine = where(list(rows), data=data, method=method)
            if not mine:
                continue
            remarks = dict.fromkeys(row["remark"] for row in mine if row["remark"])
            ratio = excess(rows, data, method)
            lines.append(
                [
                    data,
                    method,
                    str(len(mine)),
                    f"{mean(numbers(mine, 'TE')):.4g}",
                    NOTHING if ratio is None else f"{ratio:.3f}",
                    f"{mean(numbers(mine, 'spread')):.4g}",
                    f"{median(numbers(mine, 'terms')):g} ({max(numbers(mine, 'terms')):g})",
                    ", ".join(dict.fromkeys(row["compared"] or "1" for row in mine)),
                    f"{max(numbers(mine, 'seconds')):.0f}",
                    " ".join(remarks) or "-",
                ]
            )
    header = [
        "table", "method", "splits", "TE", "TE / Lasso's", "standard deviation",
        "terms, median (most)", "degrees compared", "most seconds", "what it said",
    ]  # fmt: skip
    return markdown(header, lines)


EXPERIMENT = Experiment(
    name="wide_tables",
    parameters=("data",),
    measures=("TE", "spread", "terms", "degree", "compared", "remark", "seconds"),
    cells=cells,
    run=run,
    seeds=8,
    tables={"tables": table},
)

if __name__ == "__main__":
    main(EXPERIMENT)
