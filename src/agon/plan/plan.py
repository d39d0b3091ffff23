"""A config on named hardware: whether it fits, hours and money, what decides, and what to change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agon.config import Config, resolved
from agon.config.rules import broken_rules
from agon.engine.backend import backend_of
from agon.engine.base_config import read_base_config
from agon.engine.devices import check_split, gpus_per_engine, heads_in
from agon.engine.linear_attention import EXTRA, is_too_slow
from agon.engine.vllm.placement import MARGIN
from agon.errors import EngineError, InputError, install
from agon.plan.advice import FP8_CACHE, cheaper_runs, dtype_refusal, layouts, ways_to_fit, with_values, written
from agon.plan.base_shapes import Shape, shape_of
from agon.plan.budget import Cell, Counts, Section, per_problem, summary
from agon.plan.gpus import Node
from agon.plan.hours import Assumptions, Hours, Roofline, bouts_of_step, hours, in_flight, learner_decides
from agon.plan.memory import (
    CONTEXT,
    HOST,
    SPARE,
    Fit,
    fit,
    gib,
    host_bytes,
    layout_of,
    longest_row,
)
from agon.plan.schedule import idle_engines

WORTH = 0.9
"""Share of the hours that a change may leave and still be advised."""
FEW, MANY = 3500 / 15_000, 8100 / 15_000
"""Mean completions of the paper's trained pair and of its GRPO run, as a share of the cap."""
Rows = dict[str, tuple[Cell, ...]]


@dataclass(frozen=True, slots=True)
class HardwarePlan:
    """What is printed of a config on hardware, and why it is refused, if it is."""

    verdict: str
    """Whether it fits, for how long and at what price, in one line."""
    column: dict[str, Cell]
    """Its column in a table that compares arms."""
    sections: tuple[Section, ...]
    """Memory, time and assumptions."""
    advice: tuple[Section, ...] = ()
    """What decides, layouts of several GPUs, and keys that save time."""
    refusal: EngineError | None = None
    hours: Hours | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a plan is made for."""

    config: Config
    shape: Shape
    hardware: Node
    counts: Counts
    assumed: Assumptions

    def hours(self, keys: dict[str, object], assumed: Assumptions | None = None) -> Hours | None:
        """Of the config with some keys changed; None where it does not fit, or nobody knows how fast the GPU is."""
        config, hardware = with_values(self.config, keys), self.hardware
        laid = fit(config, self.shape, hardware.gpu, hardware.gpus)
        return (
            None if laid.problems() else hours(config, self.shape, hardware, laid, self.counts, assumed or self.assumed)
        )

    def priced(self, seconds: float) -> str:
        price = self.hardware.price
        return about(seconds) + ("" if price is None else f", ${seconds / 3600 * self.hardware.gpus * price:,.0f}")


def plan_on(
    config: Config, hardware: Node, counts: Counts, assumed: Assumptions | None = None, *, advise: bool = True
) -> HardwarePlan:
    """Lay a config out on hardware and estimate its time; nothing is loaded or downloaded."""
    _check(config, hardware)
    base = read_base_config(config.model)
    check_split(gpus_per_engine(config.sampler), heads_in(base), config.model.name)
    asked = _Asked(config, shape_of(base), hardware, counts, assumed or Assumptions())
    laid = fit(config, asked.shape, hardware.gpu, hardware.gpus)
    where, column = f"{hardware.gpus} x {hardware.gpu.name}", summary(config, counts)
    sections = [_memory(asked, laid), _assumptions(asked)]
    if refusal := dtype_refusal(config, hardware.gpu):
        return HardwarePlan(f"cannot run on {where}", column, (*sections,), refusal=refusal)
    if problems := laid.problems():
        message = f"{config.model.name} does not fit on {hardware.gpu.name} as configured: {'; '.join(problems)}"
        refusal = EngineError(message, fix=ways_to_fit(config, asked.shape, hardware.gpu, hardware.gpus))
        return HardwarePlan(f"does not fit on {where} as configured", column, (*sections,), refusal=refusal)
    column |= _column(asked, laid)
    found = asked.hours({})
    if found is None:
        verdict = f"fits on {where}; how long it takes is not known: name the GPU, such as --gpu h100"
        return HardwarePlan(verdict, column, (*sections,))
    sections.insert(1, _time(asked, found))
    mean = round(asked.assumed.mean * config.train.max_completion_tokens)
    verdict = f"fits on {where}; about {asked.priced(found.run)} if completions average {mean:,} tokens"
    advice = []
    if advise:
        ranked = _ranked(asked)
        (best, keys), *_ = ranked
        found_advice = _decides(asked, laid, found, keys), _layouts(asked, ranked), _cheaper(asked, found)
        advice = [section for section in found_advice if section]
        verdict += f", {asked.priced(best.run)} with {written(keys)}" if keys else ""
    return HardwarePlan(f"{verdict}; estimated, not measured", column, (*sections,), (*advice,), hours=found)


def about(seconds: float) -> str:
    """`0.5 s`, `40 s`, `38 min`, `7.9 h`, `80 h`."""
    if seconds < 90:
        return f"{seconds:.2g} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.{1 if seconds < 36_000 else 0}f} h"


def _check(config: Config, hardware: Node) -> None:
    """Refuse another engine, and a layout that wants more GPUs than there are."""
    if not backend_of(config).fits_gpus:
        refused = broken_rules(resolved(with_values(config, {"sampler.engine": "vllm"})))
        raise InputError(
            f"--gpu plans for engine vllm, and sampler.engine is {config.sampler.engine}",
            fix="leave --gpu out" if refused else "add sampler.engine=vllm, or leave --gpu out",
        )
    layout = layout_of(config, hardware.gpus)
    wanted = max(layout.learners, 0 if config.sampler.urls else layout.engines * layout.parallel)
    if wanted > hardware.gpus:
        raise InputError(
            f"the config asks for {wanted} GPUs, and --gpus is {hardware.gpus}",
            fix=f"add --gpus {wanted}, or lower sampler.replicas and sampler.options.tensor_parallel_size",
        )


def _column(asked: _Asked, laid: Fit) -> dict[str, Cell]:
    """What a reader compares between arms. Lengths decide: those of the paper's two runs are scaled to this cap."""
    rows: dict[str, Cell] = {}
    if found := asked.hours({}):
        rows = {"step": f"{found.step.total:,.0f} s", "evaluation along the run": about(found.evaluation)}
        rows["run"] = asked.priced(found.run)
        for share in (FEW, MANY):
            if other := asked.hours({}, replace(asked.assumed, mean=share)):
                mean = round(share * asked.config.train.max_completion_tokens)
                rows[f"run, if completions average {mean:,} tokens"] = asked.priced(other.run)
    return rows | {
        "GPU memory: update, at most": gib(laid.learner.peak),
        "GPU memory: engine's cache": gib(laid.cache) if laid.engine else "on GPUs of its own",
        "rollouts in flight": in_flight(laid, asked.shape, asked.config, asked.assumed),
    }


