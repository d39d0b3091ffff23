"""What a run writes while it trains, as typed records. Tables of docs/rundir.md are generated from these docstrings.

Everything in a `StepRecord` and a `Point` is deterministic, so that a resumed run writes the same lines. A number that
is not finite is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from agon.errors import RunDirError, upgrade
from agon.game.budget import Entry
from agon.game.exchange import Exchange
from agon.rundir.files import check_plain, write_json
from agon.types import Direction, Policy, Version

SCHEMA = 1

VersionName = Annotated[Version, BeforeValidator(Version)]


class Record(BaseModel):
    """A value in a file: frozen, and without keys that nobody described."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True)


class StreamStats(Record):
    """The rollouts that trained one policy in one step."""

    n: int
    """Rollouts."""
    graded: int
    """Rollouts with a verdict; the others are masked."""
    pass_rate: float | None
    """Share of the graded that are right."""
    reward_mean: float | None
    """Mean reward, where it is known."""
    groups: int
    """Groups of rollouts that share a problem."""
    live_groups: int
    """Groups with at least two different rewards: the others teach nothing."""
    well_formed: float | None
    """Share with the structure that the format term asks for."""
    truncated: float | None
    """Share cut at the token limit."""
    tokens_mean: float | None
    """Mean generated tokens."""


class StepRecord(Record):
    """One line of `steps.jsonl`."""

    step: int
    """Counts from 0."""
    drafter: Policy
    """Who drafted: `a` or `b`."""
    challenger: Policy
    """Who challenged; the drafter itself in arms with one policy."""
    standalone: StreamStats
    """The drafts."""
    competitive: StreamStats | None = None
    """The challenges; null in arms with one stage."""
    exchange: Exchange | None = None
    """What the challenges made of the drafts; null in arms with one stage."""
    bonus_groups: int | None = None
    """Groups of challenges whose advantages would be different without the bonus; null where none is paid."""
    bonus_weight: float | None = None
    """How much more it pays to be right against a wrong draft than against a right one, in groups with both; 1 is no
    difference, null where no bonus is paid, no group has both, or nothing pulls on right drafts."""
    versions: dict[Policy, VersionName]
    """Which version of each policy was sampled."""
    ledger: dict[str, Entry]
    """Rollouts and tokens by stage and policy, such as `draft/a`."""
    update: dict[Policy, dict[str, float | None]]
    """What the learner reports for each policy: loss, gradient norm, learning rate and more."""
    ungraded: int
    """Rollouts without a verdict, in both streams."""
    staleness: int = 0
    """Updates between the versions that drew the step and those that learnt from it; at most `train.staleness`."""

    @property
    def streams(self) -> tuple[StreamStats, ...]:
        return (self.standalone,) if self.competitive is None else (self.standalone, self.competitive)

    @property
    def rollouts(self) -> int:
        return sum(stream.n for stream in self.streams)


class Timing(Record):
    """One line of `timings.jsonl`: everything that changes from machine to machine."""

    step: int
    """As in `steps.jsonl`."""
    seconds: dict[str, float]
    """Seconds by part: `play`, `check` (of samples and adapters), `update`, `publish`, `write`, `eval`, `save`; before
    the first step also `rehearse`. With `train.staleness`, `play` is what the learner waited for it."""
    tokens_per_second: float | None
    """Generated tokens per second of `play`; with `train.staleness`, of the whole step."""
    memory: dict[str, int]
    """Bytes in use by part, as the learner reports them."""
    canary: dict[str, float]
    """Distance of base and policies in the engine from the learner, in nats per token, by engine if there are several;
    empty where none was measured since the step before."""
    attested: int = 0
    """Adapters that engines found equal to the learner's files, to the bit, since the step before."""


class Joint(Record):
    """Two policies on the same trials: the four counts."""

    both_right: int
    """Trials that both solve."""
    only_first: int
    """Trials that only A solves."""
    only_second: int
    """Trials that only B solves."""
    both_wrong: int
    """Trials that both miss."""

    @classmethod
    def count(cls, outcomes: Iterable[tuple[bool, bool]]) -> Joint:
        """Count pairs of outcomes."""
        pairs = list(outcomes)
        return cls(
            both_right=sum(a and b for a, b in pairs),
            only_first=sum(a and not b for a, b in pairs),
            only_second=sum(b and not a for a, b in pairs),
            both_wrong=sum(not a and not b for a, b in pairs),
        )

    @property
    def error_overlap(self) -> float | None:
        """Of the trials that either misses, the share that both miss."""
        wrong = self.both_wrong + self.only_first + self.only_second
        return self.both_wrong / wrong if wrong else None

    @property
    def yule_q(self) -> float | None:
        """Yule's Q: 1 when they fail alike, 0 when independently, -1 when apart."""
        agree, differ = self.both_right * self.both_wrong, self.only_first * self.only_second
        return (agree - differ) / (agree + differ) if agree + differ else None


