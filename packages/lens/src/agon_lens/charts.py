"""Charts as SVG text, for pages without scripts: colours come from the page, so that they fit light and dark."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agon_lens.formatting import significant

WIDTH, HEIGHT = 340, 170
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 26
LETTER, GAP = 7.0, 6.0
"""Width of a character of a label, at most, and its distance from the line."""
STILL = 0.01
"""Change of a series, as a share of its largest value, up to which it is told in words instead of drawn."""
POINTS = 400
"""Points drawn at most: a longer series is thinned evenly."""

Series = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Chart:
    """A titled chart: series by name, each a list of (step, value); `percent` formats its values as shares."""

    title: str
    series: Mapping[str, Series]
    percent: bool = False

    def svg(self) -> str:
        """The chart with its legend; empty when no series has two points."""
        drawn = {name: thin(points) for name, points in self.series.items() if len(points) > 1}
        if not drawn:
            return ""
        xs = [x for points in drawn.values() for x, _ in points]
        ys = [y for points in drawn.values() for _, y in points]
        low, high = _range(min(ys), max(ys))
        marked = (low, (low + high) / 2, high) if low == 0 or high == 0 else (low, 0.0, high)
        labels = {value: self._label(value) for value in marked}
        frame = _Frame(min(xs), max(xs), low, high, max(LEFT, GAP + LETTER * max(map(len, labels.values()))))
        lines = [_line(number, points, frame) for number, points in enumerate(drawn.values())]
        named = (f'<li class="s{n}">{html.escape(name)}</li>' for n, name in enumerate(drawn))
        label = html.escape(f"{self.title}: {', '.join(drawn)}")
        return (
            f'<figure><figcaption>{html.escape(self.title)}</figcaption><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{label}">{frame.axes(labels)}{"".join(lines)}</svg>'
            f'<ul class="legend">{"".join(named)}</ul></figure>'
        )

    def in_words(self) -> str:
        """The values of a chart in which nothing moves; empty when something does, or no series has two points."""
        values = {name: [y for _, y in points] for name, points in self.series.items() if len(points) > 1}
        if not values or any(max(ys) - min(ys) > STILL * max(map(abs, ys)) for ys in values.values()):
            return ""
        said = [
            f"{name} {self._label(ys[-1])}" if len(values) > 1 else self._label(ys[-1]) for name, ys in values.items()
        ]
        return f"{self.title}: {', '.join(said)} throughout."

    def _label(self, value: float) -> str:
        return f"{significant(100 * value, 2)}%" if self.percent else significant(value)


def side_by_side(charts: Iterable[Chart]) -> str:
    """Charts as HTML, and a line for each in which nothing moves; empty when there are none."""
    told = [(chart, chart.in_words()) for chart in charts]
    drawn = "".join(chart.svg() for chart, words in told if not words)
    lines = "".join(f'<p class="note">{html.escape(words)}</p>' for _, words in told if words)
    return (f'<div class="charts">{drawn}</div>' if drawn else "") + lines


def share_bar(share: float, beside: Sequence[float], width: int = 90) -> str:
    """A share as a bar from 0, to the left where it is negative, on the scale of those that stand beside it."""
    low, high = min(0.0, *beside), max(0.0, *beside)
    zero, end = ((value - low) / ((high - low) or 1.0) * width for value in (0.0, share))
    bar = f'<rect class="bar" fill="#6366f1" x="{min(zero, end):.1f}" width="{abs(end - zero):.1f}" y="2" height="8"/>'
    axis = f'<line class="whisker" stroke="currentColor" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="12"/>'
    return (
        f'<svg class="share" width="{width}" height="12" viewBox="0 0 {width} 12" aria-hidden="true">{bar}{axis}</svg>'
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """From values to places on the chart."""

    left: float
    right: float
    low: float
    high: float
    margin: float
    """Room for the labels at the left."""

    def at(self, x: float, y: float) -> str:
        across = (x - self.left) / ((self.right - self.left) or 1)
        up = (y - self.low) / ((self.high - self.low) or 1)
        width, height = WIDTH - self.margin - RIGHT, HEIGHT - TOP - BOTTOM
        return f"{self.margin + across * width:.1f},{HEIGHT - BOTTOM - up * height:.1f}"

    def axes(self, labels: Mapping[float, str]) -> str:
        """A line across for each label at its value, and the first and last step."""
        marks = []
        for value, label in labels.items():
            x, y = self.at(self.left, value).split(",")
            marks.append(f'<line class="grid" x1="{x}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
            marks.append(f'<text class="y" x="{self.margin - GAP:g}" y="{float(y) + 4:.1f}">{label}</text>')
        foot = HEIGHT - 8
        marks.append(f'<text class="x" x="{self.margin:g}" y="{foot}">step {self.left:g}</text>')
        marks.append(f'<text class="y" x="{WIDTH - RIGHT}" y="{foot}">{self.right:g}</text>')
        return "".join(marks)


def thin(points: Series) -> Series:
    """At most `POINTS` of them, the last one included."""
    every = -(-len(points) // POINTS)
    return points if every == 1 else [*points[:-1:every], points[-1]]


def _line(number: int, points: Series, frame: _Frame) -> str:
    path = " ".join(frame.at(x, y) for x, y in points)
    dots = "".join(f'<circle cx="{p[0]}" cy="{p[1]}" r="2.6"/>' for p in (w.split(",") for w in path.split()))
    return f'<g class="s{number}"><polyline points="{path}"/>{dots if len(points) <= 30 else ""}</g>'


def _range(low: float, high: float) -> tuple[float, float]:
    """From 0, or from the least value below it: small changes look small."""
    low = min(low, 0.0)
    return low, high if high > low else low + 1.0
