"""A run as a discrete-event simulation: engines that batch, verifiers, a learner, and steps that are played ahead.

Times come from `Costs`, lengths from bouts. An engine draws a token of every completion in its batch per step of its
own; completions wait where it is full; a challenge begins where its draft ended, at the least busy engine. Every row
passes through the process that feeds the engines. A step is learnt from when all its bouts have verdicts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

SLICES = 50
"""Pieces of the learner's time in a step, each as long as it takes beside what the engines do then."""


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    step: float
    """Of a token, for the whole batch."""
    row: float
    """More of a token, for each completion in the batch."""
    prefill: float
    """Of a token of a prompt."""
    verdict: float
    """Of a row, on one worker."""
    update: float
    """Of an update, whatever it holds."""
    token: float
    """More of an update, for each token of a prompt or completion on one learner process."""
    rest: float
    """Of publishing, checking and writing, after every step."""
    feed: float = 0.0
    """Of a row, in the process that feeds the engines."""
    beside: float = 1.0
    """Not seconds: how much longer engine and learner take while the other works too. On GPUs of their own, 1."""


@dataclass(frozen=True)
class Layout:
    """What runs."""

    engines: int = 1
    slots: int = 256
    """Completions that an engine draws at once."""
    workers: int = 1
    """Verifiers."""
    learners: int = 1
    staleness: int = 0
    stride: int = 1
    """Tokens that an engine draws before it looks for new requests: real ones look after each."""


@dataclass(frozen=True)
class Lengths:
    """Tokens of a bout; a challenge of 0 is none."""

    prompt: int
    draft: int
    seen: int = 0
    """Of the challenge's prompt."""
    challenge: int = 0

    @property
    def learnt(self) -> int:
        """Tokens that the learner computes."""
        return self.prompt + self.draft + self.seen + self.challenge


@dataclass
class Outcome:
    """When each step ended, and how long each part worked."""

    ends: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """Seconds that the learner waited for play, by step."""
    engines: float = 0.0
    """Share of the time in which an engine drew, over all engines."""
    learner: float = 0.0
    """Share of the time in which the learner computed."""

    def seconds(self, first: int = 0) -> float:
        """Mean seconds per step, from step `first` on."""
        began = self.ends[first - 1] if first else 0.0
        return (self.ends[-1] - began) / (len(self.ends) - first)

    def steady(self, ahead: int) -> float:
        """Mean seconds per step while as many steps were in flight at the beginning as at the end."""
        ends = self.ends[ahead + 1 : len(self.ends) - ahead]
        return (ends[-1] - ends[0]) / (len(ends) - 1)


class _Engine:
    """Draws what it is asked for, a batch at a time."""

    def __init__(self, env: simpy.Environment, costs: Costs, layout: Layout, learner: _Learner) -> None:
        self.env, self.costs, self.layout, self.learner = env, costs, layout, learner
        self.waiting: deque[list[Any]] = deque()
        self.active: list[list[Any]] = []
        self.busy, self.asked = 0.0, env.event()
        env.process(self._run())

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.active)

    def draw(self, prompt: int, tokens: int) -> simpy.Event:
        done = self.env.event()
        self.waiting.append([tokens, prompt, done])
        if not self.asked.triggered:
            self.asked.succeed()
        return done

    def _run(self) -> Iterator[simpy.Event]:
        while True:
            if not self.load:
                self.asked = self.env.event()
                yield self.asked
                yield self.env.timeout(0)  # what comes at the same time is drawn together
            began, prefilled = self.env.now, 0
            while self.waiting and len(self.active) < self.layout.slots:
                self.active.append(self.waiting.popleft())
                prefilled += self.active[-1][1]
            tokens = min(self.layout.stride, *(row[0] for row in self.active))
            per_token = self.costs.step + self.costs.row * len(self.active)
            beside = self.costs.beside if self.learner.works else 1.0
            yield self.env.timeout(beside * (prefilled * self.costs.prefill + tokens * per_token))
            self.busy += self.env.now - began
            for row in self.active:
                row[0] -= tokens
                if row[0] <= 0:
                    row[2].succeed()
            self.active = [row for row in self.active if row[0] > 0]


class _Learner:
    """Works for a time, which is longer while an engine works too."""

    def __init__(self, env: simpy.Environment, costs: Costs) -> None:
        self.env, self.costs = env, costs
        self.works = False

    def work(self, seconds: float, engines: Sequence[_Engine]) -> Iterator[simpy.Event]:
        self.works = True
        slices = SLICES if self.costs.beside > 1 else 1
        for _ in range(slices):
            beside = self.costs.beside if any(engine.load for engine in engines) else 1.0
            yield self.env.timeout(beside * seconds / slices)
        self.works = False


class _Run:
    """One run: steps of bouts through the parts of a layout."""

    def __init__(self, costs: Costs, layout: Layout, steps: Sequence[Sequence[Lengths]]) -> None:
        self.env, self.costs, self.layout, self.steps = simpy.Environment(), costs, layout, steps
        self.learner = _Learner(self.env, costs)
        self.engines = [_Engine(self.env, costs, layout, self.learner) for _ in range(layout.engines)]
        self.workers = simpy.Resource(self.env, layout.workers)
        self.feeder = simpy.Resource(self.env, 1)
        self.flights: dict[int, simpy.Event] = {}
        self.outcome, self._learnt = Outcome(), 0.0

    def go(self) -> Outcome:
        self.env.run(self.env.process(self._learn()))
        total, found = self.env.now, self.outcome
        found.engines = sum(engine.busy for engine in self.engines) / (total * len(self.engines))
        found.learner = self._learnt / total
        return found

    def _learn(self) -> Iterator[simpy.Event]:
        for number, step in enumerate(self.steps):
            for ahead in range(number, min(number + self.layout.staleness + 1, len(self.steps))):
                if ahead not in self.flights:
                    bouts = [self.env.process(self._bout(lengths)) for lengths in self.steps[ahead]]
                    self.flights[ahead] = self.env.all_of(bouts)
            began = self.env.now
            yield self.flights.pop(number)
            self.outcome.waited.append(self.env.now - began)
            tokens = sum(lengths.learnt for lengths in step)
            seconds = self.costs.update + self.costs.token * tokens / self.layout.learners
            self._learnt += seconds
            yield from self.learner.work(seconds + self.costs.rest, self.engines)
            self.outcome.ends.append(self.env.now)

    def _bout(self, lengths: Lengths) -> Iterator[simpy.Event]:
        yield from self._draw(lengths.prompt, lengths.draft)
        judged = self.env.process(self._judge())
        if lengths.challenge:
            yield from self._draw(lengths.seen, lengths.challenge)
            yield from self._judge()
        yield judged

    def _draw(self, prompt: int, tokens: int) -> Iterator[simpy.Event]:
        with self.feeder.request() as turn:
            yield turn
            yield self.env.timeout(self.costs.feed)
        yield min(self.engines, key=lambda engine: engine.load).draw(prompt, tokens)

    def _judge(self) -> Iterator[simpy.Event]:
        with self.workers.request() as turn:
            yield turn
            yield self.env.timeout(self.costs.verdict)


def simulate(costs: Costs, layout: Layout, steps: Sequence[Sequence[Lengths]]) -> Outcome:
    """Run steps, each with its bouts."""
    return _Run(costs, layout, steps).go()
