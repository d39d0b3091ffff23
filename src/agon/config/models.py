"""The config tree: frozen models of everything a run needs to know.

The docstring under a field is its description: docs/configuration.md shows it. One that begins with "Our choice:" marks
a value that the paper does not give, with the reason. Fields of `game` that are not written come from the arm.
`read.py` and `validate.py` read files; `rules.py` has the rules across fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from agon.config.arms import ARMS, resolve
from agon.config.bases import Model
from agon.config.rival import Rival, rival_of, row_name
from agon.config.rules import broken_rules
from agon.config.section import Frozen, Natural, Number, Positive, Scalar, Switch, Weight
from agon.doors import door, doors, places
from agon.game.rules import Game
from agon.types import Sampling
from agon_judge.sandbox.settings import SandboxSettings

PRESETS = ("deepmath-hard", "codecontests-easy", "gsm8k", "gsm8k-test", "math-500", "tabletop")
"""Names only: a mistake in a config is reported without loading `agon.data`, which has the rules behind them."""

ENVIRONMENTS = ("reasoning-gym:", "verifiers:")
"""How names of environments begin. They give problems and score answers: `agon_judge.auditing.environment`."""
FUNCTION = r"(.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*"


def _known_arm(name: str) -> str:
    if name not in ARMS:
        raise ValueError(f"there is no arm {name!r}; choose one of: {', '.join(ARMS)}")
    return name


def _distinct(urls: list[str]) -> list[str]:
    if len({url.rstrip("/") for url in urls}) < len(urls):
        raise ValueError("names a server twice; each is one engine")
    return urls


def _known_engine(name: str) -> str:
    if name not in places("agon.backends"):
        engines = [kind.name for kind in doors("agon.backends")]
        raise ValueError(f"there is no engine {name!r}; choose one of: {', '.join(engines)}")
    door("agon.backends", name)
    return name


def _function(name: str) -> str:
    if not re.fullmatch(FUNCTION, name):
        raise ValueError(f"should be FILE.py:function or package.module:function, not {name!r}")
    return name


def _known_verifier(name: str) -> str:
    if name not in places("agon.verifiers") and not re.fullmatch(FUNCTION, name):
        known = ", ".join(places("agon.verifiers"))
        raise ValueError(f"should be {known}, FILE.py:function or package.module:function, not {name!r}")
    return name


def _known_environment(name: str) -> str:
    if not name.startswith(ENVIRONMENTS) or name in ENVIRONMENTS:
        raise ValueError(f"should be reasoning-gym:TASK or verifiers:MODULE, not {name!r}")
    return name


EngineName = Annotated[str, AfterValidator(_known_engine)]
ArmName = Annotated[str, AfterValidator(_known_arm), WithJsonSchema({"type": "string", "enum": list(ARMS)})]
VerifierName = Annotated[str, AfterValidator(_known_verifier)]
EnvironmentName = Annotated[str, AfterValidator(_known_environment)]
TermName = Annotated[str, AfterValidator(_function)]


class Source(Frozen):
    """Where problems come from: a preset, a file, a local copy of a preset, or an environment."""

    preset: str | None = None
    """`deepmath-hard`, `codecontests-easy`, `gsm8k`, `gsm8k-test`, `math-500`, `tabletop` or `reasoning-gym:TASK`.
    With `path`: that preset's rules on a local copy."""
    path: str | None = None
    """A local JSONL, parquet or CSV file; relative to the config."""
    env: EnvironmentName | None = None
    """An environment that gives problems and scores answers: `reasoning-gym:TASK`, or `verifiers:MODULE` for the v1
    taskset in a module. Needs `verifier: environment`."""
    template: str | None = None
    """For environments: how the content of the answer block is written before it is scored, such as `#### {}`; null is
    `{}`, the content itself."""
    columns: dict[str, str] = Field(default={})
    """For files: which column is which, such as `{question: problem, answer: solution}`."""
    take: Positive | None = None
    """How many problems; null takes all that the other splits leave."""
    options: dict[str, Scalar] = Field(default={})
    """Options of the preset, such as `{family: chain, difficulty: 2}` for `tabletop`, or of the environment."""

    @model_validator(mode="after")
    def _names_something(self) -> Source:
        if self.preset is None and self.path is None and self.env is None:
            raise ValueError("needs a preset, a path or an env")
        if self.env is not None and (other := "path" if self.path else "preset" if self.preset else None):
            raise ValueError(
                f"names an env and a {other}, and an environment brings its own problems: "
                f"remove {other}, or remove env and choose a verifier for the {other}"
            )
        if self.template is not None and (self.env is None or "{}" not in self.template):
            raise ValueError("a template needs an env to write answers for, and {} where the answer goes")
        return self

    @property
    def named(self) -> str | None:
        """The preset or the environment, whichever is given."""
        return self.preset or self.env


