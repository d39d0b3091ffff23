"""What a run shows while it lives: a board on a terminal, one plain line per step elsewhere, or JSON lines.

Progress goes to stderr, JSON to stdout; `NO_COLOR` is honoured. Trackers see the same numbers.
"""

from __future__ import annotations

import json as json_module
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

from agon.rundir import RunDir
from agon.rundir.files import plain
from agon.training.trackers import Trackers

Record = Mapping[str, Any]
BARS = "▁▂▃▄▅▆▇█"
PAINT = {"a": "black on cyan", "b": "white on magenta"}
"""Of a policy's letter alone: numbers keep the terminal's own colours, which can be read on any background."""
STREAMS = (("standalone", "drafter", "drafts"), ("competitive", "challenger", "challenges"))


class View(Protocol):
    """One way to show a run."""

    def step(self, record: Record, timing: Record) -> None: ...

    def point(self, point: Record) -> None: ...

    def say(self, sentence: str) -> None: ...

    def close(self) -> None: ...


class Pace:
    """How long the rest will take, from the newest steps."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._seconds: deque[float] = deque(maxlen=20)

    def left(self, record: Record, timing: Record) -> str:
        """The time left, in words."""
        self._seconds.append(sum(timing["seconds"].values()))
        # the median: an evaluation or the rehearsal before step 1 is not what the next step costs
        return duration(median(self._seconds) * (self.total - record["step"] - 1))


class Lines:
    """One plain line per step on stderr."""

    def __init__(self, total: int) -> None:
        self.total, self.pace = total, Pace(total)

    def step(self, record: Record, timing: Record) -> None:
        self.say(f"{step_line(record, self.total)}  {speed(timing)}  {self.pace.left(record, timing)} left")

    def point(self, point: Record) -> None:
        self.say(point_line(point))

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing is open."""


class JsonLines(Lines):
    """Every record as one line of JSON on stdout; sentences on stderr."""

    def step(self, record: Record, timing: Record) -> None:
        self._print({"step": record, "timing": timing})

    def point(self, point: Record) -> None:
        self._print({"point": point})

    def _print(self, value: Record) -> None:
        print(json_module.dumps(plain(dict(value))), flush=True)


