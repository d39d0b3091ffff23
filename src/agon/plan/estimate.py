"""Estimate what a config will cost before anything is started: a list of sections, each a small table.

The numbers come from what training itself uses (its schedule, the rules of the game, the systems of an evaluation
point), so that plan and run cannot disagree. Tokens are upper bounds: every completion at its cap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agon.config import Config, Data, Source
from agon.config.arms import ARMS
from agon.data import splits
from agon.doors import door
from agon.engine.backend import backend_of
from agon.engine.base_config import read_base_config
from agon.engine.linear_attention import EXTRA, is_too_slow
from agon.errors import EngineError, install
from agon.eval.points import systems
from agon.formatting import plural
from agon.game.cascade import System
from agon.plan.base_shapes import shape_of
from agon.plan.footprint import NF4, learner_bytes, learner_width, learners_of, longest_row, most_tokens, policies_of
from agon.plan.plan_section import Cell, Counts, Section
from agon.plan.schedule import Schedule, check_step, idle_engines
from agon.types import Policy, Version
from agon.verify import check_verifier

FIRST = {policy: Version.of(policy, 0, "first") for policy in Policy}
"""Stand for the versions that a run begins with."""


def plan(config: Config, counts: Counts, gpus: int | None = None) -> list[Section]:
    """Every section that applies, in reading order; on a node of `gpus`, if that is known."""
    made = (
        _run(config, counts),
        _steps(config, counts),
        _budget(config, counts),
        _bonus(config, counts),
        _learner(config, counts),
        _memory(config, gpus),
        _evaluation(config, counts),
        _held_out(config, counts),
    )
    return [section for section in made if section]


def check(config: Config) -> Counts:
    """Refuse what could not start; the problems of each split."""
    if ":" in config.verifier:
        check_verifier(config.verifier)  # a function that cannot be loaded is a mistake of the config
    counts = count(config.data)
    if counts.train is not None:
        check_step(config, counts.train)
    return counts


def count(data: Data) -> Counts:
    """Count the problems: as the config says, or by reading local sources that are taken whole."""
    if any(source.take is None and (source.path or source.env) for source in data.sources):
        parts = splits(data)
        return Counts(len(parts.train), len(parts.dev), len(parts.held_out))
    return Counts(data.train.take, data.dev.take, data.held_out.take)


def _run(config: Config, counts: Counts) -> Section:
    model, data = config.model, config.data
    bits = "" if model.quantize == "none" else " and NF4"
    where = f", last {plural(model.lora.layers, 'layer')} only" if model.lora.layers else ""
    return Section(
        "run",
        {
            "arm": (f"{config.arm}: {ARMS[config.arm].about}",),
            **_rival(config),
            "base": (f"{model.names}, {model.dtype}{bits}, LoRA rank {model.lora.rank}{where}",),
            "train": (_source(data.train, counts.train),),
            "dev": (_source(data.dev, counts.dev),),
            "held-out": (_source(data.held_out, counts.held_out),),
            "verifier": (config.verifier,),
            "sampler": (config.sampler.engine,),
            **_warning(config),
        },
    )


def _warning(config: Config) -> dict[str, tuple[Cell, ...]]:
    """Engines that a step leaves idle, where the config says how many there are."""
    engines = backend_of(config).engines()
    warning = engines and idle_engines(config.train.problems_per_step, engines)
    return {"warning": (warning,)} if warning else {}


def _rival(config: Config) -> dict[str, tuple[Cell, ...]]:
    """Who plays B, where that is not a policy that learns."""
    about = door("agon.rivals", config.rival.kind)(config).about
    return {"rival": (about,)} if about else {}


def _source(source: Source, number: int | None) -> str:
    name = " from ".join(filter(None, (source.named, source.path)))
    return f"{name}, {'all' if number is None else f'{number:,}'} problems"


def _steps(config: Config, counts: Counts) -> Section:
    train = config.train
    rows: dict[str, tuple[Cell, ...]] = {"problems per step": (train.problems_per_step,), "epochs": (train.epochs,)}
    schedule = _schedule(config, counts)
    if counts.train is None:
        return Section("steps", {**rows, "steps": (train.max_steps,), "evaluation points": (len(schedule.points),)})
    rows |= {
        "steps": (schedule.total,),
        "problems left over each epoch": (counts.train % train.problems_per_step,),
        "evaluation points": (len(schedule.points),),
        "checkpoints": (sum(schedule.saves(done) for done in range(1, schedule.total + 1)),),
    }
    return Section("steps", rows)


def _schedule(config: Config, counts: Counts) -> Schedule:
    """When the run evaluates. Where the number of problems is not known, assume enough of them for its points."""
    enough = max(config.eval.points, 1) * config.train.problems_per_step
    return Schedule.of(config, enough if counts.train is None else counts.train)


def summary(config: Config, counts: Counts) -> dict[str, Cell]:
    """What a run draws, in one column: for a table that compares arms."""
    game, train, steps = config.rules(), config.train, total_steps(config, counts)
    per_problem = game.drafts_per_problem + (game.group_size if game.two_stages else 0)
    rollouts = None if steps is None else steps * train.problems_per_step * per_problem
    return {
        "steps": steps,
        "rollouts": rollouts,
        "generated tokens, at most": None if rollouts is None else rollouts * train.max_completion_tokens,
        "evaluation on dev, completions": points_of(config, counts)[1],
    }


def total_steps(config: Config, counts: Counts) -> int | None:
    """Steps of the whole run, or None when the number of problems is not known."""
    return config.train.max_steps if counts.train is None else Schedule.of(config, counts.train).total


def _budget(config: Config, counts: Counts) -> Section:
    """Section 4.5 of the paper: every arm draws 2N rollouts per problem under the same cap."""
    game, train, steps = config.rules(), config.train, total_steps(config, counts)
    drafts, challenges = game.drafts_per_problem, game.group_size if game.two_stages else 0

    def row(draft: int, challenge: int, times: int | None = 1) -> tuple[Cell, ...]:
        return tuple(None if times is None else n * times for n in (draft, challenge, draft + challenge))

    in_step = drafts * train.problems_per_step, challenges * train.problems_per_step
    in_tokens = in_step[0] * train.max_completion_tokens, in_step[1] * train.max_completion_tokens
    peeks = in_step[1] * train.max_peek_tokens if game.show_draft else 0
    return Section(
        "training budget",
        {
            "rollouts per problem": row(drafts, challenges),
            "rollouts per step": row(*in_step),
            "rollouts": row(*in_step, steps),
            "generated tokens, at most": row(*in_tokens, steps),
            "peek tokens to prefill, at most": row(0, peeks, steps),
            **_by_rival(config, steps),
        },
        ("draft", "challenge", "both"),
    )


def _by_rival(config: Config, steps: int | None) -> dict[str, tuple[Cell, ...]]:
    """What of the budget a rival draws that does not learn: it challenges on even steps and drafts on odd ones."""
    if config.rules().rival == "learns":
        return {}
    size = config.game.group_size * config.train.problems_per_step
    turns = (None, None, None) if steps is None else (steps // 2, steps - steps // 2, steps)
    rollouts = [None if times is None else times * size for times in turns]
    tokens = [None if number is None else number * config.train.max_completion_tokens for number in rollouts]
    return {"rollouts by the rival": tuple(rollouts), "generated tokens by the rival, at most": tuple(tokens)}


def _bonus(config: Config, counts: Counts) -> Section:
    """Section 4.4 of the paper: what can be said about the bonus before a draft is drawn."""
    game = config.rules()
    if not game.pays_bonus:
        what = "none is paid"
    elif game.pairing == "shared":
        what = "normalised away: one draft pays the whole group (what is left comes from malformed rows)"
    else:
        what = (
            "has an effect in groups whose right challenges faced both right and wrong drafts; every step counts them"
        )
    return Section("bonus", {"of the challenger": (what,)})


def _learner(config: Config, counts: Counts) -> Section:
    game, train = config.rules(), config.train
    rows = game.drafts_per_problem * train.problems_per_step
    streams, longest = 2 if game.two_stages and game.learns(Policy.B) else 1, longest_row(train)
    return Section(
        "learner",
        {
            "streams per step": (streams,),
            "rows per stream": (rows,),
            "tokens per forward pass, at most": (most_tokens(train),),
            "forward passes per step, at most": (streams * -(-rows // max(train.tokens_per_pass // longest, 1)),),
        },
    )


def _evaluation(config: Config, counts: Counts) -> Section:
    """On dev, at every point, at some also from first versions; and what the paper's curve would add."""
    rows = _points(config, counts, counts.dev, systems(config.rules(), FIRST), points_of(config, counts)[1])
    if config.eval.curve == "dev" and config.eval.points:
        rows["eval.curve=held_out adds completions"] = _curve(config, counts)["completions"]
    return Section("evaluation on dev along the run", rows)


