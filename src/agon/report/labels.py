"""Labels beside the points of a figure, each where it covers least: not another label, a point, a whisker or a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

REACH = (9.0, 20.0, 34.0, 50.0)
"""Distances from a point to its label, in points; from the second on a thin line joins them."""
SIDES = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
DOT, CROSSING = 6.0, 200.0
"""Half the width of a point in pixels; what a joining line costs for each thing that it crosses."""


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A point with its label and the ends of its whisker, in the units of the axes."""

    x: float
    y: float
    low: float
    high: float
    label: str
    colour: str


def place_labels(axes: Any, points: Sequence[LabelledPoint], size: float = 9.5) -> None:
    """Write the labels; call this last, once the limits of the axes are set."""
    from matplotlib.text import Text

    axes.figure.draw_without_rendering()
    taken = [box for point in points for box in _boxes(axes, point)]
    for point in sorted(points, key=lambda point: (point.x, point.y)):
        line = {"arrowstyle": "-", "color": point.colour, "lw": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 3}
        look = {"ha": "center", "va": "center", "color": point.colour, "fontsize": size, "arrowprops": line}
        text = axes.annotate(point.label, (point.x, point.y), (0, 0), textcoords="offset points", **look)
        text.update_positions(axes.figure.canvas.get_renderer())
        centred = Text.get_window_extent(text)  # the words alone, on top of the point
        pixels = axes.figure.dpi / 72
        shifts = [(dx * pixels, dy * pixels) for dx, dy in _shifts(centred.width / pixels, centred.height / pixels)]
        best = min(shifts, key=lambda shift: _cost(centred, shift, taken, axes.get_window_extent()))
        taken.append(centred.translated(*best))
        text.xyann = best[0] / pixels, best[1] / pixels
        text.arrow_patch.set_visible(shifts.index(best) >= len(SIDES))


def _boxes(axes: Any, point: LabelledPoint) -> Iterator[Any]:
    """What a point and its whisker cover, in pixels."""
    from matplotlib.transforms import Bbox

    (x, y), (_, low), (_, high) = (axes.transData.transform((point.x, end)) for end in (point.y, point.low, point.high))
    yield Bbox.from_extents(x - DOT, y - DOT, x + DOT, y + DOT)
    yield Bbox.from_extents(x - DOT / 2, low, x + DOT / 2, high)


def _shifts(width: float, height: float) -> Iterator[tuple[float, float]]:
    """From the point to the centre of its label, in points: near ones first, on all sides."""
    for reach in REACH:
        for right, up in SIDES:
            beside = reach * 0.6 if right else reach + height / 2
            yield right * (reach + width / 2), up * beside


def _cost(centred: Any, shift: tuple[float, float], taken: Sequence[Any], frame: Any) -> float:
    """What a label would cover, reach out of the frame, and cross with its line."""
    from matplotlib.path import Path

    box, start = centred.translated(*shift), ((centred.x0 + centred.x1) / 2, (centred.y0 + centred.y1) / 2)
    covered = sum(_shared(box, other) for other in taken) + box.width * box.height - _shared(box, frame)
    line = Path([start, (start[0] + shift[0], start[1] + shift[1])])
    crossed = sum(line.intersects_bbox(other, filled=True) for other in taken)
    return float(10 * covered + CROSSING * crossed + abs(shift[0]) / 4 + abs(shift[1]))


def _shared(one: Any, two: Any) -> float:
    """The area that both cover."""
    width = min(one.x1, two.x1) - max(one.x0, two.x0)
    height = min(one.y1, two.y1) - max(one.y0, two.y0)
    return float(max(0.0, width) * max(0.0, height))
