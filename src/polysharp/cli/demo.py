"""The demonstration, ``make demo``: two tables, two formulas, two certificates, one plot.

First the planted law of ``datasets.cycling``, whose five terms are known and must come back out
of 12 inputs and 454 monomials; then scikit-learn's diabetes data, where nobody knows the law.
Each model stands beside ridge regression and the lasso on the same monomials, judged on rows that
none of them has seen.  No setting was chosen on those rows either: ridge and lasso cross-validate
their penalties on the training rows, and so was gamma = 1 for the diabetes data found, among 0.01,
0.1, 1 and 10 (tests/test_demo.py does it again); for the rides 1 and 10 predict alike, and 1 is
the quicker proof.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from polysharp.cli.command import ExitCode
from polysharp.cli.tables import check_outputs, need, write_table
from polysharp.data.files import replacement
from polysharp.datasets import Dataset, cycling, diabetes
from polysharp.estimators.regressor import SparsePolynomialRegressor
from polysharp.metrics import test_error
from polysharp.monomials.basis import count_monomials
from polysharp.plots import plot_predictions
from polysharp.plots.model_plots import BOUND, INK, MODEL, tidy
from polysharp.polynomial.polynomial import Polynomial
from polysharp.wording import NBSP

PEERS = {
    "ridge, all monomials": RidgeCV(np.logspace(-6, 4, 41)),
    "lasso, all monomials": LassoCV(cv=5, random_state=0),
}


class Score(NamedTuple):
    """One row of the comparison: size of a model and its error on held-out rows."""

    method: str
    terms: int
    inputs: int
    error: float


class Story(NamedTuple):
    """One data set, its model, the rows held out and the comparison on them."""

    data: Dataset
    model: SparsePolynomialRegressor
    X_test: Any
    y_test: Any
    scores: list[Score]

    @property
    def formula(self) -> Polynomial:
        """The polynomial found, in the names of the table."""
        names, response = self.data.input_names, self.data.response_name
        return replace(self.model.polynomial_, names=names, response=response)

    @property
    def unit(self) -> str:
        """The unit of the response, as it stands behind its name."""
        return f" ({self.data.response_unit})" if self.data.response_unit else ""


def split(data: Dataset) -> list[Any]:
    """Hold out a quarter of the rows; return X and y, each before its held-out rows."""
    return list(train_test_split(data.X, data.y, test_size=0.25, random_state=0))


def tell(data: Dataset, model: SparsePolynomialRegressor) -> Story:
    """Fit the model and its two peers on the same rows."""
    X, X_test, y, y_test = split(data)
    found = model.fit(X, y).polynomial_
    error = test_error(y_test, model.predict(X_test))
    scores = [Score("polysharp", len(found), len(found.inputs), error)]
    for method, regressor in PEERS.items():
        monomials = PolynomialFeatures(model.degree, include_bias=False)
        pipeline = make_pipeline(monomials, StandardScaler(), regressor).fit(X, y)
        used = monomials.powers_[regressor.coef_ != 0.0]
        error = test_error(y_test, pipeline.predict(X_test))
        scores.append(Score(method, len(used), int((used > 0).any(axis=0).sum()), error))
    return Story(data, model, X_test, y_test, scores)


def run(out: Console, data: Dataset, model: SparsePolynomialRegressor, title: str) -> Story:
    """Fit one data set and print what was found."""
    (n, p), monomials = data.X.shape, count_monomials(data.X.shape[1], model.degree) - 1
    out.print(f"\n[bold]{title}[/bold]")
    out.print(
        f"{n} rows, {p} inputs, {monomials} monomials of degree up to {model.degree}; wanted: "
        f"the best {model.max_terms} of them in {model.max_inputs} inputs (gamma {model.gamma:g})"
    )
    with warnings.catch_warnings():
        # The certificate says how far the proof came; coordinate descent of the lasso may stop
        # short of its tolerance at the smallest penalties.
        warnings.simplefilter("ignore", ConvergenceWarning)
        story = tell(data, model)
    found = story.formula
    out.print(f"\n  [bold]{found}[/bold]\n")
    out.print(f"{model.solution_}\n")
    if data.law is not None:
        planted = dict(zip(found.names_of(list(data.law)), data.law.values(), strict=True))
        terms = [planted, dict(zip(found.term_names, found.coefficients, strict=True))]
        rows = [
            (name, *(f"{c[name]:.4g}" if name in c else "-" for c in terms))
            for name in dict.fromkeys([*terms[0], *terms[1]])
        ]
        out.print(_table(("term", "planted", "found"), rows), "")
    heading = f"error on {len(story.y_test)} held-out rows{story.unit}"
    rows = [(*map(str, score[:3]), f"{score.error:.4g}") for score in story.scores]
    out.print(_table(("method", "terms", "inputs", heading), rows))
    return story


def _table(headings: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(headings[0], box=None, header_style="bold", padding=(0, 2))
    for heading in headings[1:]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def save_plot(stories: Sequence[Story], path: Path) -> None:
    """Draw formula, certificate, predictions and comparison of every story, one row each."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.0, 3.9 * len(stories)), layout="constrained")
    for story, panel in zip(stories, figure.subfigures(len(stories), squeeze=False), strict=True):
        left, right = panel[0].subplots(1, 2)
        name = story.data.response_name + story.unit
        plot_predictions(story.y_test, story.model.predict(story.X_test), ax=left, name=name)
        left.set_title(f"{len(story.y_test)} rows that were not in the fit", fontsize="medium")
        for score, colour in zip(story.scores, (MODEL, INK, BOUND), strict=True):
            right.plot(score.terms, score.error, "o", ms=9, color=colour)
            right.annotate(
                f"{score.method.split(',')[0]}, {score.terms} terms",
                (score.terms, score.error),
                xytext=(0, -20 if score is story.scores[0] else 10),
                textcoords="offset points",
                ha="center",
                color=colour,
            )
        right.set_xscale("log")
        right.margins(x=0.35)
        right.set_ylim(0.0, 1.25 * max(score.error for score in story.scores))
        tidy(right, "terms of the formula", f"error{story.unit}")
        right.set_title("the same rows, other methods", fontsize="medium")
        # Broken between terms: blanks within a term do not count.
        terms = str(story.formula).replace(" ", NBSP)
        for sign in "+-":
            terms = terms.replace(f"{NBSP}{sign}{NBSP}", f" {sign} ")
        verdict = f"{story.model.solution_.status}, gap {100 * story.model.solution_.gap:.2f} %"
        panel[0].suptitle("\n".join([*wrap(terms, 92), verdict]), fontsize="medium")
    with replacement(path) as place:
        figure.savefig(place, dpi=110)