class Data(Frozen):
    """Three splits that never share a problem."""

    train: Source
    """Problems to learn from."""
    dev: Source
    """Our choice: decides the cascade direction, and which checkpoint is the best. The paper decides the direction on
    the held-out set, which by itself is worth about 1.6 points."""
    held_out: Source
    """Problems for the final numbers, and for nothing else."""
    split_seed: Natural = 0
    """Our choice: which problem falls in which split; the paper says only that its seed is fixed."""

    @property
    def sources(self) -> tuple[Source, Source, Source]:
        return self.train, self.dev, self.held_out


class GameConfig(Frozen):
    """The rules of the game. Fields that are not written come from the arm."""

    group_size: int = Field(default=8, strict=True, ge=2)
    """N: drafts per problem, and challenges per problem. At least 2, as an advantage needs a group."""
    format_weight: Weight = 0.5
    """Lambda: what well-formed structure is worth, in addition to the 2 for correctness."""
    opponent: Literal["rival", "self", "none"] = "rival"
    """Whose draft the challenger meets: the rival's, its own, or none (plain GRPO with 2N rollouts)."""
    show_draft: Switch = True
    """Whether the challenger reads the draft's summary. Our choice: a draft that ended without one is shown as one
    fixed sentence, so that the prompt keeps its shape."""
    show_code: Switch = False
    """Our choice: where the answer is a program, whether the summary that a challenger reads keeps its code blocks.
    `false` withholds them: a program in the summary is the answer, outside its block."""
    pairing: Literal["per_rollout", "shared", "next_draft"] = "per_rollout"
    """Which draft pays challenge b_i: its own a_i, one draft for the whole group, or the next draft."""
    stack: Literal["coop", "adv", "margin"] = "adv"
    """The challenger's reward: correctness alone, with the conversion bonus, or with the naive margin."""
    roles: Literal["rotate", "fixed"] = "rotate"
    """Whether A and B swap drafting and challenging at every step."""
    tiebreak_weight: Weight = 0.0
    """Gamma: what being right in fewer tokens than a right rival is worth (0.5 in the density study)."""
    conversion_weight: Weight = 1.0
    """What a conversion is worth: solving what the rival could not, in addition to the 2 for correctness."""
    wait_for_all_drafts: Switch = False
    """Our choice: wait for every draft before the first challenge. Challenge i needs draft i alone, so this only serves
    comparison."""


class RewardConfig(Frozen):
    """What is paid beside the game: nothing, unless you have reward functions of your own."""

    right: Number = Field(default=1.0)
    """Our choice: the least number that a verifier of yours or an environment returns for a right answer. The
    conversion bonus is paid by right and wrong."""
    terms: list[TermName] = Field(default=[])
    """Our choice: further functions in TRL's signature, such as [rewards.py:brevity]. What they return is added to the
    reward of drafts and challenges."""
    weights: list[Number] = Field(default=[])
    """Our choice: what each of `terms` is worth, beside the 2 for a right answer; none: 1 each."""


class Train(Frozen):
    """One pass of learning. You state problems per step and group size; micro-batches are derived."""

    problems_per_step: Positive = 8
    """Our choice: the paper does not give it; 8 makes 375 steps of its 3,000 problems, 128 rollouts each."""
    epochs: Positive = 1
    """Passes over the training problems."""
    max_steps: Positive | None = None
    """Our choice: stop after this many steps, for a first try; null runs all epochs."""
    learning_rate: Number = Field(default=5e-5, gt=0)
    """Peak learning rate, the same for both policies."""
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    """How the learning rate decays after warmup."""
    warmup: Number = Field(default=0.1, ge=0, lt=1)
    """Share of all steps over which the learning rate rises from 0. Above 0, the first step's rate is 0, as in
    transformers: its rollouts move no weight."""
    beta: Weight = 0.0
    """Our choice: KL weight towards the base, which the paper leaves out "for brevity"; 0 saves a forward pass."""
    loss: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """Our choice: how token losses are averaged; `grpo`, the mean over each completion, is the algorithm the paper
    names."""
    importance: Literal["token_truncate", "none"] = "token_truncate"
    """Our choice: correction for the gap between sampler and learner, token by token; a whole-sequence ratio would
    down-weight long traces."""
    clip_norm: Number | None = Field(default=1.0, gt=0)
    """Our choice: gradient clipping, each adapter by itself, so that one policy cannot slow the other; null turns it
    off."""
    staleness: Natural = 0
    """Our choice: steps that are played ahead of the learner, while it computes. A step then learns from samples that
    are so many updates old, with one clipped ratio: learner now over sampler then. 0: play, then learn."""
    temperature: Number = Field(default=1.0, gt=0)
    """Our choice: sampling temperature in training; 1 draws from the policy itself. top_p is always 1, as less would
    bias the ratios."""
    max_completion_tokens: Positive = 15_000
    """Cap on each completion, draft or challenge."""
    max_peek_tokens: Positive = 2_048
    """Our choice: cap on the summary that a challenger reads, which bounds its prefill."""
    tokens_per_pass: Positive = 16_384
    """Our choice: tokens per forward pass, prompts included; a longer row goes alone. Changes memory and speed, not the
    result."""
    gradient_checkpointing: Switch = True
    """Our choice: recompute activations in the backward pass; long completions do not fit otherwise."""
    gpus: Positive = 1
    """Our choice: GPUs of this machine that compute gradients. The first has the run; on each of the others a process
    with the same base computes a part of every update."""
    seed: Natural = 0
    """Our choice: every random choice of the run derives from it; the paper reports no seeds."""


