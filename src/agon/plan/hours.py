"""Seconds of a step, of evaluation points and of a whole run on the GPUs of a node."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agon.config import Config
from agon.engine.vllm.placement import SEQUENCES
from agon.plan.base_shapes import Shape
from agon.plan.estimate import count, drawn_at_points, total_steps
from agon.plan.fit import Fit
from agon.plan.footprint import layout_of, sequence_bytes
from agon.plan.gpus import Node
from agon.plan.plan_section import Counts
from agon.plan.step_time import Assumptions, Bouts, Speed, StepSeconds, bouts_of

START = 180.0
"""Assumption: seconds until the first check, with everything downloaded."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Seconds of a step and of an evaluation point, and of the whole run where the number of steps is known."""

    step: StepSeconds
    longest: float
    """The longest bout of a step, alone in its engine."""
    point: float | None
    """Of all evaluation points together; None where the size of dev is not known."""
    points: int
    before: float
    """From the start until the first step: loading, and the check of the engines."""
    run: float | None


def in_flight(laid: Fit, shape: Shape, config: Config, assumed: Assumptions) -> int:
    """Completions of mean length that an engine draws at once."""
    if laid.engine is None:
        return SEQUENCES
    length = int(assumed.mean * config.train.max_completion_tokens) + assumed.prompt + assumed.peek
    return max(laid.in_flight(sequence_bytes(shape, config, length)), 1)


def step_bouts(config: Config, assumed: Assumptions) -> Bouts:
    """The bouts of one step, at assumed lengths."""
    game, train = config.rules(), config.train
    drafts = game.drafts_per_problem * train.problems_per_step
    return bouts_of(drafts, game.two_stages, train.max_completion_tokens, assumed)


def step_seconds(config: Config, hardware: Node, laid: Fit, speed: Speed) -> StepSeconds:
    """One step by part. Steps are played ahead only where engines have GPUs of their own: on one that they share with
    learners, what one computes the other waits for."""
    assumed, shape, layout = speed.assumed, speed.shape, layout_of(config, hardware.gpus)
    bouts, slots = step_bouts(config, assumed), in_flight(laid, shape, config, assumed)
    learnt = bouts.challenges if config.rules().rival == "learns" else ()  # else A's: drafts or challenges, in turn
    rows = sorted((*bouts.drafts, *filter(None, learnt)), reverse=True)
    update = max(assumed.live * speed.update(rows) / layout.learners, speed.update(rows[:1]))
    if config.train.shard == "base":
        update += speed.gather(rows, layout.learners)
    share = bouts.share(layout.engines)
    step = StepSeconds(
        play=speed.draw(share, slots),
        update=update,
        publish=assumed.publish,
        checks=speed.checks() if config.sampler.canary != "off" else 0.0,
        sleep=speed.sleep() if laid.sleeps else 0.0,
    )
    if not (config.train.staleness and layout.apart):
        return step
    return replace(step, saved=max(step.total - speed.ahead(share, slots, step.learn, config.train.staleness), 0.0))


def hours(config: Config, shape: Shape, hardware: Node, laid: Fit, assumed: Assumptions) -> Hours | None:
    """Seconds by part; None for a GPU of which only the memory is known."""
    speed = Speed.of(shape, config, hardware.gpu, assumed)
    if speed is None:
        return None
    counts, layout, slots = (
        count(config.data),
        layout_of(config, hardware.gpus),
        in_flight(laid, shape, config, assumed),
    )
    step, bouts = step_seconds(config, hardware, laid, speed), step_bouts(config, assumed)
    points, point = _points(config, counts, speed, layout.engines, slots)
    steps = total_steps(config, counts)
    before = START + (speed.first_check(layout.engines) if config.sampler.canary != "off" else 0.0)
    run = None if steps is None or point is None else before + steps * step.total + point
    longest = speed.draw(bouts.share(len(bouts.drafts)), 1)
    return Hours(step, longest, point, points, before, run)


def _points(config: Config, counts: Counts, speed: Speed, engines: int, slots: int) -> tuple[int, float | None]:
    """How many evaluation points there are, and their seconds together; None where the size of dev is not known."""
    points, total = drawn_at_points(config, counts)
    if total is None or not points:
        return points, None if points else 0.0
    two = config.rules().two_stages
    bouts = bouts_of(-(-total // ((1 + two) * points)), two, config.eval.max_completion_tokens, speed.assumed)
    return points, points * speed.draw(bouts.share(engines), slots)
