"""A report on a fitted model: one HTML file that needs nothing else.

Formula, certificate in plain words, terms, rivals, accuracy against size, predictions, residuals,
inputs, response curves, interactions, data, and how to do it again.  The file loads nothing from
anywhere and runs no script, and says so to the browser in its content security policy; figures are
drawn in the page's own colours, so that light, dark and print all look right.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from polysharp.data.files import write_file

if TYPE_CHECKING:
    from polysharp.estimators.path import Path
    from polysharp.estimators.resampling import Stability
    from polysharp.estimators.rivals_found import Rivals
    from polysharp.report.peers import Assessment, Peer

__all__ = ["render_report", "write_report"]

# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class About(TypedDict, total=False):
    """What a report can be told beside the model and the rows; ``write_report`` says it."""

    path: Path | None
    title: str | None
    command: str | None
    sample_weight: Any
    stability: Stability | None
    held_out: Sequence[Any] | None
    peers: Sequence[Peer]
    rivals: Rivals | None
    verdict: Assessment | None


def render_report(model: Any, X: Any, y: Any, **about: Unpack[About]) -> str:
    """Return the report as text; the parameters are those of ``write_report``."""
    from polysharp.report.report_data import ReportData

    return str(_template().render(report=ReportData.of(model, X, y, **about)))


def write_report(
    model: Any, X: Any, y: Any, file: str | PathLike[str], **about: Unpack[About]
) -> None:
    """Write a report on a fitted model as one self-contained HTML file.

    Parameters
    ----------
    model : SparsePolynomialRegressor, SparsePolynomialRegressorCV, or theirs for several responses
        A fitted model.
    X, y : table of shape (n, p), array of shape (n,) or table with a column per response
        Rows on which the model is shown: those of the fit, or better others.
    file : str or path
        Where to write; the folder must exist.
    **about
        What else is known, each by its name:

        path : Path
            What ``polysharp.path`` returned, for the curve of accuracy against size.
        title : str
            Heading of the report.
        command : str
            Command line that made the model, shown under "How to reproduce it".
        sample_weight : array of shape (n,)
            Weights of the rows.
        stability : Stability
            What ``polysharp.stability`` returned, for the share of resamples that pick each term.
        held_out : (X, y) or (X, y, sample_weight)
            Rows that were kept out of the fit, shown beside those of the fit.
        peers : sequence of Peer
            What ``polysharp.report.peers.compare_peers`` returned: the errors of other methods.
        rivals : Rivals
            What ``polysharp.rivals`` returned, for the formulas that come close.
        verdict : Assessment
            For several responses, what ``polysharp.report.peers.assess_responses`` returned; the
            verdict on one response is formed from path, peers and held-out rows.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from polysharp import SparsePolynomialRegressor
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> model = SparsePolynomialRegressor(2, 2, engine="enumeration").fit(X, X[:, 0] * X[:, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, X, X[:, 0] * X[:, 1], Path(folder) / "report.html")
    ...     text = (Path(folder) / "report.html").read_text(encoding="utf-8")
    >>> "<h1>A formula for y</h1>" in text, "://" in text
    (True, False)
    """
    write_file(file, render_report(model, X, y, **about))


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from polysharp import wording
    from polysharp._version import __version__
    from polysharp.report import figures, markup, sections, sentences

    environment = Environment(
        autoescape=True,
        finalize=markup.printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = ("number", "at_most", "percent", "share", "r_squared")
    environment.filters |= {name: getattr(wording, name) for name in filters}
    environment.filters["variable"] = lambda name: markup.tag("var", name)
    own = files("polysharp.report")
    environment.globals |= {
        **{"figures": figures, "markup": markup, "sections": sections, "sentences": sentences},
        **{"plural": wording.plural, "plus_minus": wording.plus_minus, "today": date.today},
        **{"policy": POLICY, "version": __version__},
        # The style sheet is the package's own text; it holds no "</".
        "style": Markup(own.joinpath("style.css").read_text(encoding="utf-8")),
    }
    source = own.joinpath("page.html").read_text(encoding="utf-8")
    # Sentences that go over several lines of the template are one line of the page.
    return environment.from_string(re.sub(r"(?<!>)(?<!%})(?<!#})\n(?=\S)", " ", source))
