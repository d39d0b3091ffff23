"""What a run shows while it trains: a board on a terminal, one plain line per step elsewhere, or JSON lines.

Progress goes to stderr, JSON to stdout; `NO_COLOR` is honoured. Trackers see the same numbers.
"""

from __future__ import annotations

import json as json_module
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from agon.config import resolved
from agon.formatting import count, duration, percent, rate
from agon.rundir import RunDir
from agon.rundir.files import to_json
from agon.rundir.health import Symptom
from agon.rundir.records import Point, StepRecord, StreamStats, SystemCounts, Timing
from agon.training.log import Display, Silent
from agon.training.trackers import Trackers
from agon.types import Policy

BARS = "▁▂▃▄▅▆▇█"
PAINT = {Policy.A: "black on cyan", Policy.B: "white on magenta"}
"""Of a policy's letter alone: numbers keep the terminal's own colours, which can be read on any background."""
LEGEND = "pass: share of right answers. live groups: those with two different rewards; the others teach nothing."
NAMES = {"a": "A alone", "b": "B alone", "ab": "A then B", "ba": "B then A"}
"""Systems of an evaluation point, for a person."""
Past = Callable[[], Iterable[StepRecord]]
COLUMNS = ("", "", "pass", "reward", "live groups", "tokens", "truncated", "well-formed")


def streams(record: StepRecord) -> list[tuple[Policy, str, StreamStats]]:
    """Who did what in a step: policy, verb, and the numbers of its stream."""
    rows = [(record.drafter, "drafts", record.standalone)]
    return [*rows, (record.challenger, "challenges", record.competitive)] if record.competitive else rows


