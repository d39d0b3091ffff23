"""The part of a plan that names a GPU: memory with a verdict, rollouts in flight, seconds, hours and the price."""

from __future__ import annotations

from dataclasses import dataclass

from agon.config import Config
from agon.engine.base_config import read_base_config
from agon.engine.vllm.placement import MARGIN, SEQUENCES
from agon.errors import EngineError, InputError
from agon.formatting import duration, plural
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.estimate import count, engines_of, points_of, total_steps
from agon.plan.fit import Fit, changes, fit, gib, has_server, smallest
from agon.plan.footprint import CONTEXT, SPARE, sequence_bytes
from agon.plan.gpus import Gpu, Node
from agon.plan.plan_section import Cell, Counts, Section
from agon.plan.schedule import idle_engines
from agon.plan.step_time import Assumptions, Bouts, Speed, StepSeconds, bouts_of

START = 180.0
"""Assumption: seconds until the first step, with everything downloaded."""


@dataclass(frozen=True, slots=True)
class Hours:
    """Seconds of a step and of an evaluation point, and of the whole run where the number of steps is known."""

    step: StepSeconds
    longest: float
    """The longest bout of a step, alone in its engine."""
    point: float | None
    """Of all evaluation points together; None where the size of dev is not known."""
    points: int
    run: float | None


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """A config on hardware: what is printed, and why it is refused, if it is."""

    sections: tuple[Section, ...]
    refusal: EngineError | None
    verdict: str = ""
    """Whether it fits, for how long and at what price, in one line; empty if it is refused."""


def plan_on(config: Config, hardware: Node, assumed: Assumptions | None = None) -> HardwarePlan:
    """Lay a config out on hardware and estimate its time; nothing is loaded or downloaded."""
    if config.sampler.engine != "vllm":
        raise InputError(
            f"--gpu plans for engine vllm, and sampler.engine is {config.sampler.engine}",
            fix="add sampler.engine=vllm, or leave --gpu out",
        )
    assumed = assumed or Assumptions()
    shape = shape_of(read_base_config(config.model))
    laid = fit(config, shape, hardware.gpu)
    refusal = _refusal(config, shape, laid)
    memory, assumptions = _memory(laid, config), _assumptions(hardware.gpu, assumed)
    if refusal:
        return HardwarePlan((memory, assumptions), refusal)
    found = hours(config, shape, hardware, in_flight(laid, shape, config, assumed), assumed)
    drawing = _drawing(laid, shape, config, hardware, assumed)
    time = _time(config, hardware, found, assumed)
    return HardwarePlan((memory, drawing, time, assumptions), None, _verdict(hardware, found))


def _verdict(hardware: Node, found: Hours | None) -> str:
    fits = f"fits on {_gpus(hardware)}"
    if found is None:
        return f"{fits}; how long it takes is not known: name the GPU, such as --gpu h100"
    if found.run is None:
        return f"{fits}; about {found.step.total:,.0f} s per step"
    cost = _cost(hardware, found.run)
    return f"{fits}; about {found.run / 3600:,.1f} h{f', {cost}' if cost else ''}, estimated and never measured"


def _gpus(hardware: Node) -> str:
    return f"{hardware.gpus} x {hardware.gpu.name}"


def _cost(hardware: Node, seconds: float) -> str | None:
    return None if hardware.price is None else f"${seconds / 3600 * hardware.gpus * hardware.price:,.0f}"


def _refusal(config: Config, shape: Shape, laid: Fit) -> EngineError | None:
    problems = laid.problems()
    if not problems:
        return None
    message = f"{config.model.name} does not fit on {laid.gpu.name} as configured: {'; '.join(problems)}"
    if keys := changes(config, shape, laid.gpu):
        return EngineError(message, fix=f"set {' '.join(keys)}")
    larger = smallest(config, shape)
    return EngineError(
        message, fix=f"use --gpu {larger}" if larger else "use a smaller base, or lower train.max_completion_tokens"
    )


def _memory(laid: Fit, config: Config) -> Section:
    learner, engine = laid.learner, laid.engine
    rows: dict[str, tuple[Cell, ...]] = {
        "learner: base, adapters, optimizer": (gib(learner.static),),
        "learner: largest pass": (gib(learner.activations),),
        "left for the learner in an update": (gib(max(laid.left, 0)),),
    }
    if engine is None:
        rows["engine"] = ("on GPUs of its own, behind a server",)
    else:
        rows |= {
            "engine: share of the GPU": (f"{gib(laid.taken)}, sampler.gpu_memory_utilization={laid.share:.2f}",),
            "engine: weights": (gib(engine.weights),),
            "engine: adapters, workspace, graphs": (gib(engine.slots + engine.workspace),),
            "engine: cache": (gib(max(laid.cache, 0)),),
            "engine sleeps while the learner works": ("yes" if laid.sleeps else "no",),
        }
    rows["rest: CUDA in each process"] = (gib(CONTEXT * (2 if engine else 1)),)
    rows["fits"] = ("no" if laid.problems() else "yes",)
    return Section(f"memory on {laid.gpu.name}, {laid.gpu.gib:g} GiB", rows)