class Board:
    """A panel that is redrawn after every step, with what was said above it."""

    def __init__(self, total: int, name: str, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self.total, self.name, self.pace = total, name, Pace(total)
        self.console = console or Console(stderr=True)
        self.rewards: dict[str, deque[float | None]] = {stream: deque(maxlen=40) for stream, _, _ in STREAMS}
        self.dev: list[str] = []
        self._newest: tuple[Record, Record, str] | None = None
        # no refreshing thread: verifier workers are forked from this process
        self.live = Live(console=self.console, auto_refresh=False)

    def step(self, record: Record, timing: Record) -> None:
        for stream, _, _ in STREAMS:
            self.rewards[stream].append((record[stream] or {}).get("reward_mean"))
        self._newest = record, timing, self.pace.left(record, timing)
        self._draw()

    def point(self, point: Record) -> None:
        self.dev = point_lines(point)
        self.say(point_line(point))
        self._draw()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self.live.stop()

    def _draw(self) -> None:
        if self._newest:
            self.live.start()
            self.live.update(self._panel(*self._newest), refresh=True)

    def _panel(self, record: Record, timing: Record, left: str) -> Any:
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        done = record["step"] + 1
        title = Text(f" {self.name}  step {done} of {self.total}  {done / self.total:.0%}  {left} left ", style="bold")
        notes = [*exchange_lines(record), *self._rewards(), parts(timing), *self.dev]
        return Panel(Group(self._table(record), "", *map(Text, notes)), title=title, title_align="left", expand=False)

    def _table(self, record: Record) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("", "", "solo", "reward", "live", "tokens", "cut", "formed"):
            table.add_column(name, justify="right" if name else "left", min_width=6 if name else 3)
        rows = [(record[role], verb, record[stream]) for stream, role, verb in STREAMS if record[stream]]
        for policy, verb, values in sorted(rows, key=lambda row: row[0]):
            table.add_row(Text(f" {policy.upper()} ", style=PAINT[policy]), verb, *cells(values))
        return table

    def _rewards(self) -> list[str]:
        bars = BARS if str(self.console.encoding).lower().startswith("utf") else " .:-=+*#"
        known = [(verb, self.rewards[stream]) for stream, _, verb in STREAMS if set(self.rewards[stream]) != {None}]
        return [f"reward        {verb:<10} {spark(values, bars)}" for verb, values in known]


class Scoreboard:
    """Whoever looks on: one view and any number of trackers."""

    def __init__(self, view: View, trackers: Trackers) -> None:
        self.view, self.trackers = view, trackers

    def step(self, record: Record, timing: Record) -> None:
        self.view.step(record, timing)
        self._tell(self.trackers.log(record["step"], record, {"timing": timing}))

    def point(self, point: Record) -> None:
        self.view.point(point)
        self._tell(self.trackers.log(point["step"], {"dev": point}))

    def say(self, sentence: str) -> None:
        self.view.say(sentence)

    def close(self) -> None:
        self._tell(self.trackers.close())
        self.view.close()

    def _tell(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self.view.say(sentence)


def scoreboard(total: int, *, json: bool, trackers: Sequence[str], run: RunDir) -> Scoreboard:
    """The view that fits: JSON when asked, a board on a terminal, plain lines elsewhere."""
    first = os.environ.get("RANK", "0") == "0"
    reporting = Trackers(trackers if first else (), run.path.name, run.path, run.config)
    if json:
        return Scoreboard(JsonLines(total), reporting)
    if first and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return Scoreboard(Board(total, run.path.name), reporting)
    return Scoreboard(Lines(total), reporting)


def step_line(record: Record, total: int) -> str:
    """A step in one line: who did what, and what came of it."""
    words = [f"step {record['step'] + 1}/{total}"]
    for stream, role, verb in STREAMS:
        if values := record[stream]:
            words.append(f"{record[role].upper()} {verb} {rate(values['solo_rate'])}")
    streams = [record[stream] for stream, _, _ in STREAMS if record[stream]]
    words += [
        "reward " + "/".join(rate(stream["reward_mean"]) for stream in streams),
        "live " + " ".join(f"{stream['live_groups']}/{stream['groups']}" for stream in streams),
        "tokens " + "/".join(count(stream["tokens_mean"]) for stream in streams),
        "cut " + "/".join(percent(stream["truncated"]) for stream in streams),
    ]
    if against := record["competitive"]:
        words.append(f"conversions {against['conversions']}/{against['rival_wrong']}")
        words.append(f"regressions {against['regressions']}/{against['rival_right']}")
        words.append(f"empty peeks {against['empty_peeks']}/{against['shown']}")
    return "  ".join(words)


def exchange_lines(record: Record) -> list[str]:
    """What the challenger made of the drafts."""
    against = record["competitive"]
    if not against:
        return []
    drafter, challenger = record["drafter"].upper(), record["challenger"].upper()
    return [
        f"conversions   {share(against['conversions'], against['rival_wrong'])}  {drafter} wrong, {challenger} right",
        f"regressions   {share(against['regressions'], against['rival_right'])}  {drafter} right, {challenger} wrong",
        f"empty peeks   {share(against['empty_peeks'], against['shown'])}  drafts that left no summary",
        f"leaks         {share(against['leaks'], against['shown'])}  peeks that say the answer in prose",
    ]


def point_line(point: Record) -> str:
    """An evaluation point in one line."""
    return "  ".join(point_lines(point))


def point_lines(point: Record) -> list[str]:
    """The same in lines of less than 80 columns: what plays now, then what plays against first versions."""
    names = sorted(point["systems"], key=lambda name: (len(name), name))
    told = [f"{name} {rate(point['systems'][name]['pass'])}" for name in names]
    now, first = ([words for words in told if words.startswith("first-") is old] for old in (False, True))
    return [f"dev at step {point['step']}: {'  '.join(now)}", *(["  ".join(first)] if first else [])]


def cells(stream: Record) -> list[str]:
    """The numbers of one stream, in the order of the board's columns."""
    return [
        rate(stream["solo_rate"]),
        rate(stream["reward_mean"]),
        f"{stream['live_groups']}/{stream['groups']}",
        count(stream["tokens_mean"]),
        percent(stream["truncated"]),
        percent(stream["well_formed"]),
    ]


def parts(timing: Record) -> str:
    """Where the time of a step went."""
    spent = "  ".join(f"{name} {seconds:.1f} s" for name, seconds in timing["seconds"].items() if seconds >= 0.05)
    return f"speed         {speed(timing)}   {spent}"


def speed(timing: Record) -> str:
    return f"{count(timing['tokens_per_second'])} tokens/s"


def rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def share(part: int, whole: int) -> str:
    return f"{part:>4} of {whole:<4} {percent(part / whole if whole else None):>4}"


def duration(seconds: float) -> str:
    """Seconds as a person says them: 42 s, 7 min, 1 h 42 min, 3 d 4 h."""
    minutes, hours = round(seconds / 60), round(seconds / 3600)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def spark(values: Iterable[float | None], bars: str = BARS) -> str:
    """Values as a row of bars between their least and greatest; a gap where there is none."""
    values = list(values)
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    scale = (len(bars) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if value is None else bars[round((value - low) * scale)] for value in values)
