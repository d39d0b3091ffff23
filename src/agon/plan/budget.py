"""What a config draws, before anything is started: problems, steps, rollouts, tokens and evaluations, as small tables.

The numbers come from what training itself uses (its schedule, the rules of the game, the systems of an evaluation
point), so that plan and run cannot disagree. Tokens are upper bounds: every completion at its cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agon.config import Config, Data, Source
from agon.config.arms import ARMS
from agon.data import splits
from agon.data.presets import PRESETS
from agon.doors import door
from agon.eval.points import systems
from agon.formatting import plural
from agon.game.cascade import System
from agon.plan.memory import longest_row, most_tokens
from agon.plan.schedule import Schedule, check_step
from agon.types import Policy, Version
from agon.verify import check_verifier

Cell = int | float | str | None
FIRST = {policy: Version.of(policy, 0, "first") for policy in Policy}
"""Stand for the versions that a run begins with."""
ASSUMED = 1000
"""Problems of a split that takes all of a data set whose size is not known before it is downloaded."""


@dataclass(frozen=True, slots=True)
class Section:
    """A titled table. With one column, a row is a label and its value."""

    title: str
    rows: Mapping[str, tuple[Cell, ...]]
    columns: tuple[str, ...] = ("",)

    def as_dict(self) -> dict[str, Any]:
        if len(self.columns) == 1:
            return {label: cells[0] for label, cells in self.rows.items()}
        return {label: dict(zip(self.columns, cells, strict=True)) for label, cells in self.rows.items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """Problems in each split."""

    train: int
    dev: int
    held_out: int
    assumed: frozenset[str] = frozenset()
    """Splits whose number is not known."""


def check(config: Config) -> Counts:
    """Refuse what could not start; the problems of each split."""
    if ":" in config.verifier:
        check_verifier(config.verifier)  # a function that cannot be loaded is a mistake of the config
    counts = count(config.data)
    if "train" not in counts.assumed:
        check_step(config, counts.train)
    return counts


def count(data: Data) -> Counts:
    """Count the problems: as the config or a preset says, or by reading local sources that are taken whole."""
    if any(source.take is None and (source.path or source.env) for source in data.sources):
        parts = splits(data)
        return Counts(len(parts.train), len(parts.dev), len(parts.held_out))
    sizes = {name: _size(getattr(data, name), data) for name in ("train", "dev", "held_out")}
    found = {name: ASSUMED if size is None else size for name, size in sizes.items()}
    return Counts(**found, assumed=frozenset(name for name, size in sizes.items() if size is None))


def _size(source: Source, data: Data) -> int | None:
    """Problems of one split; None where only a download would tell."""
    preset = PRESETS.get(source.preset or "")
    if source.take is not None or preset is None or preset.size is None or source.options:
        return source.take
    return preset.size - sum(other.take or 0 for other in data.sources if other.preset == source.preset)


def schedule_of(config: Config, counts: Counts) -> Schedule:
    return Schedule.of(config, counts.train)


def total_steps(config: Config, counts: Counts) -> int:
    return schedule_of(config, counts).total


def per_problem(config: Config) -> tuple[int, int]:
    """Drafts and challenges of each problem. Every arm draws 2N rollouts for it (section 4.5 of the paper)."""
    game = config.rules()
    return game.drafts_per_problem, game.group_size if game.two_stages else 0


def summary(config: Config, counts: Counts) -> dict[str, Cell]:
    """What a run draws, in one column: for a table that compares arms."""
    steps = total_steps(config, counts)
    rollouts = steps * config.train.problems_per_step * sum(per_problem(config))
    return {
        "steps": steps,
        "rollouts": rollouts,
        "generated tokens, at most": rollouts * config.train.max_completion_tokens,
        "evaluation, completions": completions_of_evaluation(config, counts)[1],
    }


def about_run(config: Config, counts: Counts) -> Section:
    """What a config says, in the words of a reader."""
    model, data = config.model, config.data
    bits = "" if model.quantize == "none" else " and NF4"
    where = f", last {plural(model.lora.layers, 'layer')} only" if model.lora.layers else ""
    rival = door("agon.rivals", config.rival.kind)(config).about  # who plays B where that policy does not learn
    rows: dict[str, tuple[Cell, ...]] = {
        "arm": (f"{config.arm}: {ARMS[config.arm].about}",),
        **({"rival": (rival,)} if rival else {}),
        "base": (f"{model.name}, {model.dtype}{bits}, LoRA rank {model.lora.rank}{where}",),
        "train": (_problems(data.train, counts.train),),
        "dev": (_problems(data.dev, counts.dev),),
        "held-out": (_problems(data.held_out, counts.held_out),),
        "verifier": (config.verifier,),
        "sampler": (config.sampler.engine,),
    }
    if counts.assumed:
        names = " and ".join(f"data.{name}" for name in sorted(counts.assumed))
        rows["warning"] = (
            f"{ASSUMED:,} problems are assumed for {names}: only a download tells; set take to plan more",
        )
    return Section("run", rows)


def _problems(source: Source, number: int) -> str:
    name = " from ".join(filter(None, (source.named, source.path)))
    return f"{name}, {number:,} problems"


def budget(config: Config, counts: Counts) -> Section:
    """Steps, rollouts and evaluations in full."""
    game, train, schedule = config.rules(), config.train, schedule_of(config, counts)
    drafts, challenges = (each * train.problems_per_step for each in per_problem(config))
    learnt = drafts * (2 if game.two_stages and game.learns(Policy.B) else 1)
    points, total = completions_of_evaluation(config, counts)
    wanted = systems(game, {} if config.eval.against_first == "never" else FIRST)
    rows: dict[str, tuple[Cell, ...]] = {
        "problems per step": (train.problems_per_step,),
        "problems left over each epoch": (counts.train % train.problems_per_step,),
        "checkpoints": (sum(schedule.saves(done) for done in range(1, schedule.total + 1)),),
        "rollouts per step": (f"{drafts} drafts, {challenges} challenges",),
        "summary tokens to read, at most": (challenges * schedule.total * train.max_peek_tokens * game.show_draft,),
        "rows learnt per step": (learnt,),
        "tokens per forward pass, at most": (most_tokens(train),),
        "forward passes per step, at most": (-(-learnt // max(train.tokens_per_pass // longest_row(train), 1)),),
        "evaluation points": (points,),
        "systems at a point": (", ".join(wanted),),
        "generated tokens of evaluation, at most": (total * config.eval.max_completion_tokens,),
    }
    if config.eval.curve == "dev" and points:
        rows["eval.curve=held_out adds completions"] = (_on_held_out(config, counts),)
    return Section("budget", rows)


def completions_of_evaluation(config: Config, counts: Counts) -> tuple[int, int]:
    """Evaluation points, and the completions of all of them together."""
    schedule, game = schedule_of(config, counts), config.rules()
    wanted = [systems(game, FIRST if schedule.meets_first(done) else {}) for done in schedule.points]
    on_dev = counts.dev * sum(_completions(config, each) for each in wanted)
    return len(wanted), on_dev + (0 if config.eval.curve == "dev" else _on_held_out(config, counts))


def _on_held_out(config: Config, counts: Counts) -> int:
    """Completions of the paper's curve."""
    points = len(schedule_of(config, counts).points)
    return points * counts.held_out * _completions(config, systems(config.rules(), {}))


def _completions(config: Config, wanted: Mapping[str, System]) -> int:
    """Completions per problem. Each draft is drawn once and serves every cascade that starts from it."""
    pairs = [system for system in wanted.values() if isinstance(system, tuple)]
    drafters = {system[0] if isinstance(system, tuple) else system for system in wanted.values()}
    return (len(drafters) + len(pairs)) * config.eval.samples
