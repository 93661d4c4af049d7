"""Charts as SVG inside the page: real text, and the page's colours in light, dark and print.

A chart is 400 units wide, about the width of a phone, so that its text is readable there without
zooming; wider screens set several side by side.  Marks carry class names only; ``style.css``
says what they look like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from polysharp.report.markup import tag
from polysharp.typing import Array

WIDTH = 400
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 46  # room for the axes' numbers and names
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Numbers = NDArray[Any]
Values = Numbers | Sequence[float]


@dataclass(frozen=True)
class Scale:
    """A linear map from values to units of the drawing."""

    low: float
    high: float
    start: float
    stop: float

    @classmethod
    def over(cls, values: Values, start: float, stop: float, margin: float = 0.04) -> Scale:
        """Span the finite values, with some margin; a single value gets room on both sides."""
        known = [v for v in np.asarray(values, dtype=np.float64).tolist() if isfinite(v)] or [0.0]
        low, high = min(known), max(known)
        room = margin * (high - low)
        # Below the resolution of floats there is nothing to see but rounding.
        if high - low <= 1e-12 * max(abs(low), abs(high)):
            room = 0.5 * abs(high) or 0.5
        return cls(low - room, high + room, start, stop)

    def __call__(self, values: Any) -> Any:
        """Map a value to a number, or many to a list."""
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        return (self.start + share * (self.stop - self.start)).round(2).tolist()

    def ticks(self, count: int = 5, *, whole: bool = False) -> list[float]:
        """Return about ``count`` round numbers within the scale.

        Examples
        --------
        >>> Scale(-1.0, 9.0, 0, 1).ticks()
        [0.0, 2.0, 4.0, 6.0, 8.0]
        """
        raw = (self.high - self.low) / count
        base = 10.0 ** floor(log10(raw))
        step = next(base * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if base * m >= 0.99 * raw)
        if whole:
            step = max(1.0, ceil(step))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def labels(ticks: Sequence[float]) -> tuple[list[str], str]:
    """Return the ticks as text, and the power of ten that they leave to the axis's name.

    Examples
    --------
    >>> labels([0.0, 0.5, 1.0]), labels([0.0, 2e6])
    ((['0.0', '0.5', '1.0'], ''), (['0', '2'], ' (×10⁶)'))
    """
    largest = max((abs(t) for t in ticks), default=0.0)
    exponent = 3 * floor(log10(largest) / 3) if largest else 0
    if -3 <= exponent <= 3 and largest < 1e5 and not 0 < largest < 1e-2:
        exponent = 0
    values = [t / 10.0**exponent for t in ticks]
    decimals = max((len(f"{v:.6g}".partition(".")[2]) for v in values), default=0)
    power = (
        f" (\N{MULTIPLICATION SIGN}10{str(exponent).translate(SUPERSCRIPT)})" if exponent else ""
    )
    return [f"{v:.{decimals}f}".replace("-", "\N{MINUS SIGN}") for v in values], power


def shorten(name: str, length: int = 26) -> str:
    """Cut a long name in its middle."""
    if len(name) <= length:
        return name
    head = (length - 1) // 2
    return name[: length - 1 - head] + "\N{HORIZONTAL ELLIPSIS}" + name[len(name) - head :]


def svg(height: int, *marks: Markup | None, title: str, description: str) -> Markup:
    """Return a drawing that says in words what it shows."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        *marks,
        viewBox=f"0 0 {WIDTH} {height}",
        class_="chart",
        role="img",
        aria_label=f"{title}. {description}",
    )


