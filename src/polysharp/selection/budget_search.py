"""The search over budgets: degrees from low to high, and for each the ridges that matter.

At one degree, in one coding of the inputs, models of every size are found in every split for one
gamma after another (``split_models``).  Which gammas: those that the user lists, or else, from the
middle of a grid of decades,

    weaker and weaker ridges until the error no longer falls, then stronger ones likewise.

Sizes beyond ``FEW_TERMS`` are compared where the error still falls there.  Limits on many inputs
are compared with the best ridge of a degree that lowers the error.  Centred inputs come after raw
ones, and not at all where centring changes nothing (degree 1) or nothing is left to gain (the law
is found).

A law may be one long product, or the sum of a few, and no polynomial of low degree comes near to
it: then models of few terms get better with every degree, and would get better still with more
terms.  As long as they do, ``degree="auto"`` goes on beyond the degrees of which all is compared,
with models of few terms in the inputs as they are; what it finds there counts where it is better
than everything else, beyond doubt.

Time is kept for every degree: one may take half of what is left, in which moments, screening and
models must fit; what a low degree leaves goes to the higher ones.  This time is not read from a
clock but added up from the work that is done, at stated rates (``WorkClock``): the same call
compares the same models on every machine that is not much slower than those rates say.  Where it
is, the clock of the time limit cuts the comparison short, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isqrt

import numpy as np

from polysharp.errors import InfeasibleError, TooLargeError
from polysharp.moments.moments import Moments, RandomFolds
from polysharp.monomials.basis import Basis
from polysharp.selection.folds import RATE, FoldMoments, Folds, KnownSums, WorkClock
from polysharp.selection.scores import NOTHING, Case, Scores, SelectionRule
from polysharp.selection.split_models import Budgets, SplitModels, Workers
from polysharp.time_budget import TimeBudget
from polysharp.typing import Monomial

SHARES = tuple(10.0**-e for e in range(10))  # gamma="auto": ridges relative to the rows
LINEAR_SHARES = tuple(10.0 ** (-e / 2) for e in (*range(-3, 5), 6, 8))  # likewise, on few rows
MIDDLE = 3  # where the comparison of ridges begins: best, or next to it, on most tables
FALLS = 0.998  # an error must fall below this share of the least so far to count as falling
FEW_TERMS = 30  # sizes that are compared in any case
BEHIND = 1.25  # an error with few terms that exceeds the least so far by this much stays behind
LAST_SHARE = 0.7  # of the sizes compared: a best size beyond it says that more may be better
HIGHEST = 5  # of degree="auto", for models of any size
SCREENED = 4  # likewise, where monomials are too many to be listed
SHORT = 5  # terms of the models that are compared beyond
GAIN = 0.9  # what the error of short models must fall to with every degree, to go on
MONOMIALS_PER_ROW = 5  # at most, if rows are few
SHORTLISTED = 1200  # monomials that they are found among
MANY_INPUTS = 10  # from which on formulas in few of them are compared, too
LIMITS = (10, 5)  # on the inputs of these: all sets of five are often bounded in seconds
DEGREE_SHARE = 0.5  # of the time left, that one degree may take
MOMENT_SHARE = 0.35  # of a degree's time, for the moments of its monomials


@dataclass(frozen=True)
class Wanted:
    """What the user wants compared; None for what the search finds worth it."""

    degrees: tuple[int, ...] | None
    gammas: tuple[float, ...] | None
    centers: tuple[bool, ...]
    budgets: Budgets
    limits: bool = False  # on the number of inputs, wherever there are many


@dataclass(eq=False)
class BudgetSearch:
    """Compares, and remembers what was compared."""

    folds: Folds
    wanted: Wanted
    workers: Workers
    time: TimeBudget  # the first case is compared in any case
    seconds: float = np.inf  # that the comparison may take at the stated rates
    work: WorkClock = field(default_factory=WorkClock)
    done: list[Scores] = field(default_factory=list)
    sums: dict[tuple[int, bool], tuple[Basis, Moments | None]] = field(default_factory=dict)
    cut_short: int | None = None  # the last degree that was not compared to its end
    remarks: list[str] = field(default_factory=list)
    interrupted: bool = False

    def run(self) -> Scores:
        """Compare degree after degree; return the errors of all candidates.

        An interrupt ends the comparison; what was compared before counts, if there is any.
        """
        try:
            self._compare()
        except KeyboardInterrupt:
            if not self.done:
                raise
            self.interrupted = True
            self.remarks.append(
                f"The comparison was interrupted at degree {max(self.compared)}: the formula is "
                "the best of what was compared by then."
            )
        return self.scores

    def _compare(self) -> None:
        """Compare the degrees that are wanted, and what may come after them."""
        degrees = self.wanted.degrees or tuple(range(1, self.highest + 1))
        needed = max(map(len, self.folds.rules.include_terms), default=0)
        left_out: list[int] = []
        refused: InfeasibleError | None = None
        for degree in degrees:
            if degree < needed:
                continue
            try:
                if not self._compare_degree(degree):
                    left_out.append(degree)
            except InfeasibleError as error:  # the rules leave no monomial of so low a degree
                refused = error
            if self.found:
                break
        if not self.done:
            raise refused or self._refusal(degrees, needed)
        if self.wanted.degrees is None:
            self._go_on()
            left_out = [degree for degree in left_out if degree > max(self.compared)]
        self._remark(left_out)

    @property
    def scores(self) -> Scores:
        """Everything that was compared so far."""
        return Scores.joined(self.done)

    @property
    def compared(self) -> set[int]:
        """The degrees that were compared so far."""
        return {scores.candidates[0].degree for scores in self.done}

    @property
    def highest(self) -> int:
        """The highest degree that is compared for models of any size.

        A few rows cannot choose among very many monomials.
        """
        degrees = range(3, HIGHEST + 1)
        most = MONOMIALS_PER_ROW * self.folds.rows.shape[0] if self.folds.few_rows else np.inf
        return max([2, *(r for r in degrees if self.folds.at(r).count <= most)])

    def choose(self, scores: Scores, rule: SelectionRule) -> int:
        """Return the place of the candidate to use; few rows call for caution."""
        if not self.folds.few_rows or self.found:
            return scores.choose(rule)
        counts = {r: self.folds.at(r).count for r in self.compared}
        logs = np.log([counts[c.degree] for c in scores.candidates])
        sizes = np.array([c.max_terms for c in scores.candidates])
        return scores.choose(rule, nats=sizes * logs / self.folds.rows.shape[0])

    def for_refit(
        self, scores: Scores, chosen: int
    ) -> tuple[list[tuple[Monomial, ...]], KnownSums | None]:
        """Return the terms of a candidate in every split, and the sums over all rows."""
        case = scores.candidates[chosen]
        basis, moments = self.sums[case.degree, case.center]
        supports = {tuple(sorted(map(int, support))) for support in scores.supports[chosen]}
        terms = [basis.select(support).monomials for support in sorted(supports)]
        return terms, None if moments is None else KnownSums(basis, moments)

    @property
    def least(self) -> float:
        """The least error so far."""
        return min((scores.least for scores in self.done), default=np.inf)

    @property
    def found(self) -> bool:
        """Whether nothing is left to gain."""
        if self.wanted.degrees is not None or not self.done:
            return False
        return self.least <= NOTHING * self.done[0].scale

    def _compare_degree(self, degree: int) -> bool:
        """Compare one degree; return whether there was time and room for it."""
        folds = self.folds.at(degree)
        first = not self.done
        until = self._work_left().share(1.0 if degree == 1 else DEGREE_SHARE)
        # With a free intercept centring changes nothing about linear models.
        once = degree == 1 and self.wanted.degrees is None and not folds.rules.constant
        centers = self.wanted.centers[:1] if once else self.wanted.centers
        limit = self._limit(folds, until, len(centers))
        if limit is None:
            return False
        size = min(FEW_TERMS, max(self.wanted.budgets.max_terms))
        for center in centers:
            if self.found or (not first and self._ended(degree, until)):
                break
            moments = folds.moments(center, limit, size=size, progress=self.workers.progress)
            self.work.count_moments(folds, len(moments.basis))
            before, first = len(self.done), False
            try:
                self._compare_ridges(moments, degree, until)
            finally:
                if len(self.done) > before:
                    self._keep_sums(moments)
        return True

    def _go_on(self) -> None:
        """Compare short models of higher and higher degree as long as that is promising."""
        last = max(self.compared)
        before, now = (self._short(self.done, degree) for degree in (last - 1, last))
        usual = self.scores.errors[int(np.nanargmin(self.scores.mean))]
        least = [short.least for short in (before, now) if short is not None]
        while now is not None and self._promises(now, least):
            last += 1
            new = self._compare_short(last)
            if not new:
                break
            now = self._short(new, last)
            if now is not None:
                least.append(now.least)
                if now.clearly_below(usual):
                    self.done += new

    def _compare_short(self, degree: int) -> list[Scores]:
        """Compare short models of one degree; return nothing where there is no time for it."""
        folds, until = self.folds.at(degree), self._work_left()
        if until.expired or self.time.expired:
            return []
        work = folds.screening_work(few=True)
        if folds.count > SHORTLISTED and not (folds.screens and work <= RATE * until.remaining()):
            return []
        center, progress = self.wanted.centers[0], self.workers.progress
        moments = folds.moments(center, SHORTLISTED, size=SHORT, progress=progress, few=True)
        self.work.count_moments(folds, len(moments.basis), few=True)
        sizes = tuple(size for size in self.wanted.budgets.max_terms if size <= SHORT)
        own = replace(self.wanted, budgets=replace(self.wanted.budgets, max_terms=sizes))
        search = replace(self, wanted=own, done=[])
        search._compare_ridges(moments, degree, until)
        self._keep_sums(moments)
        return search.done

    def _short(self, done: list[Scores], degree: int) -> Scores | None:
        """Return the short models of a degree in one coding, None where there are none."""
        scores, kind = Scores.joined(done), (degree, self.wanted.centers[0])
        short = [(c.degree, c.center) == kind and c.max_terms <= SHORT for c in scores.candidates]
        few = scores.select(np.array(short))
        return None if np.isnan(few.mean).all() else few

    def _promises(self, now: Scores, least: list[float]) -> bool:
        """Whether short models gain by their degree, and would gain by further terms."""
        longest = max(size for size in self.wanted.budgets.max_terms if size <= SHORT)
        complete = 2 * now.candidates[now.choose("shortest")].max_terms <= longest
        at = max(1, len(least) - 2)  # a step without a gain may be followed by one with it
        gains = len(least) > 1 and min(least[at:]) <= GAIN * min(least[:at])
        return gains and not complete and not self.found

    def _work_left(self) -> TimeBudget:
        """Return the work that may still be done, in seconds at the stated rates."""
        return TimeBudget(self.seconds - self.work.seconds, clock=self.work)

    def _keep_sums(self, moments: FoldMoments) -> None:
        """Keep the sums over all rows, for a refit; drop those of cases that fell behind."""
        self.sums[moments.basis.degree, moments.center] = moments.basis, moments.whole
        least = [(s.candidates[0], s.least) for s in self.done]
        near = {(c.degree, c.center) for c, error in least if error <= BEHIND * self.least}
        for case in {(c.degree, c.center) for c, _ in least} - near:
            self.sums[case] = self.sums[case][0], None

    def _ended(self, degree: int, until: TimeBudget) -> bool:
        """Whether the time of a degree is up; remembers that it was."""
        ended = until.expired or self.time.expired
        if ended:
            self.cut_short = degree
        return ended

    def _limit(self, folds: Folds, until: TimeBudget, n_codings: int) -> int | None:
        """Return how many monomials there is room and time for; None where that is too few."""
        room, n = folds.capacity(n_codings), folds.rows.shape[0]
        seconds = MOMENT_SHARE * until.remaining() / n_codings
        if np.isfinite(seconds):
            room = min(room, isqrt(int(2.0 * RATE * seconds / n)))
        first = not self.done
        if folds.count <= room or (first and folds.count <= folds.capacity(n_codings)):
            return folds.count
        high = self.wanted.degrees is None and folds.rules.degree > SCREENED
        screens = folds.screens and not high
        if screens and (first or folds.screening_work() <= RATE * seconds):
            return max(room, 2 * folds.plan.n_splits)
        return None

    def _compare_ridges(self, moments: FoldMoments, degree: int, until: TimeBudget) -> None:
        """Compare the ridges that matter, and limits on the inputs with the best of them."""
        splits, first, least = moments.splits(), len(self.done), self.least
        self._walk(splits, Case(degree, 0.0, moments.center), moments.y_scale, until)
        self._compare_limits(splits, self.done[first:], least)

    def _walk(self, splits: list[SplitModels], case: Case, scale: float, until: TimeBudget) -> None:
        """Compare the gammas that the user lists, or those that a walk over the grid meets."""

        def error(gamma: float) -> float:
            scores = self._compared(splits, replace(case, gamma=gamma), scale)
            self.done.append(scores)
            return scores.least

        n = self.folds.rows.total_weight
        listed = self.wanted.gammas
        if listed is None and case.degree == 1 and self.folds.few_rows:
            # The linear formula that others must beat has its ridge tuned well.
            listed = tuple(1.0 / (share * n) for share in LINEAR_SHARES)
        if listed is not None:
            for gamma in listed:
                error(gamma)
            return
        grid = [1.0 / (share * n) for share in SHARES]
        least = error(grid[MIDDLE])
        for direction in (grid[MIDDLE + 1 :], grid[MIDDLE - 1 :: -1]):
            for gamma in direction:
                if self._ended(case.degree, until):
                    return
                new = error(gamma)
                falls, least = new < FALLS * least, min(new, least)
                if not falls:
                    break

    def _compared(
        self,
        splits: list[SplitModels],
        case: Case,
        scale: float,
        budgets: Budgets | None = None,
    ) -> Scores:
        """Compare the sizes of one case: few first, all where more may be better."""
        budgets = self.wanted.budgets if budgets is None else budgets
        until = self.time if self.done else None
        few = tuple(size for size in budgets.max_terms if size <= FEW_TERMS)
        for sizes in dict.fromkeys([few or budgets.max_terms, budgets.max_terms]):
            own = replace(budgets, max_terms=sizes)
            stage = f"degree {case.degree}, {'centred' if case.center else 'raw'} inputs"
            jobs = [(split, case.gamma, own, until) for split in splits]
            self.work.count_models(splits, own)
            found = self.workers.run(SplitModels.compare, jobs, stage)
            scores = Scores.of(case, own, found, scale, self.folds.repeats, risky=self.folds.risky)
            if np.isnan(scores.mean).all():
                break
            best = scores.candidates[int(np.nanargmin(scores.mean))].max_terms
            if best <= LAST_SHARE * max(sizes) or scores.least <= NOTHING * scale:
                break
            # More terms make up for a little, not for a ridge or a degree that is far behind.
            if scores.least > BEHIND * self.least:
                break
        return scores

    def _compare_limits(self, splits: list[SplitModels], new: list[Scores], before: float) -> None:
        """Compare limits on many inputs, with the ridge that was best at a degree worth it."""
        best = min(new, key=lambda scores: scores.least)
        case, rules = best.candidates[0], self.folds.rules
        sizes = tuple(size for size in self.wanted.budgets.max_terms if size <= FEW_TERMS)
        many = len(self.folds.inputs) >= MANY_INPUTS and not self.folds.few_rows and case.degree > 1
        allowed = self.wanted.limits and len(rules.required_inputs) <= min(LIMITS) and sizes
        if many and allowed and best.least <= FALLS * before and not self.time.expired:
            own = Case(case.degree, case.gamma, case.center)
            self.done.append(self._compared(splits, own, best.scale, Budgets(sizes, LIMITS)))

    def _refusal(self, degrees: tuple[int, ...], needed: int) -> Exception:
        """Say why nothing could be compared."""
        if max(degrees) < needed:
            return InfeasibleError(
                f"include_terms must keep to the degrees compared, {max(degrees)}, got a term of "
                f"degree {needed}"
            )
        least = self.folds.at(max(min(degrees), needed))
        where = " on Dask collections" if isinstance(least.parts, RandomFolds) else ""
        return TooLargeError(
            f"degree must have at most {least.capacity(len(self.wanted.centers)):,} monomials to "
            f"be compared{where}, and degree {least.rules.degree} of {len(least.inputs):,} inputs "
            f"has {least.count:,}"
        )

    def _remark(self, left_out: list[int]) -> None:
        """Say in one plain sentence what was not compared, where that may matter."""
        scores = self.scores
        last = max(c.degree for c in scores.candidates)
        rising = scores.candidates[scores.choose("shortest")].degree == last
        if left_out and (self.wanted.degrees is not None or rising):
            *others, highest = map(str, left_out)
            names = f"{', '.join(others)} and {highest}" if others else highest
            noun = "Degree" if len(left_out) == 1 else "Degrees"
            self.remarks.append(
                f"{noun} {names} could not be compared in the time and memory there is, so the "
                f"formula has degree {last} at most."
            )
        elif self.cut_short is not None or self.time.expired:
            self.remarks.append(
                f"The time was up while degree {self.cut_short or last} was compared; a longer "
                "time_limit compares more ridges and sizes."
            )
