"""The part of a plan that names a GPU: a verdict, memory by part, rollouts in flight, seconds, hours and the price."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from agon.config import Config
from agon.engine.backend import backend_of
from agon.engine.base_config import read_base_config
from agon.engine.vllm.placement import MARGIN, SEQUENCES
from agon.errors import EngineError, InputError
from agon.formatting import duration, plural
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.estimate import count, points_of, summary, total_steps
from agon.plan.fit import (
    Fit,
    changes,
    dtype_refusal,
    fit,
    gib,
    has_server,
    in_four_bits,
    other_base,
    smallest,
    with_value,
    written,
)
from agon.plan.footprint import CONTEXT, HOST, NCCL, SPARE, TEXT, NodeBytes, node_bytes, sequence_bytes
from agon.plan.gpus import Gpu, Node
from agon.plan.plan_section import Cell, Counts, Section
from agon.plan.schedule import idle_engines
from agon.plan.step_time import Assumptions, Bouts, Speed, StepSeconds, bouts_of

START = 180.0
"""Assumption: seconds until the first check, with everything downloaded."""
WORTH = 0.9
"""Share of the hours that a change may leave and still be advised."""
EIGHT_BITS = (8, 9)
"""Compute capability from which on an engine can keep its cache in fp8."""
UNKNOWN = 1000
"""Problems that are assumed for the size of files where their number is not known."""
SHORTER = 8192
"""Cap on completions that is tried as a cheaper run."""


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


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """A config on hardware: what is printed, and why it is refused, if it is."""

    verdict: str
    """Whether it fits, for how long and at what price, in one line."""
    summary: dict[str, Cell]
    """Its column in a table that compares arms."""
    sections: tuple[Section, ...]
    refusal: EngineError | None = None
    faster: Section | None = None
    """Keys that would save time, with the hours that they leave."""
    hours: Hours | None = None


def plan_on(config: Config, hardware: Node, assumed: Assumptions | None = None) -> HardwarePlan:
    """Lay a config out on hardware and estimate its time; nothing is loaded or downloaded."""
    if not backend_of(config).fits_gpus:
        raise InputError(
            f"--gpu plans for engine vllm, and sampler.engine is {config.sampler.engine}",
            fix="add sampler.engine=vllm, or leave --gpu out",
        )
    assumed = assumed or Assumptions()
    shape = shape_of(read_base_config(config.model))
    laid = fit(config, shape, hardware.gpu, hardware.gpus)
    node = _node(config, shape, hardware, laid, assumed)
    memory, assumptions = _memory(laid, node), _assumptions(hardware.gpu, assumed)
    wrong_dtype = dtype_refusal(config, hardware.gpu)
    if refusal := wrong_dtype or _refusal(config, shape, laid, hardware.gpus):
        verdict = f"{'cannot run' if wrong_dtype else 'does not fit'} on {_gpus(hardware)}"
        return HardwarePlan(verdict, summary(config, count(config.data)), (memory, assumptions), refusal)
    slots = in_flight(laid, shape, config, assumed)
    found = hours(config, shape, hardware, slots, assumed)
    drawing, time = _drawing(laid, shape, config, hardware, assumed), _time(config, hardware, found, assumed)
    faster = _faster(config, shape, hardware, found, assumed) if found else None
    column = _column(config, hardware, found, laid, node, slots)
    return HardwarePlan(
        _verdict(hardware, found), column, (memory, drawing, time, assumptions), faster=faster, hours=found
    )


def _node(config: Config, shape: Shape, hardware: Node, laid: Fit, assumed: Assumptions) -> NodeBytes:
    """Main memory and disk; of a run whose length is not known, those of one epoch of 1,000 problems."""
    counts = count(config.data)
    steps = total_steps(config, counts) or UNKNOWN // config.train.problems_per_step
    completions = steps * step_bouts(config, assumed).completions + (points_of(config, counts)[1] or 0)
    mean = int(assumed.mean * config.train.max_completion_tokens)
    return node_bytes(shape, config, hardware.gpus, laid.sleeps, steps, completions, mean)


def _column(
    config: Config, hardware: Node, found: Hours | None, laid: Fit, node: NodeBytes, slots: int
) -> dict[str, Cell]:
    """What a reader compares between arms."""
    rows = summary(config, count(config.data))
    rows |= {
        "step": f"{found.step.total:,.0f} s" if found else None,
        "evaluation along the run": None if found is None or found.point is None else duration(found.point),
        "run": f"{found.run / 3600:,.1f} h" if found and found.run is not None else None,
    }
    if cost := found and found.run is not None and _cost(hardware, found.run):
        rows["cost"] = cost
    return rows | {
        "GPU memory: update, at most": gib(laid.learner.peak),
        "GPU memory: engine's cache": gib(laid.cache) if laid.engine else "on GPUs of its own",
        "rollouts in flight": slots,
        "main memory": gib(node.host),
        "disk": gib(node.disk),
    }


def _faster(config: Config, shape: Shape, hardware: Node, found: Hours, assumed: Assumptions) -> Section | None:
    """Keys that save a tenth of the time or more, each tried by itself."""
    rows: dict[str, tuple[Cell, ...]] = {}
    for keys, other in _cheaper_runs(config, hardware.gpu):
        laid = fit(other, shape, hardware.gpu, hardware.gpus)
        if laid.problems():
            continue
        tried = hours(other, shape, hardware, in_flight(laid, shape, other, assumed), assumed)
        assert tried is not None
        before, after = (h.run or h.step.total for h in (found, tried))
        if after < WORTH * before:
            shown = f"{after / 3600:,.1f} h" if tried.run else f"{after:,.0f} s per step"
            rows[keys] = (shown,)
    return Section("to save time, set", rows) if rows else None


def _cheaper_runs(config: Config, gpu: Gpu) -> Iterator[tuple[str, Config]]:
    """Changes that may save time, with the keys to write; the last is a smaller experiment."""
    options = config.sampler.options
    if gpu.capability and gpu.capability >= EIGHT_BITS and "kv_cache_dtype" not in options and not has_server(config):
        merged = {**options, "kv_cache_dtype": "fp8"}
        yield shlex.quote(f"sampler.options={written(merged)}"), with_value(config, "sampler.options", merged)
    if config.train.max_completion_tokens > SHORTER:
        keys = ("train.max_completion_tokens", "eval.max_completion_tokens")
        shorter = config
        for key in keys:
            shorter = with_value(shorter, key, SHORTER)
        yield " ".join(f"{key}={SHORTER}" for key in keys), shorter


def _verdict(hardware: Node, found: Hours | None) -> str:
    fits = f"fits on {_gpus(hardware)}"
    if found is None:
        return f"{fits}; how long it takes is not known: name the GPU, such as --gpu h100"
    if found.run is None:
        return f"{fits}; about {found.step.total:,.0f} s per step, estimated and never measured"
    cost = _cost(hardware, found.run)
    return f"{fits}; about {found.run / 3600:,.1f} h{f', {cost}' if cost else ''}, estimated and never measured"


def _gpus(hardware: Node) -> str:
    return f"{hardware.gpus} x {hardware.gpu.name}"


def _cost(hardware: Node, seconds: float) -> str | None:
    return None if hardware.price is None else f"${seconds / 3600 * hardware.gpus * hardware.price:,.0f}"


def _refusal(config: Config, shape: Shape, laid: Fit, gpus: int) -> EngineError | None:
    problems = laid.problems()
    if not problems:
        return None
    message = f"{config.model.name} does not fit on {laid.gpu.name} as configured: {'; '.join(problems)}"
    if keys := changes(config, shape, laid.gpu, gpus):
        return EngineError(message, fix=f"set {shlex.join(keys)}")
    base, larger = other_base(config, laid.gpu, gpus), smallest(config, shape)
    quantised = in_four_bits(config, shape, laid.gpu, gpus)
    ways = [f"set {shlex.join(quantised)}"] * bool(quantised) + [f"set model.name={base}"] * bool(base)
    ways += [f"use a larger GPU: --gpu {larger}"] * bool(larger)
    return EngineError(message, fix=", or ".join(ways) or "set model.name to a smaller base")


def _memory(laid: Fit, node: NodeBytes) -> Section:
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
            "engine: adapters, workspace": (gib(engine.slots + engine.workspace),),
            "engine: CUDA graphs": (gib(engine.graphs),),
            "engine: cache": (gib(max(laid.cache, 0)),),
            "engine sleeps while the learner works": ("yes" if laid.sleeps else "no",),
        }
    rows["rest: CUDA in each process"] = (gib(CONTEXT * (2 if engine else 1)),)
    if laid.collectives:
        rows["rest: NCCL"] = (gib(laid.collectives),)
    rows["main memory of the node"] = (f"{gib(node.host)}, of these pinned {gib(node.pinned)}",)
    rows["disk: base, checkpoints, bouts"] = (gib(node.disk),)
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
    if warning and backend_of(config).engines() is None:
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
        checks=speed.checks() if config.sampler.canary != "off" else 0.0,
        sleep=speed.sleep() if config.sampler.sleep is not False and not has_server(config) else 0.0,
    )
    points, point = _points(config, counts, speed, hardware, slots)
    steps = total_steps(config, counts)
    before = START + (speed.first_check(hardware.gpus) if config.sampler.canary != "off" else 0.0)
    run = None if steps is None or point is None else before + steps * step.total + point
    longest = speed.draw(bouts.share(len(bouts.drafts)), 1)
    return Hours(step, longest, point, points, before, run)


def _points(config: Config, counts: Counts, speed: Speed, hardware: Node, slots: int) -> tuple[int, float | None]:
    """How many evaluation points there are, and their seconds together; None where the size of dev is not known."""
    points, total = points_of(config, counts)
    if total is None or not points:
        return points, None if points else 0.0
    two = config.rules().two_stages
    bouts = bouts_of(-(-total // ((1 + two) * points)), two, config.eval.max_completion_tokens, speed.assumed)
    return points, points * speed.draw(bouts.share(hardware.gpus), slots)


def _time(config: Config, hardware: Node, found: Hours | None, assumed: Assumptions) -> Section:
    if found is None:
        return Section("time", {"not known": ("name the GPU and not only its size, such as --gpu h100",)})
    step, tokens = found.step, step_bouts(config, assumed).longest
    rows: dict[str, tuple[Cell, ...]] = {
        "play": (f"{step.play:,.0f} s",),
        "of these the longest bout alone": (f"{found.longest:,.0f} s, {tokens:,} tokens; more GPUs do not shorten it",),
        "update": (f"{step.update:,.0f} s",),
        "publish": (f"{step.publish:,.0f} s",),
        "checks of the engines": (f"{step.checks:,.2g} s",),
        "sleep and wake up": (f"{step.sleep:,.1f} s",),
        "step": (f"{step.total:,.0f} s",),
        "before the first step": (f"{found.before:,.0f} s, with everything downloaded",),
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
        "arithmetic, 16 bits": (f"{gpu.teraflops:,} TFLOP/s ({gpu.source})" if gpu.teraflops else None,),
        "bandwidth": (f"{gpu.bandwidth:g} TB/s ({gpu.source})" if gpu.bandwidth else None,),
        **{name: (words,) for name, words in assumed.rows().items()},
        "memory that is no tensor": (
            f"CUDA {gib(CONTEXT)} per process, NCCL {gib(NCCL)} where there are several GPUs, {SPARE:.0%} lost between "
            f"blocks, {gib(MARGIN)} left free",
        ),
        "main memory": (f"{gib(HOST)} per process, and bases on their way to a GPU or weights of sleeping engines",),
        "disk": (f"{TEXT} bytes per token of a completion; packages and data sets are not counted",),
    }
    return Section("assumptions", rows)
