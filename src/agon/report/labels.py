"""Names beside the points of a figure, each where it covers least: no name upon another, upon a point or a whisker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

REACH = (9.0, 20.0, 34.0, 50.0)
"""Distances from a point to its name, in points; from the second on a thin line joins them."""
SIDES = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
DOT = 6.0


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its name and the ends of its whisker, in the units of the axes."""

    x: float
    y: float
    low: float
    high: float
    name: str
    ink: str


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def shared(self, other: Box) -> float:
        """The area that both cover."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, wide) * max(0.0, high)

    @property
    def area(self) -> float:
        return (self.right - self.left) * (self.top - self.bottom)


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere a name could stand: its offset from the point, in points, and the box that it would fill."""

    dx: float
    dy: float
    box: Box
    far: bool


def place(axes: Any, marks: Sequence[Mark], size: float = 9.5) -> None:
    """Write the names; whatever else sets the limits of the axes must have been drawn."""
    axes.figure.draw_without_rendering()
    taken = [box for mark in marks for box in _boxes(axes, mark)]
    frame = axes.get_window_extent()
    inside = Box(frame.x0, frame.y0, frame.x1, frame.y1)
    for mark in sorted(marks, key=lambda mark: (mark.x, mark.y)):
        best = min(_places(axes, mark, size), key=lambda each: _cost(each, taken, inside))
        taken.append(best.box)
        line = {"arrowstyle": "-", "color": mark.ink, "lw": 0.5, "alpha": 0.6, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            mark.name, (mark.x, mark.y), (best.dx, best.dy), textcoords="offset points", ha="center", va="center",
            color=mark.ink, fontsize=size, arrowprops=line if best.far else None,
        )  # fmt: skip


def _cost(each: Place, taken: Sequence[Box], inside: Box) -> float:
    covered = sum(each.box.shared(box) for box in taken)
    outside = each.box.area - each.box.shared(inside)
    return 10 * covered + 10 * outside + abs(each.dx) / 4 + abs(each.dy)


def _boxes(axes: Any, mark: Mark) -> Iterator[Box]:
    """What a point and its whisker cover."""
    (x, y), (_, low), (_, high) = (axes.transData.transform((mark.x, end)) for end in (mark.y, mark.low, mark.high))
    yield Box(x - DOT, y - DOT, x + DOT, y + DOT)
    yield Box(x - DOT / 2, low, x + DOT / 2, high)


def _places(axes: Any, mark: Mark, size: float) -> Iterator[Place]:
    """Near places first, on all sides; the name is centred on its offset."""
    wide, high = _extent(axes, mark.name, size)
    scale = axes.figure.dpi / 72
    x, y = axes.transData.transform((mark.x, mark.y))
    for reach in REACH:
        for right, up in SIDES:
            dx, dy = right * (reach + wide / 2), up * (reach * (0.6 if right else 1.0) + high / 2 * (not right))
            at_x, at_y, half_x, half_y = x + dx * scale, y + dy * scale, wide * scale / 2, high * scale / 2
            box = Box(at_x - half_x, at_y - half_y, at_x + half_x, at_y + half_y)
            yield Place(dx, dy, box, reach > REACH[0])


def _extent(axes: Any, name: str, size: float) -> tuple[float, float]:
    """Width and height of a name, in points."""
    text = axes.text(0, 0, name, fontsize=size)
    box, scale = text.get_window_extent(axes.figure.canvas.get_renderer()), axes.figure.dpi / 72
    text.remove()
    return box.width / scale, box.height / scale
