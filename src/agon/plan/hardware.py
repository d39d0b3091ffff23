"""The part of a plan that names a GPU: a verdict, memory by part, rollouts in flight, seconds, hours and the price."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agon.config import Config, resolved
from agon.config.rules import broken_rules
from agon.engine.backend import backend_of
from agon.engine.base_config import read_base_config
from agon.engine.devices import SPLIT, check_split, gpus_per_engine
from agon.engine.vllm.placement import MARGIN
from agon.errors import EngineError, InputError
from agon.formatting import duration, plural
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.estimate import count, summary, total_steps
from agon.plan.fit import (
    Fit,
    changes,
    dtype_refusal,
    fit,
    gib,
    has_server,
    in_four_bits,
    with_value,
)
from agon.plan.footprint import CONTEXT, HOST, NCCL, SPARE, TEXT, NodeBytes, engines_on_nodes, layout_of, node_bytes
from agon.plan.gpus import Gpu, Node
from agon.plan.hours import Hours, hours, in_flight, step_bouts
from agon.plan.layout import Choice, choices, command, merged, other_base, preferred, smallest
from agon.plan.plan_section import Cell, Section
from agon.plan.schedule import idle_engines
from agon.plan.step_time import Assumptions

WORTH = 0.9
"""Share of the hours that a change may leave and still be advised."""
EIGHT_BITS = (8, 9)
"""Compute capability from which on an engine can keep its cache in fp8."""
UNKNOWN = 1000
"""Problems that are assumed for the size of files where their number is not known."""
SHORTER = 8192
"""Cap on completions that is tried as a cheaper run."""


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """A config on hardware: what is printed, and why it is refused, if it is."""

    config: Config
    """As it is planned: where it does not fit, in the fastest layout that does."""
    verdict: str
    """Whether it fits, for how long and at what price, in one line."""
    summary: dict[str, Cell]
    """Its column in a table that compares arms."""
    sections: tuple[Section, ...]
    refusal: EngineError | None = None
    faster: Section | None = None
    """Keys that would save time, with the hours that they leave."""
    hours: Hours | None = None
    layouts: Section | None = None
    """The fastest layouts of several GPUs, as commands."""


def plan_on(
    config: Config,
    hardware: Node,
    assumed: Assumptions | None = None,
    *,
    words: Sequence[str] = ("CONFIG.yaml",),
    search: bool = True,
) -> HardwarePlan:
    """Lay a config out on hardware and estimate its time; nothing is loaded or downloaded.

    Other layouts are tried with `search`, and where this one does not fit. `words` are the config and overrides as they
    were typed, for the commands that are printed.
    """
    if not backend_of(config).fits_gpus:
        refused = broken_rules(resolved(with_value(config, "sampler.engine", "vllm")))
        raise InputError(
            f"--gpu plans for engine vllm, and sampler.engine is {config.sampler.engine}",
            fix="leave --gpu out" if refused else "add sampler.engine=vllm, or leave --gpu out",
        )
    _check_gpus(config, hardware)
    assumed = assumed or Assumptions()
    shape = shape_of(read_base_config(config.model))
    check_split(gpus_per_engine(config.sampler), shape.heads, config.model.name)
    laid = fit(config, shape, hardware.gpu, hardware.gpus)
    node = _node(config, shape, hardware, laid, assumed)
    memory, assumptions = _memory(config, hardware, laid, node), _assumptions(hardware.gpu, assumed)
    if wrong_dtype := dtype_refusal(config, hardware.gpu):
        verdict = f"cannot run on {_gpus(hardware)}"
        return HardwarePlan(config, verdict, summary(config, count(config.data)), (memory, assumptions), wrong_dtype)
    tried = (search and hardware.gpus > 1) or laid.problems()
    ranked = choices(config, shape, hardware, assumed) if tried else []
    layouts = _layouts(ranked, shape, hardware, assumed, words)
    if laid.problems():
        refusal = _refusal(config, shape, hardware, laid, ranked, words)
        if layouts is None:
            verdict = f"does not fit on {_gpus(hardware)}{' in any layout' if len(ranked) > 1 else ''}"
            return HardwarePlan(config, verdict, summary(config, count(config.data)), (memory, assumptions), refusal)
        best = plan_on(preferred(ranked, config.train.staleness).config, hardware, assumed, words=words, search=False)
        verdict = best.verdict.replace(";", " in a different layout than configured;", 1)
        return replace(best, verdict=verdict, refusal=refusal, layouts=layouts)
    found = hours(config, shape, hardware, laid, assumed)
    drawing, time = _drawing(laid, shape, config, hardware, assumed), _time(config, hardware, found, assumed)
    faster = _faster(config, shape, hardware, found, assumed) if found else None
    column = _column(config, hardware, found, laid, node, in_flight(laid, shape, config, assumed))
    verdict = _verdict(hardware, found, layouts)
    sections = memory, drawing, time, assumptions
    return HardwarePlan(config, verdict, column, sections, faster=faster, hours=found, layouts=layouts)


def _check_gpus(config: Config, hardware: Node) -> None:
    """Refuse engines that want more GPUs than there are."""
    layout = layout_of(config, hardware.gpus)
    elsewhere = has_server(config) or engines_on_nodes(config)
    if not elsewhere and layout.engines * layout.parallel > hardware.gpus:
        keys = ["sampler.replicas=null"] if config.sampler.replicas else []
        keys += [f"sampler.options.{SPLIT}=1"] if layout.parallel > hardware.gpus else []
        raise InputError(
            f"sampler.replicas and tensor_parallel_size ask for {layout.engines * layout.parallel} GPUs, and --gpus is "
            f"{hardware.gpus}",
            fix=f"add --gpus {layout.engines * layout.parallel}, or set {' '.join(keys)}",
        )


def _layouts(
    ranked: Sequence[Choice], shape: Shape, hardware: Node, assumed: Assumptions, words: Sequence[str]
) -> Section | None:
    """The fastest layouts that fit, as commands, or one where times are not known; None where there is nothing to
    choose."""
    fitting = [choice for choice in ranked if not choice.laid.problems()]
    if not fitting or (len(ranked) == 1 and not fitting[0].keys):
        return None
    labels = ("fastest", "second best") if fitting[0].seconds else ("fits",)
    shown = dict(zip(labels, fitting, strict=False))
    fresh = [choice for choice in fitting if choice.seconds and not choice.config.train.staleness]
    if fresh and fresh[0] not in shown.values():
        shown["fastest with train.staleness=0"] = fresh[0]
    if own := [choice for choice in fitting if choice.seconds and not choice.keys and choice not in shown.values()]:
        shown["as configured"] = own[0]
    rows: dict[str, tuple[Cell, ...]] = {}
    for label, choice in shown.items():
        found = hours(choice.config, shape, hardware, choice.laid, assumed)
        run = _run(hardware, found.run) if found and found.run is not None else None
        typed = command(choice.config, hardware.gpus, words, choice.keys)
        note = "" if choice.keys or label == "as configured" else ", as configured"
        rows[label + note] = (f"{found.step.total:,.0f} s" if found else None, run, typed)
    return Section(f"layouts of {_gpus(hardware)}", rows, ("step", "run", "command"))


def _node(config: Config, shape: Shape, hardware: Node, laid: Fit, assumed: Assumptions) -> NodeBytes:
    """Main memory and disk; of a run whose length is not known, those of one epoch of 1,000 problems."""
    counts = count(config.data)
    steps = total_steps(config, counts) or UNKNOWN // config.train.problems_per_step
    completions = steps * step_bouts(config, assumed).completions  # evaluations along the run keep counts alone
    mean = int(assumed.mean * config.train.max_completion_tokens)
    return node_bytes(shape, config, layout_of(config, hardware.gpus), laid.sleeps, steps, completions, mean)


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
        tried = hours(other, shape, hardware, laid, assumed)
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
        yield "sampler.options.kv_cache_dtype=fp8", with_value(config, "sampler.options", merged)
    if config.train.max_completion_tokens > SHORTER:
        keys = ("train.max_completion_tokens", "eval.max_completion_tokens")
        shorter = config
        for key in keys:
            shorter = with_value(shorter, key, SHORTER)
        yield " ".join(f"{key}={SHORTER}" for key in keys), shorter


def _verdict(hardware: Node, found: Hours | None, layouts: Section | None) -> str:
    fits = f"fits on {_gpus(hardware)}"
    if found is None:
        return f"{fits}; how long it takes is not known: name the GPU, such as --gpu h100"
    if found.run is None:
        return f"{fits}; about {found.step.total:,.0f} s per step, estimated and never measured"
    about, fastest = _run(hardware, found.run), next(iter(layouts.rows.values())) if layouts else (None, None, "")
    ahead = [word for word in shlex.split(str(fastest[2])) if word.startswith("train.staleness=")]
    layout = " with ".join(["the fastest layout", *ahead])  # it changes what is learnt
    other = f" as configured, {fastest[1]} in {layout}" if fastest[1] not in (None, about) else ""
    return f"{fits}; about {about}{other}, estimated and never measured"


def _gpus(hardware: Node) -> str:
    return f"{hardware.gpus} x {hardware.gpu.name}"


def _run(hardware: Node, seconds: float) -> str:
    cost = _cost(hardware, seconds)
    return f"{seconds / 3600:,.1f} h{f', {cost}' if cost else ''}"


def _cost(hardware: Node, seconds: float) -> str | None:
    return None if hardware.price is None else f"${seconds / 3600 * hardware.gpus * hardware.price:,.0f}"


def _refusal(
    config: Config, shape: Shape, hardware: Node, laid: Fit, ranked: Sequence[Choice], words: Sequence[str]
) -> EngineError:
    """What does not fit, by how much, and the first change that helps: a layout, keys that cost time, another base."""
    gpu, gpus, closest = hardware.gpu, hardware.gpus, preferred(ranked, config.train.staleness)
    message = f"{config.model.name} does not fit on {gpu.name} as configured: {'; '.join(laid.problems())}"
    if not closest.laid.problems():
        return EngineError(message, fix=f"start it with {command(closest.config, gpus, words, closest.keys)}")
    if len(ranked) > 1:
        message = (
            f"{config.model.name} does not fit on {_gpus(hardware)} in any layout; the closest, "
            f"{shlex.join(closest.keys) or 'as configured'}, is short by {gib(closest.laid.short)}: "
            f"{'; '.join(closest.laid.problems())}"
        )
    if keys := changes(closest.config, shape, gpu, gpus):
        keys = merged(closest.keys, keys)
        how = (
            f"start it with {command(closest.config, gpus, words, keys)}"
            if len(ranked) > 1
            else f"set {shlex.join(keys)}"
        )
        return EngineError(message, fix=how)
    base, larger = other_base(config, gpu, gpus), smallest(config, shape, gpus)
    quantised = in_four_bits(config, shape, gpu, gpus)
    ways = [f"set {shlex.join(quantised)}"] * bool(quantised) + [f"set model.name={base}"] * bool(base)
    ways += [f"use a larger GPU: --gpu {larger}"] * bool(larger)
    return EngineError(message, fix=", or ".join(ways) or "set model.name to a smaller base")


def _memory(config: Config, hardware: Node, laid: Fit, node: NodeBytes) -> Section:
    learner, engine = laid.learner, laid.engine
    rows: dict[str, tuple[Cell, ...]] = {"layout": (str(layout_of(config, hardware.gpus)),)} if engine else {}
    rows |= {
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
    rows["rest: CUDA in each process"] = (gib(CONTEXT * (2 if engine and not laid.apart else 1)),)
    if laid.collectives:
        rows["rest: NCCL"] = (gib(laid.collectives),)
    rows["main memory of the node"] = (f"{gib(node.host)}, of these pinned {gib(node.pinned)}",)
    rows["disk: base, checkpoints, bouts"] = (gib(node.disk),)
    rows["fits"] = ("no" if laid.problems() else "yes",)
    return Section(f"memory on {laid.gpu.name}, {laid.gpu.gib:g} GiB", rows)


def _drawing(laid: Fit, shape: Shape, config: Config, hardware: Node, assumed: Assumptions) -> Section:
    game, cap = config.rules(), config.train.max_completion_tokens
    per_step = step_bouts(config, assumed).completions
    stages = 2 if game.two_stages else 1
    slots, engines = in_flight(laid, shape, config, assumed), layout_of(config, hardware.gpus).engines
    rows: dict[str, tuple[Cell, ...]] = {
        "rollouts per step and engine": (-(-per_step // engines),),
        "rollouts in flight, of mean length": (slots,),
    }
    if laid.engine:
        rows["rollouts in flight, all at the cap"] = (max(laid.in_flight(laid.sequence), 1),)
    rows["longest chain"] = (
        f"{stages * cap:,} tokens, draft + challenge, at most" if stages == 2 else f"{cap:,} tokens",
    )
    warning = idle_engines(config.train.problems_per_step, engines)
    if warning and backend_of(config).engines() is None:
        rows["warning"] = (warning,)
    return Section("drawing", rows)


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
        **({"saved by playing ahead": (f"{step.saved:,.0f} s",)} if step.saved else {}),
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