class SamplerConfig(Frozen):
    """What draws completions."""

    engine: EngineName = "vllm"
    """`vllm` for GPUs, `hf` for tiny models on a CPU. `tinker` samples and also trains on a Tinker service: the hosted
    one, or the one server in `urls`. A package can add others (`agon.doors`)."""
    replicas: Positive | None = None
    """Our choice: vLLM engines that a run starts on each machine; a draw goes to the least busy one. Each has a GPU, or
    as many as tensor_parallel_size in `options`. null puts engines on as many GPUs as there are learner processes."""
    urls: Annotated[list[str], AfterValidator(_distinct)] = Field(default=[])
    """Our choice: running vLLM servers to sample from, such as [http://localhost:8000], each an engine of its own;
    without one a run starts its engines itself."""
    network: str | None = None
    """Our choice: the network that `urls` may be in, such as 10.0.0.0/8; null allows only this machine, since a server
    that loads adapters at run time can be made to read any file."""
    max_loras: Positive = 4
    """Our choice: adapters live at once: two policies, and their first versions to measure progress against."""
    gpu_memory_utilization: Number | None = Field(default=None, gt=0, le=1)
    """Our choice: share of the GPU that vLLM may take. null: 0.9 on a GPU of its own; beside a learner, what it leaves
    free if the engine sleeps, else 0.45."""
    sleep: Switch | Literal["auto"] = "auto"
    """Our choice: an engine inside the run releases its GPU memory while the learner works: room for longer rows and
    more rollouts at once, at a few seconds per step. `auto`: when both are on one GPU."""
    max_model_len: Positive | None = None
    """Our choice: context length of the engine; null derives it from the caps on peek and completion."""
    options: dict[str, Scalar] = Field(default={})
    """Further arguments of vLLM's AsyncEngineArgs, such as `{kv_cache_dtype: fp8}`. A rule of this
    key lists those that may be set."""
    canary: Literal["stop", "warn", "off"] = "stop"
    """Our choice: what follows when an engine does not hold the learner's adapters, or is further from the learner than
    `canary_limit`: the run stops, or continues with a warning. `off` checks nothing."""
    canary_limit: Number | None = Field(default=None, gt=0, le=1)
    """Our choice: how far engine and learner may be apart on fixed prompts, in nats per token; null is 0.2 in
    bfloat16, 0.2 in float16 and 0.01 in float32."""


class SandboxConfig(Frozen):
    """Where programs run that the verifier `code` judges; docs/sandbox.md says what each backend stops."""

    backend: Literal["bwrap", "landlock"] = "bwrap"
    """Our choice: `bwrap` (bubblewrap), `landlock` where containers forbid user namespaces."""
    memory: Literal["cgroup", "per_process"] = "cgroup"
    """Our choice: bound the memory of a whole program, which needs a writable cgroup; `per_process` accepts that many
    processes together are not bounded."""
    workers: Positive | None = None
    """Our choice: programs that run at once, for each process of a run; null shares the cores of the machine among
    them."""
    time_factor: Number = Field(default=2.0, gt=0, le=100)
    """Our choice: multiplies a problem's time limit, which was set for other machines and mostly faster languages."""

    def settings(self) -> SandboxSettings:
        """These values, as the sandbox takes them."""
        return SandboxSettings(**self.model_dump())