def demonstrate(output: str, time_limit: float = 60.0) -> None:
    """Fit both data sets, print what was found, and draw it."""
    out = Console(highlight=False, soft_wrap=True)
    limits: Any = {"gamma": 1.0, "time_limit": time_limit, "verbose": 1}
    rides = SparsePolynomialRegressor(degree=3, max_terms=5, max_inputs=4, **limits)
    patients = SparsePolynomialRegressor(degree=2, max_terms=6, max_inputs=5, **limits)
    stories = [
        run(out, cycling(), rides, "1. A planted law: the power a cargo bicycle needs"),
        run(out, diabetes(), patients, "2. Real data: progression of diabetes"),
    ]
    save_plot(stories, Path(output))
    out.print(f"\nThe plot is in {Path(output).resolve()}")


def run_demo(options: Namespace) -> int:
    """Run the demonstration, or write its table."""
    check_outputs(options, "output" if options.table is None else "table", reads=())
    if options.table is None:
        need("matplotlib", "the demo's picture")
        demonstrate(options.output, options.time_limit)
        return ExitCode.DONE
    rides = cycling()
    frame = need("pandas", "writing tables").DataFrame(rides.X, columns=rides.input_names)
    write_table(frame.assign(**{rides.response_name: rides.y}), options.table)
    if options.table != "-":
        print(f"wrote {len(rides.y)} rides to {options.table}; the target is {rides.response_name}")
    return ExitCode.DONE
