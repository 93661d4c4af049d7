"""The accuracy-versus-size curve: the best polynomial for every number of terms.

For l = 1, 2, ..., and for every k where several are asked for,

    min  1/2 sum_t v_t (y_t - b - m(u_t)'w)^2 + lam/2 |w|^2   with at most l monomials, k inputs.

The moments are computed once.  Local search walks all sizes first (``growth``), then the engine
takes them one by one, each from the better of two starts: what local search found, and the model of
one term less.  The objective can therefore not rise with l.  A size gets an equal share of the time
that is left, and what it does not use goes to those after it.

With ``cv`` every size is also judged on rows it has not seen: in each split local search walks the
sizes on the training moments (no proof is needed there), and the error is a quadratic form in the
moments of the validation rows.  Errors are root mean squares, in the units of y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from polysharp.errors import InputError
from polysharp.polynomial import Polynomial
from polysharp.solution import Solution, Status


@dataclass(frozen=True, eq=False)
class PathPoint:
    """The best polynomial of one size.

    Parameters
    ----------
    max_terms : int
        The budget l; the polynomial may have fewer terms.
    max_inputs : int or None
        The budget k, None for no limit.
    polynomial : Polynomial
        The formula, in the user's names and units.
    solution : Solution
        The certificate.
    training_error : float
        Root mean squared error on the rows of the fit.
    validation_error : float or None
        Mean over the splits of the root mean squared error on held-out rows; None without ``cv``.
    validation_std_error : float or None
        Standard error of that mean.
    """

    max_terms: int
    max_inputs: int | None
    polynomial: Polynomial
    solution: Solution
    training_error: float
    validation_error: float | None = None
    validation_std_error: float | None = None

    @property
    def n_terms(self) -> int:
        """Number of terms of the polynomial."""
        return len(self.polynomial)

    @property
    def n_inputs(self) -> int:
        """Number of inputs that the polynomial uses."""
        return len(self.polynomial.inputs)

    @property
    def objective(self) -> float:
        """Objective of the polynomial."""
        return self.solution.objective

    @property
    def bound(self) -> float:
        """What no polynomial of this size can go below."""
        return self.solution.bound

    @property
    def gap(self) -> float:
        """(objective - bound) / objective."""
        return self.solution.gap

    @property
    def status(self) -> Status:
        """What is proved about the objective."""
        return self.solution.status


@dataclass(frozen=True, eq=False)
class Path(Sequence[PathPoint]):
    """Polynomials of growing size; an ordinary sequence of ``PathPoint``.

    Parameters
    ----------
    points : tuple of PathPoint
        By max_inputs, then by max_terms.
    degree : int
        Largest degree of a monomial.
    gamma : float
        The ridge is 1 / gamma.
    center : bool
        Whether the formulas are in coded variables (x - mean).
    n_splits : int
        Splits of the validation, 0 without.
    """

    points: tuple[PathPoint, ...]
    degree: int
    gamma: float
    center: bool
    n_splits: int = 0

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, a: Any) -> Any:
        return self.points[a]

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self.points)

    def best(self, rule: str = "one-se") -> PathPoint:
        """Return the point to use.

        Parameters
        ----------
        rule : {"one-se", "best"}
            "best" has the smallest validation error; "one-se" the fewest terms (then inputs) among
            those whose error is within one standard error of the smallest.
        """
        if rule not in ("one-se", "best"):
            raise InputError(f"rule must be 'one-se' or 'best', got {rule!r}")
        judged = [p for p in self.points if p.validation_error is not None]
        if not judged:
            raise InputError(
                "best needs validation errors: call path with cv=5, got a path without"
            )
        lowest = min(judged, key=lambda p: p.validation_error or 0.0)
        if rule == "best":
            return lowest
        limit = (lowest.validation_error or 0.0) + (lowest.validation_std_error or 0.0)
        close = [p for p in judged if (p.validation_error or 0.0) <= limit]
        return min(close, key=lambda p: (p.n_terms, p.n_inputs, p.validation_error))

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per point."""
        import pandas as pd

        return pd.DataFrame([_row(p) for p in self.points])

    def __str__(self) -> str:
        """Return a table, one line per size."""
        judged = any(p.validation_error is not None for p in self.points)
        limited = any(p.max_inputs is not None for p in self.points)
        head = f"{'terms':>5}" + (f" {'inputs':>6}" if limited else "")
        head += f" {'objective':>11} {'gap %':>8} {'status':<8} {'train RMSE':>10}"
        head += f" {'validation RMSE':>18}" if judged else ""
        return "\n".join([head, *(_line(p, limited, judged) for p in self.points)])


def _row(p: PathPoint) -> dict[str, Any]:
    return {
        "max_terms": p.max_terms,
        "max_inputs": p.max_inputs,
        "n_terms": p.n_terms,
        "n_inputs": p.n_inputs,
        "objective": p.objective,
        "bound": p.bound,
        "gap": p.gap,
        "status": str(p.status),
        "training_error": p.training_error,
        "validation_error": p.validation_error,
        "validation_std_error": p.validation_std_error,
        "formula": str(p.polynomial),
    }


def _line(p: PathPoint, limited: bool, judged: bool) -> str:
    text = f"{p.max_terms:>5}" + (f" {p.max_inputs or '-':>6}" if limited else "")
    text += f" {p.objective:>11.6g} {100 * p.gap:>8.3g} {p.status:<8} {p.training_error:>10.4g}"
    if judged and p.validation_error is not None:
        text += f" {p.validation_error:>10.4g} ± {p.validation_std_error or 0.0:<5.2g}"
    return text
