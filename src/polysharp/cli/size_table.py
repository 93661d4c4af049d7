"""The best formula of other sizes: its objective, what is proved of it, its error on new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polysharp.estimators.model import settings_of
from polysharp.estimators.path import Path, path
from polysharp.plots.path_plots import curves_of
from polysharp.report.peers import Peer
from polysharp.wording import rounded_up

AROUND = 4  # sizes to either side of the model's
WORTH = 0.05  # part of the error that a higher degree must gain to be worth a hint
EXACT = 1.0 - 1e-6  # R2 of a law without noise: what is left is the ridge's bias
SECONDS = 2.0  # for the proofs of all these sizes: what is not proved by then is a looser ceiling


def sizes_near(model: Any, sample: Any, cv: int | None, *, smaller: bool = False) -> Path:
    """Return the best formulas of sizes near the model's, or of all ``smaller`` ones, too."""
    own = int(settings_of(model)["max_terms"])
    least = 1 if smaller else max(1, own - AROUND)
    return path_of(model, sample, range(least, own + AROUND + 1), SECONDS, cv)


def path_of(
    model: Any, sample: Any, sizes: Any, seconds: float, cv: int | None, verbose: int = 0
) -> Path:
    """Return the best formula of every size under the settings of a model."""
    known = settings_of(model)
    # Engine, device and "every input" are what one model was worth; here many are compared.
    given = {**known, "gamma": model.gamma_, "refit_gamma": model.refit_gamma_}
    given |= {"max_terms": sizes, "engine": "auto", "device": None}
    given |= {"n_candidates": known["n_candidates"] or "auto", "time_limit": seconds}
    folds = None if cv is None else min(cv, len(sample))
    given |= {"verbose": verbose, "cv": folds}
    return path(*sample.given, **given)


def comparison(model: Any, sizes: Path, peers: Sequence[Peer]) -> str:
    """Return a table of sizes, the model's own marked, and the errors of other methods.

    The file of ``--size-table`` has objectives and bounds as well.
    """
    known = settings_of(model)
    own = int(known["max_terms"])
    # The model's own proof had more time than that of the path.
    ceilings = sizes.r2_ceilings({(known["max_inputs"], own): model.solution_.bound})
    lines = [f"  {'terms':>5}  {'error on rows not seen':>22}  {'R2 at most':>10}"]
    for before, point in zip([None, *sizes], sizes, strict=False):
        if before and point.max_terms > own and point.n_terms == before.n_terms:
            continue  # there is no term left to add
        limit = ceilings[point.max_inputs, point.max_terms]
        ceiling = "-" if limit is None or limit >= 1.0 else rounded_up(limit)
        mark, error = (
            ">" if point.max_terms == own else " ",
            error_of(model, sizes, point.max_terms),
        )
        lines.append(f"{mark} {point.max_terms:>5}  {error:>22}  {ceiling:>10}")
    others = "; ".join(f"{peer.name} {peer.error:.4g} ± {peer.std_error:.2g}" for peer in peers)
    lines.append(f"errors on rows not seen: this formula {error_of(model, sizes, own)}; {others}")
    return "\n".join([*lines, *at_higher_degree(model)])


def error_of(model: Any, sizes: Path, size: int) -> str:
    """Return the error of a size on rows not seen, in words."""
    known = curves_of(model, sizes)[0].measured(size)
    return "-" if known is None else f"{known[0]:.4g} ± {known[1]:.2g}"


def at_higher_degree(model: Any) -> list[str]:
    """Say where the error still falls at the highest degree that was compared."""
    if not hasattr(model, "cv_results_") or model.remarks_:  # higher ones were out of reach
        return []
    results = model.cv_results_
    error = -np.asarray(results["mean_test_score"], dtype=np.float64)
    degrees = np.asarray(results["param_degree"], dtype=np.intp)
    best = {d: np.nanmin(error[degrees == d]) for d in set(degrees[np.isfinite(error)].tolist())}
    if len(best) < 2:
        return []
    *_, lower, highest = sorted(best)
    at = int(np.flatnonzero(error == best[highest])[0])
    noise = float(results["std_test_score"][at]) / max(1, model.n_splits_ - 1) ** 0.5
    falls = best[lower] - best[highest] > max(noise, WORTH * best[lower])
    exact = (model.solution_.r2 or 0.0) > EXACT
    if model.best_params_["degree"] < highest or not falls or exact:
        return []
    return [
        f"the error still falls at degree {highest}, the highest compared "
        f"({best[lower]:.4g} at degree {lower}, {best[highest]:.4g} at degree {highest}): "
        f"try --degree {highest + 1}"
    ]