def in_flight(laid: Fit, shape: Shape, config: Config, assumed: Assumptions) -> int:
    """Completions of mean length that an engine draws at once."""
    if laid.engine is None:
        return SEQUENCES
    length = int(assumed.mean * config.train.max_completion_tokens) + assumed.prompt + assumed.peek
    return max(laid.in_flight(sequence_bytes(shape, config, length)), 1)


def _drawing(laid: Fit, shape: Shape, config: Config, hardware: Node, assumed: Assumptions) -> Section:
    game, cap = config.rules(), config.train.max_completion_tokens
    per_step = step_bouts(config, assumed).completions
    stages = 2 if game.two_stages else 1
    slots = in_flight(laid, shape, config, assumed)
    rows: dict[str, tuple[Cell, ...]] = {
        "rollouts per step and engine": (-(-per_step // hardware.gpus),),
        "rollouts in flight, of mean length": (slots,),
    }
    if laid.engine:
        rows["rollouts in flight, all at the cap"] = (max(laid.in_flight(laid.sequence), 1),)
    rows["longest chain"] = (
        f"{stages * cap:,} tokens, draft + challenge, at most" if stages == 2 else f"{cap:,} tokens",
    )
    warning = idle_engines(config.train.problems_per_step, hardware.gpus)
    if warning and engines_of(config) is None:
        rows["warning"] = (warning,)
    return Section("drawing", rows)


def step_bouts(config: Config, assumed: Assumptions) -> Bouts:
    """The bouts of one step, at assumed lengths."""
    game, train = config.rules(), config.train
    drafts = game.drafts_per_problem * train.problems_per_step
    return bouts_of(drafts, game.two_stages, train.max_completion_tokens, assumed)


def hours(config: Config, shape: Shape, hardware: Node, slots: int, assumed: Assumptions) -> Hours | None:
    """Seconds by part; None for a GPU of which only the memory is known."""
    speed = Speed.of(shape, config, hardware.gpu, assumed)
    if speed is None:
        return None
    counts = count(config.data)
    bouts = step_bouts(config, assumed)
    rows = sorted((*bouts.drafts, *filter(None, bouts.challenges)), reverse=True)
    step = StepSeconds(
        play=speed.draw(bouts.share(hardware.gpus), slots),
        update=max(assumed.live * speed.update(rows) / hardware.gpus, speed.update(rows[:1])),
        publish=assumed.publish,
        sleep=speed.sleep() if config.sampler.sleep is not False and not has_server(config) else 0.0,
    )
    points, point = _points(config, counts, speed, hardware, slots)
    steps = total_steps(config, counts)
    run = None if steps is None or point is None else START + steps * step.total + point
    longest = speed.draw(bouts.share(len(bouts.drafts)), 1)
    return Hours(step, longest, point, points, run)


def _points(config: Config, counts: Counts, speed: Speed, hardware: Node, slots: int) -> tuple[int, float | None]:
    """How many evaluation points there are, and their seconds together; None where the size of dev is not known."""
    points, total = points_of(config, counts)
    if total is None or not points:
        return points, None if points else 0.0
    bouts = bouts_of(
        -(-total // (2 * points)), config.rules().two_stages, config.eval.max_completion_tokens, speed.assumed
    )
    return points, points * speed.draw(bouts.share(hardware.gpus), slots)


def _time(config: Config, hardware: Node, found: Hours | None, assumed: Assumptions) -> Section:
    if found is None:
        return Section("time", {"not known": ("name the GPU and not only its size, such as --gpu h100",)})
    step, tokens = found.step, step_bouts(config, assumed).longest
    rows: dict[str, tuple[Cell, ...]] = {
        "play": (f"{step.play:,.0f} s",),
        "of these the longest bout alone": (f"{found.longest:,.0f} s, {tokens:,} tokens; more GPUs do not shorten it",),
        "update": (f"{step.update:,.0f} s",),
        "publish and compare": (f"{step.publish:,.0f} s",),
        "sleep and wake up": (f"{step.sleep:,.1f} s",),
        "step": (f"{step.total:,.0f} s",),
        _points_label(found.points): (None if found.point is None else duration(found.point),),
    }
    if found.run is not None:
        rows["run"] = (f"{found.run / 3600:,.1f} h",)
        if cost := _cost(hardware, found.run):
            rows["cost"] = (cost,)
    return Section(f"time on {_gpus(hardware)}, estimated", rows)


def _points_label(points: int) -> str:
    """`eval.points` does not count the one before the first step."""
    return f"evaluation at step 0 and {plural(points - 1, 'point')}" if points else "evaluation"


def _assumptions(gpu: Gpu, assumed: Assumptions) -> Section:
    """Every figure that neither config nor base gives, with where it is from."""
    rows: dict[str, tuple[Cell, ...]] = {
        "memory of the GPU": (f"{gpu.gib:g} GiB ({gpu.source})",),
        "arithmetic, bfloat16": (f"{gpu.teraflops:,} TFLOP/s ({gpu.source})" if gpu.teraflops else None,),
        "bandwidth": (f"{gpu.bandwidth:g} TB/s ({gpu.source})" if gpu.bandwidth else None,),
        **{name: (words,) for name, words in assumed.rows().items()},
        "memory that is no tensor": (
            f"CUDA {gib(CONTEXT)} per process, {SPARE:.0%} lost between blocks, {gib(MARGIN)} left free",
        ),
    }
    return Section("assumptions", rows)
