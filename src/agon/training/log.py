"""What a run writes down after each step, what it shows, and the warnings about its health."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol

from agon.errors import RunError
from agon.game.rules import Game
from agon.protocols import Update
from agon.rundir import RunDir
from agon.rundir.health import Symptom, symptoms, verifier_failing
from agon.rundir.records import Point, StepRecord, Timing
from agon.training.machines import Machines
from agon.training.step_record import step_record
from agon.types import Played


class Display(Protocol):
    """What shows a run while it trains."""

    def open(self) -> None:
        """The checkpoint that the run starts from has been checked: from here on the run may be reported."""

    def step(self, record: StepRecord, timing: Timing) -> None: ...

    def point(self, point: Point) -> None: ...

    def note(self, sentence: str) -> None: ...

    def health(self, symptoms: Sequence[Symptom]) -> None: ...

    def close(self) -> None: ...


class Silent:
    """Shows nothing, for scripts that want no output."""

    def open(self) -> None:
        pass

    def step(self, record: StepRecord, timing: Timing) -> None:
        pass

    def point(self, point: Point) -> None:
        pass

    def note(self, sentence: str) -> None:
        pass

    def health(self, symptoms: Sequence[Symptom]) -> None:
        pass

    def close(self) -> None:
        pass


class Stopwatch:
    """Seconds by part since the last `take`."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(part, time.perf_counter() - began)

    def add(self, part: str, seconds: float) -> None:
        self._seconds[part] = self._seconds.get(part, 0.0) + seconds

    def take(self) -> dict[str, float]:
        """The seconds so far, and start again from zero."""
        seconds, self._seconds = self._seconds, {}
        return seconds


class TrainingLog:
    """Writes the step, its bouts and its timing; warns once about what looks wrong."""

    def __init__(
        self, run: RunDir, machines: Machines, display: Display, arm: str, game: Game, ahead: bool = False
    ) -> None:
        """`ahead`: steps are played while the learner computes."""
        self.run, self.machines, self.display, self.arm, self.game = run, machines, display, arm, game
        self.ahead = ahead
        self.timed = Stopwatch()
        self._warned: set[str] = set()
        self._before = 0
        """Steps that were in the log when this process began."""

    def write(self, played: Played, update: Update) -> None:
        """Write the step down."""
        history = self.history
        record = step_record(played, update.metrics, self.game)
        timing = self._timing(record)
        with self.timed("write"):
            self.run.write_bouts(update.step, played.bouts, self.arm, record.staleness)
            self.run.steps.append(record)
            self.run.timings.append(timing)
        history.append(record)
        self.display.step(record, timing)

    @cached_property
    def history(self) -> list[StepRecord]:
        """Every record of the run so far, read once; call it first after the log was rewound."""
        records = self.run.steps.records()
        self._before = len(records)
        return records

    @property
    def steps(self) -> int:
        """Steps in the log."""
        return self.history[-1].step + 1 if self.history else 0

    def _timing(self, record: StepRecord) -> Timing:
        spent = self.timed.take()
        tokens = sum(entry.generated for entry in record.ledger.values())
        playing = sum(spent.values()) if self.ahead else spent.get("play")
        return Timing(
            step=record.step,
            seconds={name: round(value, 4) for name, value in spent.items()},
            tokens_per_second=round(tokens / playing, 1) if playing else None,
            memory=dict(self.machines.learner.memory()),
            canary=self.machines.gaps(),
            attested=self.machines.attested(),
        )

    def check_health(self) -> None:
        """Warn once about each symptom; stop when the verifier fails too often to trust its other verdicts.

        Steps before a resume stop nothing: whoever resumed was told of them, and could not go on otherwise.
        """
        found = symptoms(self.history)
        for symptom in found:
            if symptom.name not in self._warned:
                self._warned.add(symptom.name)
                self.display.note(f"warning: {symptom}")
        self.display.health(found)
        if failing := verifier_failing(self.history[self._before :]):
            raise RunError(failing, fix="run `agon doctor`, then `agon train RUN --resume`")
