"""HiGHS as the engines use it: a master as a linear or integer programme."""

from __future__ import annotations

from typing import Any

import numpy as np

from polysharp.engines.base import Run
from polysharp.engines.cutting_planes.master import Cut, Master
from polysharp.errors import load_optional


class HighsModel:
    """A master in HiGHS: its columns and eta, the rows of its rules, then one row for each cut.

    Where columns are not ``binary`` eta is free, which guides early rounds.
    """

    def __init__(self, master: Master, options: dict[str, Any], *, binary: bool) -> None:
        self.api = api = load_optional("highspy", "an engine of cutting planes", "solvers")
        self.master, rules, n = master, master.rules, master.rules.size
        self.cuts: list[Cut] = []
        lp = api.HighsLp()
        lp.num_col_, lp.num_row_ = n + 1, rules.A.shape[0]
        lp.col_cost_ = np.append(np.zeros(n), 1.0)
        lp.col_lower_ = np.append(rules.lower, 0.0 if binary else -api.kHighsInf)
        lp.col_upper_ = np.append(np.ones(n), api.kHighsInf)
        lp.row_lower_ = np.maximum(rules.low, -api.kHighsInf)
        lp.row_upper_ = np.minimum(rules.high, api.kHighsInf)
        lp.a_matrix_.format_ = api.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = rules.A.indptr
        lp.a_matrix_.index_ = rules.A.indices
        lp.a_matrix_.value_ = rules.A.data
        if binary:
            kinds = api.HighsVarType
            lp.integrality_ = [*[kinds.kInteger] * n, kinds.kContinuous]
        self.highs = api.Highs()
        for name, value in {"output_flag": False, **options}.items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(lp)
        for cut in master.cuts:
            self.add(cut)

    def add(self, cut: Cut) -> None:
        """Add a cut."""
        where, values, side = self.master.row(cut)
        index = np.append(where, self.master.rules.size).astype(np.int32)
        values = np.append(values, 1.0)
        self.highs.addRow(side, self.api.kHighsInf, len(index), index, values)
        self.cuts.append(cut)

    def run(self, run: Run) -> bool:
        """Solve in the time that is left; return whether it is solved."""
        if np.isfinite(run.time_left):
            self.highs.setOptionValue("time_limit", run.time_left)
        self.highs.run()
        return bool(self.highs.getModelStatus() == self.api.HighsModelStatus.kOptimal)