class Pace:
    """How long the rest will take, from the newest steps."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._seconds: deque[float] = deque(maxlen=20)

    def left(self, record: StepRecord, timing: Timing) -> str:
        """The time left, for a person."""
        self._seconds.append(sum(timing.seconds.values()))
        # the median: an evaluation or the rehearsal before step 1 is not what the next step costs
        return duration(median(self._seconds) * (self.total - record.step - 1))


class Lines:
    """One plain line per step on stderr."""

    def __init__(self, total: int) -> None:
        self.total, self.pace = total, Pace(total)

    def open(self) -> None:
        """Nothing to open."""

    def step(self, record: StepRecord, timing: Timing) -> None:
        self.note(f"{step_line(record, self.total)}  {speed(timing)}  {self.pace.left(record, timing)} left")

    def point(self, point: Point) -> None:
        self.note(point_line(point))

    def note(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    def health(self, symptoms: Sequence[Symptom]) -> None:
        """A note has told each of them."""

    def close(self) -> None:
        """Nothing is open."""


class JsonLines(Lines):
    """Every record as one line of JSON on stdout; sentences on stderr."""

    def step(self, record: StepRecord, timing: Timing) -> None:
        self._print({"step": record.model_dump(mode="json"), "timing": timing.model_dump(mode="json")})

    def point(self, point: Point) -> None:
        self._print({"point": point.model_dump(mode="json")})

    def _print(self, value: Mapping[str, Any]) -> None:
        print(json_module.dumps(to_json(dict(value))), flush=True)


class Board:
    """A panel that is redrawn after every step, with notes above it."""

    def __init__(self, total: int, name: str, console: Any = None, past: Past = tuple) -> None:
        """`past` reads the steps before a resume; it is called once, at the first step."""
        from rich.console import Console
        from rich.live import Live

        self.total, self.name, self.pace, self._past = total, name, Pace(total), past
        self.console = console or Console(stderr=True)
        self.rewards: dict[str, deque[float | None]] = {verb: deque(maxlen=40) for verb in ("drafts", "challenges")}
        self.dev: list[str] = []
        self.symptoms: Sequence[Symptom] = ()
        self._newest: tuple[StepRecord, Timing, str] | None = None
        # no refreshing thread: verifier workers are forked from this process
        self.live = Live(console=self.console, auto_refresh=False)

    def open(self) -> None:
        """The panel is opened by the first step."""

    def step(self, record: StepRecord, timing: Timing) -> None:
        if self._newest is None:
            self.note(LEGEND)
            self._add([past for past in self._past() if past.step < record.step])
        self._add([record])
        self._newest = record, timing, self.pace.left(record, timing)
        self._draw()

    def _add(self, records: Iterable[StepRecord]) -> None:
        for record in records:
            for _, verb, stream in streams(record):
                self.rewards[verb].append(stream.reward_mean)

    def health(self, symptoms: Sequence[Symptom]) -> None:
        if list(symptoms) != list(self.symptoms):
            self.symptoms = symptoms
            self._draw()

    def point(self, point: Point) -> None:
        self.dev = point_lines(point)
        self.note(point_line(point))
        self._draw()

    def note(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self.live.stop()

    def _draw(self) -> None:
        if self._newest:
            self.live.start()
            self.live.update(self._panel(*self._newest), refresh=True)

    def _panel(self, record: StepRecord, timing: Timing, left: str) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        done = record.step + 1
        title = Text(f" {self.name}  step {done} of {self.total}  {done / self.total:.0%}  {left} left ", style="bold")
        notes = [*exchange_lines(record), *staleness_lines(record), *self._rewards(), parts(timing), *self.dev]
        told = [Text(f"! {symptom}", style="bold") for symptom in self.symptoms]
        body = Group(self._table(record), "", *map(Text, notes), *told)
        return Panel(body, title=title, title_align="left", expand=False)

    def _table(self, record: StepRecord) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in COLUMNS:
            table.add_column(name, justify="right" if name else "left", min_width=6 if name else 3)
        for policy, verb, stream in sorted(streams(record), key=lambda row: row[0]):
            table.add_row(Text(f" {policy.name} ", style=PAINT[policy]), verb, *cells(stream))
        return table

    def _rewards(self) -> list[str]:
        bars = BARS if str(self.console.encoding).lower().startswith("utf") else " .:-=+*#"
        known = [(verb, values) for verb, values in self.rewards.items() if any(v is not None for v in values)]
        return [f"reward        {verb:<10} {spark(values, bars)}" for verb, values in known]


class TrackedDisplay:
    """Fans out run events to one display and any number of trackers; none of them can stop the run."""

    def __init__(self, display: Display, trackers: Trackers) -> None:
        self.display, self.trackers = display, trackers

    def open(self) -> None:
        self.trackers.open()

    def step(self, record: StepRecord, timing: Timing) -> None:
        self._show(lambda display: display.step(record, timing))
        self._notes(self.trackers.log(record.step, record.model_dump(), {"timing": timing.model_dump()}))

    def point(self, point: Point) -> None:
        self._show(lambda display: display.point(point))
        values = {"dev": {"score": point.score, **_rates(point.systems)}}
        held_out = {"held_out": _rates(point.held_out)} if point.held_out else {}
        self._notes(self.trackers.log(point.step, values | held_out))

    def note(self, sentence: str) -> None:
        self._show(lambda display: display.note(sentence))

    def health(self, symptoms: Sequence[Symptom]) -> None:
        self._show(lambda display: display.health(symptoms))

    def close(self) -> None:
        self._notes(self.trackers.close())
        self._show(lambda display: display.close())

    def _notes(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self.note(sentence)

    def _show(self, event: Callable[[Display], None]) -> None:
        """Nobody may be left to read it, as when Ctrl-C ends `tee` too: the run goes on, and saves."""
        try:
            event(self.display)
        except OSError:
            self.display = Silent()


def _rates(systems: Mapping[str, SystemCounts]) -> dict[str, Any]:
    return {name: {"pass_rate": counts.pass_rate} for name, counts in systems.items()}


def open_display(total: int, *, json: bool, trackers: Sequence[str], run: RunDir) -> Display:
    """The display that fits: JSON when asked, a board on a terminal, plain lines elsewhere; and the trackers."""
    reporting = Trackers(trackers, run.path.name, run.path, resolved(run.config))
    if json:
        return TrackedDisplay(JsonLines(total), reporting)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TrackedDisplay(Board(total, run.path.name, past=run.steps.records), reporting)
    return TrackedDisplay(Lines(total), reporting)


def step_line(record: StepRecord, total: int) -> str:
    """A step in one line: who did what, and what came of it."""
    rows = streams(record)
    words = [f"step {record.step + 1}/{total}"]
    words += [f"{policy.name} {verb} {rate(stream.pass_rate)}" for policy, verb, stream in rows]
    words += [
        "reward " + "/".join(rate(stream.reward_mean) for *_, stream in rows),
        "live groups " + " ".join(f"{stream.live_groups}/{stream.groups}" for *_, stream in rows),
        "tokens " + "/".join(count(stream.tokens_mean) for *_, stream in rows),
        "truncated " + "/".join(percent(stream.truncated) for *_, stream in rows),
    ]
    if exchange := record.exchange:
        words.append(f"kept {exchange.draft_right - exchange.regressions}/{exchange.draft_right}")
        words.append(f"converted {exchange.conversions}/{exchange.draft_wrong}")
        words.append(f"echoed {exchange.echoes}/{exchange.draft_wrong}")
        words.append(f"empty peeks {exchange.empty_peeks}/{exchange.shown}")
    if record.bonus_groups is not None and record.competitive:
        weight = "" if record.bonus_weight is None else f" weight {record.bonus_weight:.2f}"
        words.append(f"bonus acts {record.bonus_groups}/{record.competitive.groups}{weight}")
    if record.staleness:
        words.append(f"staleness {record.staleness}")
    return "  ".join(words)


def exchange_lines(record: StepRecord) -> list[str]:
    """What the challenger made of the drafts."""
    exchange, drafter, challenger = record.exchange, record.drafter.name, record.challenger.name
    if exchange is None:
        return []
    lines = [
        f"kept          {part(exchange.draft_right - exchange.regressions, exchange.draft_right)}"
        f"  {drafter} right, {challenger} right",
        f"converted     {part(exchange.conversions, exchange.draft_wrong)}  {drafter} wrong, {challenger} right",
        f"echoed        {part(exchange.echoes, exchange.draft_wrong)}  {drafter} wrong, {challenger} the same",
        f"empty peeks   {part(exchange.empty_peeks, exchange.shown)}  drafts that left no summary",
        f"leaks         {part(exchange.leaks, exchange.shown)}  peeks with the answer, also by chance",
    ]
    if record.bonus_groups is not None and record.competitive:
        biting = part(record.bonus_groups, record.competitive.groups)
        lines.append(f"bonus acts    {biting}  groups whose advantages it changes")
    if record.bonus_weight is not None:
        lines.append(f"bonus weight  {record.bonus_weight:>4.2f}           pull on wrong drafts over right ones")
    return lines


def staleness_lines(record: StepRecord) -> list[str]:
    """How old the samples were, where they were."""
    return [f"staleness     {record.staleness:>4}           updates since they were drawn"] if record.staleness else []


def point_line(point: Point) -> str:
    """An evaluation point in one line."""
    return "  ".join(point_lines(point))


def point_lines(point: Point) -> list[str]:
    """The same in lines of less than 80 columns: the current pair on dev, and on held-out where it was measured.

    Cascades from first versions stand in points.json and in the report."""
    now = {name: counts for name, counts in point.systems.items() if not name.startswith("first-")}
    lines = [f"dev at step {point.step}: {_scores(now)}"]
    return [*lines, f"held-out: {_scores(point.held_out)}"] if point.held_out else lines


def _scores(systems: Mapping[str, SystemCounts]) -> str:
    names = sorted(systems, key=lambda name: (len(name), name))
    return "  ".join(f"{NAMES.get(name, name)} {rate(systems[name].pass_rate)}" for name in names)


def cells(stream: StreamStats) -> list[str]:
    """The numbers of one stream, in the order of the board's columns."""
    return [
        rate(stream.pass_rate),
        rate(stream.reward_mean),
        f"{stream.live_groups}/{stream.groups}",
        count(stream.tokens_mean),
        percent(stream.truncated),
        percent(stream.well_formed),
    ]


def parts(timing: Timing) -> str:
    """Where the time of a step went."""
    spent = "  ".join(f"{name} {seconds:.1f} s" for name, seconds in timing.seconds.items() if seconds >= 0.05)
    return f"speed         {speed(timing)}   {spent}"


def speed(timing: Timing) -> str:
    return f"{count(timing.tokens_per_second)} tokens/s"


def part(happened: int, of: int) -> str:
    return f"{happened:>4} of {of:<4} {percent(happened / of if of else None):>4}"


def spark(values: Iterable[float | None], bars: str = BARS) -> str:
    """Values as a row of bars between their least and greatest; a gap where there is none."""
    values = list(values)
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    width = high - low or 1.0
    return "".join(" " if value is None else bars[round((value - low) / width * (len(bars) - 1))] for value in values)