@dataclass(frozen=True)
class Chart:
    """Two axes and a place for marks between them."""

    x: Scale
    y: Scale
    x_name: str
    y_name: str
    height: int = 300
    whole_x: bool = False  # integers only along x
    grid: bool = True

    @classmethod
    def over(
        cls,
        xs: Values,
        ys: Values,
        x_name: str,
        y_name: str,
        height: int = 300,
        *,
        margins: tuple[float, float] = (0.04, 0.04),
        right: int = RIGHT,
        **how: bool,
    ) -> Chart:
        """Make a chart that shows all of the given values, with margins along x and y."""
        x = Scale.over(xs, LEFT, WIDTH - right, margins[0])
        y = Scale.over(ys, height - BOTTOM, TOP, margins[1])
        return cls(x, y, x_name, y_name, height, **how)

    def draw(self, *marks: Markup, title: str, description: str) -> Markup:
        """Return the SVG: grid, marks, axes on top."""
        under = self._axes(grid=True) if self.grid else None
        over = self._axes(grid=False)
        return svg(self.height, under, *marks, over, title=title, description=description)

    def _axes(self, *, grid: bool) -> Markup:
        """Draw either the lines of the grid or the numbers and names."""
        x_ticks = self.x.ticks(10, whole=True) if self.whole_x else self.x.ticks(5)
        y_ticks = self.y.ticks(5)
        left, right, bottom, top = self.x.start, self.x.stop, self.y.start, self.y.stop
        if grid:
            lines = [f"M{left} {self.y(t)}H{right}" for t in y_ticks]
            lines += [f"M{self.x(t)} {bottom}V{top}" for t in x_ticks]
            return tag("path", d="".join(lines), class_="grid")
        x_labels, x_power = labels(x_ticks)
        y_labels, y_power = labels(y_ticks)
        middle, turned = (left + right) / 2, f"translate(13 {(bottom + top) / 2}) rotate(-90)"
        below = zip(x_labels, self.x(x_ticks), strict=True)
        beside = zip(y_labels, self.y(y_ticks), strict=True)
        name = {"text_anchor": "middle", "class_": "name"}
        return tag(
            "g",
            tag("path", d=f"M{left} {top}V{bottom}H{right}", class_="axis"),
            [tag("text", label, x=x, y=bottom + 17, text_anchor="middle") for label, x in below],
            [tag("text", label, x=left - 7, y=y + 4, text_anchor="end") for label, y in beside],
            tag("text", shorten(self.x_name, 44) + x_power, x=middle, y=self.height - 8, **name),
            tag("text", shorten(self.y_name, 32) + y_power, transform=turned, **name),
            class_="axes",
            aria_hidden="true",
        )

    def line(self, xs: Numbers, ys: Array, class_: str) -> Markup:
        """Draw straight lines from point to point; points that are not known are left out."""
        known = np.isfinite(ys)
        points = zip(self.x(xs[known]), self.y(ys[known]), strict=True)
        d = "L".join(f"{x} {y}" for x, y in points)
        return tag("path", d=f"M{d}" if d else "", class_=f"line {class_}")

    def area(self, xs: Numbers, low: Array, high: Array, class_: str) -> Markup:
        """Fill between two lines, where both are known."""
        known = np.isfinite(low) & np.isfinite(high)
        round_it = [*zip(xs[known], high[known], strict=True)]
        round_it += [*zip(xs[known], low[known], strict=True)][::-1]
        d = "L".join(f"{self.x(x)} {self.y(y)}" for x, y in round_it)
        return tag("path", d=f"M{d}Z", class_=class_)

    def dots(
        self, xs: Numbers, ys: Array, class_: str, r: float = 2.4, notes: Sequence[str] = ()
    ) -> Markup:
        """Draw one dot per point that is known; notes are shown when a dot is pointed at."""
        said: list[Markup | None] = [tag("title", note) for note in notes] or [None] * len(xs)
        points = zip(self.x(xs), self.y(ys), said, np.isfinite(ys), strict=True)
        drawn = [tag("circle", note, cx=x, cy=y, r=r) for x, y, note, known in points if known]
        return tag("g", drawn, class_=class_)

    def rug(self, xs: Array) -> Markup:
        """Draw a short stroke at the foot for every value."""
        foot = self.y.start
        places = sorted(set(self.x(xs)))
        return tag("path", d="".join(f"M{x} {foot}v-7" for x in places), class_="rug")

    def bars(self, edges: Array, heights: Numbers, class_: str) -> Markup:
        """Draw the bars of a histogram."""
        foot, at, tops = self.y.start, self.x(edges), self.y(heights)
        d = "".join(
            f"M{a + 0.75} {foot}V{top}H{b - 0.75}V{foot}Z"
            for a, b, top in zip(at[:-1], at[1:], tops, strict=True)
            if top < foot
        )
        return tag("path", d=d, class_=class_)


def region_above(z: Array, level: float, x: Array, y: Array) -> str:
    """Return the path of {z >= level} by marching squares; ``z[b, a]`` is at ``x[a], y[b]``.

    In every cell, go round its four corners, take those at or above the level, and add the point
    on an edge, by linear interpolation, where z crosses it.  Regions of rising levels painted over
    each other give bands; whole cells in a row are joined into one rectangle.

    Examples
    --------
    >>> z = np.array([[0.0, 2.0], [0.0, 2.0]])
    >>> region_above(z, 1.0, np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    'M5 0L10 0L10 10L5 10Z'
    """
    above = z >= level
    count = above[:-1, :-1] * 1 + above[:-1, 1:] + above[1:, 1:] + above[1:, :-1]
    pieces = []
    for b in range(len(y) - 1):
        for a in np.flatnonzero((count[b] > 0) & (count[b] < 4)).tolist():
            corners = [(i, j, z[j, i] - level) for i, j in ((a, b), (a + 1, b))]
            corners += [(i, j, z[j, i] - level) for i, j in ((a + 1, b + 1), (a, b + 1))]
            points: list[tuple[float, float]] = []
            for (i, j, h), (k, m, other) in zip(corners, corners[1:] + corners[:1], strict=True):
                if h >= 0.0:
                    points.append((x[i], y[j]))
                if (h >= 0.0) != (other >= 0.0):
                    share = h / (h - other)
                    points.append((x[i] + share * (x[k] - x[i]), y[j] + share * (y[m] - y[j])))
            pieces.append(points)
        # Where whole cells begin and where they end, in turns.
        limits = np.flatnonzero(np.diff(count[b] == 4, prepend=False, append=False))
        for first, last in limits.reshape(-1, 2).tolist():
            left, right, low, high = x[first], x[last], y[b], y[b + 1]
            pieces.append([(left, low), (right, low), (right, high), (left, high)])
    written = ["L".join(f"{px:.4g} {py:.4g}" for px, py in points) for points in pieces]
    return "".join(f"M{points}Z" for points in written)
