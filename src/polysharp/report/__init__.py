"""A report on a fitted model: one HTML file that needs nothing else.

Formula, certificate in plain words, terms, accuracy against size, predictions, residuals, inputs,
response curves, interactions, data, and how to do it again.  The file loads nothing from
anywhere and runs no script, and says so to the browser in its content security policy; figures are
drawn in the page's own colours, so that light, dark and print all look right.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polysharp.estimators.path import Path
    from polysharp.estimators.stability import Stability

__all__ = ["render_report", "write_report"]


def render_report(
    model: Any,
    X: Any,
    y: Any,
    *,
    path: Path | None = None,
    title: str | None = None,
    command: str | None = None,
    sample_weight: Any = None,
    stability: Stability | None = None,
) -> str:
    """Return the report as text; the parameters are those of ``write_report``."""
    from polysharp.report.facts import Facts
    from polysharp.report.page import page

    return page(
        Facts.of(
            model,
            X,
            y,
            path=path,
            title=title,
            command=command,
            sample_weight=sample_weight,
            stability=stability,
        )
    )


def write_report(
    model: Any,
    X: Any,
    y: Any,
    file: str | PathLike[str],
    *,
    path: Path | None = None,
    title: str | None = None,
    command: str | None = None,
    sample_weight: Any = None,
    stability: Stability | None = None,
) -> None:
    """Write a report on a fitted model as one self-contained HTML file.

    Parameters
    ----------
    model : SparsePolynomialRegressor or SparsePolynomialRegressorCV
        A fitted model.
    X, y : table of shape (n, p), array of shape (n,)
        Rows on which the model is shown: those of the fit, or better others.
    file : str or path
        Where to write; the folder must exist.
    path : Path or None
        What ``polysharp.path`` returned, for the curve of accuracy against size.
    title : str or None
        Heading of the report.
    command : str or None
        Command line that made the model, shown under "How to reproduce it".
    sample_weight : array of shape (n,) or None
        Weights of the rows.
    stability : Stability or None
        What ``polysharp.stability`` returned, for the share of resamples that pick each term.

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
    written = render_report(
        model,
        X,
        y,
        path=path,
        title=title,
        command=command,
        sample_weight=sample_weight,
        stability=stability,
    )
    FilePath(file).write_text(written, encoding="utf-8")