class Eval(Frozen):
    """How a policy or a pair is measured."""

    points: Natural = 6
    """Evaluations along the run (the paper's curve): evenly spaced, the last at its end, and one more before the first
    step; 0 for none."""
    temperature: Weight = 0.6
    """Sampling temperature; 0 is greedy."""
    top_p: Number = Field(default=0.95, gt=0, le=1)
    """Nucleus sampling."""
    max_completion_tokens: Positive = 15_000
    """Cap on each completion, at each stage."""
    samples: Positive = 1
    """Completions per problem and stage."""
    curve: Literal["dev", "held_out"] = "dev"
    """Our choice: what the curve over training is measured on. `held_out` is the paper's: each evaluation point then
    asks the held-out problems too, and dev still chooses the direction; `agon plan` shows what that costs."""
    against_first: Literal["end", "always", "never"] = "end"
    """Our choice: at which points cascades are also measured from the drafter's first version, a rival that does not
    move. `always` doubles what a point draws."""
    direction: Literal["dev", "ab", "ba", "both", "post-hoc"] = "dev"
    """Our choice: which cascade is reported. `dev` chooses on the dev split; `post-hoc` is the paper's choice, on the
    evaluated set itself."""


class Save(Frozen):
    """Checkpoints."""

    every: Positive = 10
    """Our choice: steps between checkpoints; the paper does not give it. A step may take minutes, and only what was
    saved survives a process that is killed."""
    keep: int = Field(default=3, strict=True, ge=2)
    """Our choice: how many are kept whole, to bound disk use; at least 2, as the newest may be damaged. Those at
    evaluation points always keep their adapters."""
    pair: Literal["last", "best"] = "last"
    """Which checkpoint `pair/` holds, and so what `agon eval` and `agon export` take: the last, as in the paper, or the
    best on dev."""


class Config(Frozen):
    """One run: an arm, a base, problems, a verifier, and how to learn and measure."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    """Version of this file format."""
    arm: ArmName
    """The method to train with; it sets every field of `game` that is not written."""
    model: Model
    """The frozen base and the adapters over it."""
    data: Data
    """Three splits that never share a problem."""
    verifier: VerifierName
    """What decides correctness: `math`, `math-verify` (the plain library), `code` (a program that passes its tests),
    `environment` (the environment that the problems come from), or your own function as `FILE.py:function` (relative to
    the config) or `package.module:function`."""
    game: GameConfig = GameConfig()
    """The rules of the game."""
    reward: RewardConfig = RewardConfig()
    """What is paid beside the game."""
    rival: Rival = Rival()
    """Who plays policy B."""
    train: Train = Train()
    """One pass of learning."""
    sampler: SamplerConfig = SamplerConfig()
    """What draws completions."""
    sandbox: SandboxConfig = SandboxConfig()
    """Where programs run that the verifier `code` judges."""
    eval: Eval = Eval()
    """How a policy or a pair is measured."""
    save: Save = Save()
    """Checkpoints."""
    report_to: list[Literal["trackio", "wandb", "tensorboard"]] = Field(default=[])
    """Trackers to log to. With none, a run needs no account and no network."""

    def rules(self) -> Game:
        """The rules of the game that this run plays."""
        return Game(
            **self.game.model_dump(),
            max_peek_tokens=self.train.max_peek_tokens,
            sampling=Sampling(self.train.temperature, 1.0, self.train.max_completion_tokens),
            seed=self.train.seed,
            rival=rival_of(self.rival.kind).rivalry,
        )

    @property
    def row(self) -> str:
        """How results of this run are named: its arm, and its rival where that does not learn."""
        return row_name(self.arm, self.rival.kind)

    @model_validator(mode="before")
    @classmethod
    def _game_from_arm(cls, raw: Any) -> Any:
        """Fill what `game` leaves open from the arm."""
        arm = raw.get("arm") if isinstance(raw, Mapping) else None
        if not isinstance(arm, str) or arm not in ARMS:
            return raw
        game = raw.get("game", {})
        written = game.model_dump(exclude_unset=True) if isinstance(game, GameConfig) else game
        return {**raw, "game": {**resolve(arm), **written}} if isinstance(written, Mapping) else raw

    @model_validator(mode="after")
    def _no_rule_broken(self) -> Config:
        if broken := broken_rules(self.model_dump(by_alias=True)):
            raise ValueError("; ".join(f"{rule.keys[0]} {rule.reason}" for rule in broken))
        return self


def resolved(config: Config) -> dict[str, Any]:
    """Every value of the config, arm included, as plain JSON types: what a run stores."""
    return config.model_dump(mode="json", by_alias=True)


def diff(old: Config, new: Config) -> list[str]:
    """The dotted keys in which two configs differ, sorted."""
    before, after = flat(resolved(old)), flat(resolved(new))
    return sorted(key for key in before.keys() | after.keys() if before.get(key, ...) != after.get(key, ...))


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"game.group_size": 8, ...}: nested mappings as dotted keys; an empty mapping stays a value."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        leaves |= flat(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return leaves