def _held_out(config: Config, counts: Counts) -> Section | None:
    """The paper's curve, where the config asks for it."""
    drawn = config.eval.curve == "held_out" and config.eval.points
    return Section("evaluation on held-out along the run", _curve(config, counts)) if drawn else None


def _curve(config: Config, counts: Counts) -> dict[str, tuple[Cell, ...]]:
    return _points(config, counts, counts.held_out, systems(config.rules(), {}), _on_held_out(config, counts))


def _on_held_out(config: Config, counts: Counts) -> int | None:
    """Completions of the paper's curve; None where the size of held-out is not known."""
    each = len(_schedule(config, counts).points) * _completions(config, systems(config.rules(), {}))
    return None if counts.held_out is None else counts.held_out * each


def points_of(config: Config, counts: Counts) -> tuple[int, int | None]:
    """Evaluation points, and the completions on dev of all of them; None where the size of dev is not known."""
    schedule, game = _schedule(config, counts), config.rules()
    wanted = [systems(game, FIRST if schedule.meets_first(done) else {}) for done in schedule.points]
    each = sum(_completions(config, systems) for systems in wanted)
    return len(wanted), None if counts.dev is None else counts.dev * each


def drawn_at_points(config: Config, counts: Counts) -> tuple[int, int | None]:
    """Evaluation points, and the completions of all of them: on dev, and on held-out where the curve is on it."""
    points, on_dev = points_of(config, counts)
    if config.eval.curve == "dev" or not points or on_dev is None:
        return points, on_dev
    on_held_out = _on_held_out(config, counts)
    return points, None if on_held_out is None else on_dev + on_held_out