def _decides(asked: _Asked, laid: Fit, found: Hours, fastest: dict[str, object]) -> Section:
    """The terms that decide; and from where on, in the fastest layout, more GPUs for the learner pay."""
    config, gpu, gpus = asked.config, asked.hardware.gpu, asked.hardware.gpus
    other = with_values(config, fastest)
    roofline = Roofline.of(asked.shape, other, gpu, asked.assumed)
    problems = learner_decides(roofline, fit(other, asked.shape, gpu, gpus), gpus) if roofline else None
    tokens = sum(bouts_of_step(config, asked.assumed).chains) // config.train.problems_per_step
    held = f"; the cache holds {max(laid.in_flight(laid.sequence), 1)} completions at the cap" if laid.engine else ""
    learner = "takes less time than play at any number of problems per step"
    if problems:
        rollouts = problems * sum(per_problem(config))
        learner = (
            f"decides from about {problems:,} problems per step: {rollouts:,} rollouts, {problems * tokens:,} tokens"
        )
    rows: Rows = {
        "time": (found.step.decides,),
        "memory": (f"an update takes {gib(laid.learner.peak)} of {gib(laid.left)}{held}",),
        "learner": (f"{learner}{f', with {written(fastest)}' if fastest else ''}",),
    }
    warnings = [idle_engines(config.train.problems_per_step, layout_of(config, gpus).engines)]
    fp8 = str(config.sampler.options.get("kv_cache_dtype", "")).startswith("fp8")
    if fp8 and gpu.capability and gpu.capability[0] not in FP8_CACHE:
        warnings.append("on this GPU vLLM reads an fp8 cache with another attention kernel, which is untested")
    if warning := "; ".join(filter(None, warnings)):
        rows["warning"] = (warning,)
    return Section("what decides", rows)


def _ranked(asked: _Asked) -> list[tuple[Hours, dict[str, object]]]:
    """Every layout of the node that fits, by the keys to add, the fastest first."""
    tried = ((asked.hours(keys), keys) for keys, _ in layouts(asked.config, asked.hardware.gpus))
    return sorted(((found, keys) for found, keys in tried if found), key=lambda each: each[0].run)