class SystemCounts(Record):
    """One system at an evaluation point."""

    n: int
    """Graded answers."""
    correct: int
    """Right answers."""
    ungraded: int
    """Answers without a verdict: a broken machine is not a wrong answer."""
    well_formed: int
    """Answers with the structure that the format term asks for."""
    tokens_final: int
    """Tokens generated by the last stage."""
    tokens_all: int
    """Tokens generated by all stages."""
    exchange: Exchange | None = None
    """What the second stage made of the first; null for a single pass."""
    joint: Joint | None = None
    """Of `b` alone: how A and B fail together."""

    @property
    def pass_rate(self) -> float | None:
        return self.correct / self.n if self.n else None


class Point(Record):
    """One evaluation along the run, on dev: an entry of `points.json`."""

    step: int
    """Steps done before it."""
    direction: Direction | None
    """The better cascade; null in arms without one."""
    score: float
    """Pass rate of what would be deployed, on dev: the best step is the one with the highest."""
    systems: dict[str, SystemCounts]
    """By name: `a`, `b`, `ab`, `ba`, `self-refine`; in `first-ab` and `first-ba` the drafter is its first version."""
    held_out: dict[str, SystemCounts] | None = None
    """The same on held-out, without the first versions, for the curve alone; null unless `eval.curve` is `held_out`."""


def best_point(points: Sequence[Point]) -> Point | None:
    """The point with the highest score on dev, the earliest of several; None where nothing was evaluated."""
    return max(points, key=lambda point: point.score, default=None)


class Mark(Record):
    """Where a log ended when a checkpoint was saved."""

    bytes: int = 0
    """Bytes in whole lines."""
    last: int | None = None
    """The last step; null when the log was empty."""


class Flight(Record):
    """A step that is played, and not learnt from yet."""

    step: int
    """Which step."""
    began: int
    """Updates that were done when it began."""
    versions: dict[Policy, VersionName]
    """Who plays each policy in it, to its end."""

    @property
    def staleness(self) -> int:
        """Updates between the versions that play it and those that will learn from it."""
        return self.step - self.began


class RunState(Record):
    """What a checkpoint remembers of a run besides the learner's own state."""

    versions: dict[Policy, VersionName] = {}
    """The newest version of each policy."""
    first: dict[Policy, VersionName] = {}
    """The versions that the run began with."""
    league: tuple[VersionName, ...] = ()
    """Versions of A that may play the rival, oldest first; empty unless `rival.kind` is `league`."""
    points: tuple[Point, ...] = ()
    """Evaluation points so far."""
    flights: tuple[Flight, ...] = ()
    """Steps that were in flight; a resumed run plays them again, by the same versions. Empty unless `train.staleness`
    is above 0."""


class SavedState(Record):
    """The `state` of a checkpoint's manifest."""

    step: int
    """Steps done."""
    config_hash: str
    """Names the config that the run was saved under."""
    steps: Mark
    """Where `steps.jsonl` ended."""
    timings: Mark
    """Where `timings.jsonl` ended."""
    run: RunState
    """What the run remembers."""


R = TypeVar("R", bound=Record)


def write_record(path: Path, record: Record) -> None:
    """Write a record as a JSON file of its own, atomically."""
    write_json(path, {"schema": SCHEMA, **record.model_dump(mode="json")})


def read_record(path: Path, model: type[R], fix: str) -> R:
    """Read a JSON file that holds one record; `fix` says what to type when it does not.

    Strictly: 1 is not true, "3" is not 3, and every number is finite.
    """
    check_plain(path)
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        schema = raw.pop("schema")
        if schema == SCHEMA:
            return model.model_validate_json(json.dumps(raw, allow_nan=False), strict=True)
    except ValidationError as error:
        raise RunDirError(f"cannot read {path}: {first_fault(error)}", fix=fix) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RunDirError(f"cannot read {path}: {type(error).__name__}: {error}", fix=fix) from error
    raise RunDirError(f"{path} has schema {schema!r}, this Agon reads {SCHEMA}", fix=upgrade())


def first_fault(error: ValidationError) -> str:
    """The first thing that is wrong with a file, without what stands there: that may be long."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