def _completions(config: Config, wanted: Mapping[str, System]) -> int:
    """Completions per problem. Each draft is drawn once and serves every cascade that starts from it."""
    pairs = [system for system in wanted.values() if isinstance(system, tuple)]
    drafters = {system[0] if isinstance(system, tuple) else system for system in wanted.values()}
    return (len(drafters) + len(pairs)) * config.eval.samples


def _points(
    config: Config, counts: Counts, problems: int | None, wanted: Mapping[str, System], total: int | None
) -> dict[str, tuple[Cell, ...]]:
    return {
        "systems": (", ".join(wanted),),
        "points": (len(_schedule(config, counts).points),),
        "completions per problem and point, at most": (_completions(config, wanted),),
        "completions": (total,),
        "generated tokens, at most": (None if total is None else total * config.eval.max_completion_tokens,),
    }


def _memory(config: Config, gpus: int | None) -> Section:
    """Memory of one learner by part, before anything is loaded; `agon train` begins with a worst-case step that proves
    it. How many share a base in parts is known with `gpus`."""
    try:
        shapes = [shape_of(read_base_config(model)) for model in config.model.each.values()]
    except EngineError as error:
        return Section("memory", {"not known": (error.message,)})
    policies = 1 if config.model.two_bases else policies_of(config)  # of one learner
    number = learners_of(config, gpus or 1)
    learners = [learner_bytes(shape, config.model, config.train, policies, number) for shape in shapes]
    adapters = [shape.adapter_parameters(config.model.lora) for shape in shapes]
    base = "base" if config.train.shard == "none" else f"base, a part of {number} and what a pass gathers"
    parts = {
        base: sum(part.base for part in learners),
        "adapters": sum(learner.adapters for learner in learners),
        "gradients": sum(learner.gradients for learner in learners),
        "Adam": sum(learner.adam for learner in learners),
        "activations, at most": max(learner.activations for learner in learners),
    }
    return Section(
        "memory of the learner and traffic, estimated",
        {
            "base parameters": (_each(shape.parameters for shape in shapes),),
            "parameters of one adapter": (_each(adapters),),
            **{name: (_bytes(size),) for name, size in parts.items()},
            "together": (_bytes(sum(parts.values())),),
            **_four_bits(config),
            "published per step": (_bytes(4 * sum(adapters) * policies),),
            **_kernels(config, any(shape.has_linear_attention for shape in shapes)),
        },
    )


def _four_bits(config: Config) -> dict[str, tuple[Cell, ...]]:
    if config.model.quantize == "none":
        return {}
    parts = f"{NF4:g} bytes per weight of a linear map, {learner_width(config.model)} per other weight"
    return {"base in 4 bits": (f"{parts}, and the largest map once more, dequantised",)}


def _each(numbers: Iterable[int]) -> Cell:
    """One number, or A's and B's."""
    one, *other = numbers
    return " and ".join(f"{number:,}" for number in (one, *other)) if other else one


def _kernels(config: Config, linear: bool) -> dict[str, tuple[Cell, ...]]:
    """What `agon train` would refuse: long sequences through slow linear attention."""
    if not is_too_slow(linear, longest_row(config.train)):
        return {}
    return {"needs": (f"kernels of linear attention where it trains: {install(EXTRA)}",)}


def _bytes(size: int) -> str:
    return f"{size / 2**30:,.2f} GiB" if size >= 2**28 else f"{size / 2**20:,.1f} MiB"