def _layouts(asked: _Asked, ranked: list[tuple[Hours, dict[str, object]]]) -> Section | None:
    """The fastest two, with the fastest that learns from samples as old as this config's, and its own."""
    same = next((each for each in ranked if "train.staleness" not in each[1]), None)
    chosen = [each for each in ranked if each in ranked[:2] or each is same or not each[1]]
    rows = {
        written(keys) or "as configured": (f"{found.step.total:,.0f} s", asked.priced(found.run))
        for found, keys in chosen
    }
    title = f"layouts of {asked.hardware.gpus} x {asked.hardware.gpu.name}"
    return Section(title, rows, ("step", "run")) if len(ranked) > 1 else None


def _cheaper(asked: _Asked, found: Hours) -> Section | None:
    """Keys that save a tenth of the time or more, each tried by itself."""
    rows: Rows = {}
    for keys in cheaper_runs(asked.config, asked.hardware.gpu):
        if (tried := asked.hours(keys)) and tried.run < WORTH * found.run:
            rows[written(keys)] = (asked.priced(tried.run),)
    return Section("to save time, set", rows) if rows else None


def _memory(asked: _Asked, laid: Fit) -> Section:
    """Of the GPU that has most to hold, by part."""
    config, shape, gpu, learner = asked.config, asked.shape, asked.hardware.gpu, laid.learner
    layout, adapter = layout_of(config, asked.hardware.gpus), shape.adapter_parameters(config.model.lora)
    rows: Rows = {
        "layout": (str(layout),),
        "parameters": (f"{shape.parameters:,}, and {adapter:,} of one adapter",),
        "learner: base": (gib(learner.base),),
        "learner: adapters, gradients, Adam": (gib(learner.static - learner.base),),
        "learner: largest pass": (gib(learner.activations),),
        "left for the learner in an update": (gib(max(laid.left, 0)),),
    }
    if is_too_slow(shape.has_linear_attention, longest_row(config.train)):
        rows["needs"] = (f"kernels of linear attention where it trains: {install(EXTRA)}",)
    if engine := laid.engine:
        rows |= {
            "engine: share of the GPU": (f"{gib(laid.taken)}, sampler.gpu_memory_utilization={laid.share:.2f}",),
            "engine: weights": (gib(engine.weights),),
            "engine: adapters, workspace": (gib(engine.workspace),),
            "engine: CUDA graphs": (gib(engine.graphs),),
            "engine: cache": (gib(max(laid.cache, 0)),),
            "engine sleeps while the learner works": ("yes" if laid.sleeps else "no",),
        }
    rows["main memory of the node"] = (gib(host_bytes(shape, config, layout, laid.sleeps)),)
    rows["fits"] = ("no" if laid.problems() else "yes",)
    return Section(f"memory on {gpu.name}, {gpu.gib:g} GiB", rows)


def _time(asked: _Asked, found: Hours) -> Section:
    step = found.step
    parts = {"play": step.play, "of these the longest bout alone": step.longest, "update": step.update}
    rows: Rows = {label: (f"{seconds:,.0f} s",) for label, seconds in {**parts, "step": step.total}.items()}
    rows |= {"before the first step": (about(found.start),), "evaluation along the run": (about(found.evaluation),)}
    rows["run"] = (asked.priced(found.run),)
    return Section(f"time on {asked.hardware.gpus} x {asked.hardware.gpu.name}, estimated", rows)


def _assumptions(asked: _Asked) -> Section:
    """Every figure that neither config nor base gives, with where it is from."""
    gpu = asked.hardware.gpu
    spare = f"{SPARE:.0%} lost between blocks, {gib(MARGIN)} left free"
    rows: Rows = {
        "memory of the GPU": (f"{gpu.gib:g} GiB ({gpu.source})",),
        "arithmetic, 16 bits": (f"{gpu.teraflops:,} TFLOP/s ({gpu.source})" if gpu.teraflops else None,),
        "bandwidth": (f"{gpu.bandwidth:g} TB/s ({gpu.source})" if gpu.bandwidth else None,),
        "CPU cores for each GPU": (gpu.cores,),
        **{name: (words,) for name, words in asked.assumed.rows().items()},
        "memory that is no tensor": (f"CUDA {gib(CONTEXT)} per process, {spare}",),
        "main memory": (f"{gib(HOST)} per process, and bases on their way to a GPU or weights of sleeping engines",),
    }
    return Section("assumptions", rows)
