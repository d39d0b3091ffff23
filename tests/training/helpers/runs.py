"""A run without a model: the scripted sampler of the game, and a learner whose weights are one number per policy."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.config import Config
from agon.data import Splits
from agon.doors import door
from agon.engine.scripted import ScriptedSampler
from agon.protocols import Gap, Tokens, Update, accept_all, nothing_stops
from agon.rundir import RunDir
from agon.rundir.health import Symptom
from agon.rundir.records import Point, StepRecord, Timing
from agon.training.loop import Training
from agon.training.machines import Machines
from agon.types import Completion, Policy, Problem, Reason, Request, Stream, Verdict, content_id
from tests.game.helpers import RIGHT, WRONG, read_tag

SETTINGS = {"peft_type": "LORA", "base_model_name_or_path": "scripted", "r": 1}


def config(**changes: Any) -> Config:
    source = {"path": "/unused.jsonl"}
    raw: dict[str, Any] = {
        "arm": "agon",
        "model": {"name": "scripted"},
        "data": {"train": source, "dev": source, "held_out": source},
        "verifier": "math",
        "game": {"group_size": 2},
        "train": {"problems_per_step": 2},
        "eval": {"points": 2},
        "save": {"every": 2, "keep": 2},
    }
    for key, value in changes.items():
        section, name = key.split("__")
        raw.setdefault(section, {})[name] = value
    return Config.model_validate(raw)


def problems(n: int) -> list[Problem]:
    return [Problem(f"p{k}", f"question number {k}", "yes") for k in range(n)]


class OneNumberLearner:
    """Adds up advantages: a policy moves when its stream is live and stays when it is dead."""

    consistent = True

    def __init__(self, total: int) -> None:
        self.total, self.step = total, 0
        self.weights = {Policy.A: 0.0, Policy.B: 1.0}

    def update(
        self,
        streams: Sequence[Stream],
        check: Callable[[], None] = nothing_stops,
        accept: Callable[[Sequence[Gap]], None] = accept_all,
    ) -> Update:
        check()
        for stream in streams:
            live = [row.advantage for row in stream.rollouts() if row.advantage is not None]
            self.weights[stream.policy] += sum(map(abs, live))
        self.step += 1
        return Update(self.step - 1, {stream.policy: {"loss": self.weights[stream.policy]} for stream in streams})

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        pass

    def export(self, policy: Policy, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        header = json.dumps({"w": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}).encode()
        weight = struct.pack("<d", self.weights[policy])
        (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + weight)
        (folder / "adapter_config.json").write_text(json.dumps(SETTINGS))
        return self.hash(policy)

    def hash(self, policy: Policy) -> str:
        return content_id(repr(self.weights[policy]))

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        return [[0.0] * len(row.completion_ids) for row in rows]

    def save(self, folder: Path) -> None:
        for policy in Policy:
            self.export(policy, folder / policy.value)
        state = {"step": self.step, "weights": {policy.value: self.weights[policy] for policy in Policy}}
        (folder / "state.json").write_text(json.dumps(state))

    def load(self, folder: Path) -> None:
        state = json.loads((folder / "state.json").read_text())
        self.step = state["step"]
        self.weights = {Policy(policy): weight for policy, weight in state["weights"].items()}

    def memory(self) -> Mapping[str, int]:
        return {}


class Plain:
    """A renderer by words."""

    hash = "words"

    def render(self, prompt: Any) -> Any:
        return type("Rendered", (), {"ids": tuple(prompt.messages[-1].text.split())})


class Verifier:
    """Reads the tag; `broken` completions have no verdict."""

    def __init__(self, broken: Callable[[Completion], bool] = lambda completion: False) -> None:
        self.broken = broken

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        judged = await read_tag(problem, completion)
        return Verdict(False, True, Reason.INFRA, "KeyError: 'x'") if self.broken(completion) else judged

    def close(self) -> None:
        pass


class Notes:
    """A display that keeps what it is given."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[StepRecord] = []

    def open(self) -> None:
        pass

    def step(self, record: StepRecord, timing: Timing) -> None:
        self.steps.append(record)

    def point(self, point: Point) -> None:
        pass

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)

    def health(self, symptoms: Sequence[Symptom]) -> None:
        pass

    def close(self) -> None:
        pass


def half_right(request: Request) -> str:
    return RIGHT if request.seed % 2 else WRONG


def directory(root: Path, name: str, settings: Config) -> RunDir:
    if (root / name).exists():
        return RunDir.open(root / name)
    return RunDir.create(root, name, settings)


def training(
    run: RunDir,
    settings: Config,
    answer: Callable[[Request], str] = half_right,
    verify: Verifier | None = None,
    train: Sequence[Problem] | None = None,
    machines: Machines | None = None,
) -> Training:
    train = problems(12) if train is None else train
    total = (len(train) // settings.train.problems_per_step) * settings.train.epochs
    total = min(total, settings.train.max_steps or total)
    learner, sampler = OneNumberLearner(total), ScriptedSampler(answer)
    machines = machines or Machines(learner, sampler, verify or Verifier(), Plain())  # type: ignore[arg-type]
    splits = Splits(tuple(train), tuple(problems(16)[12:]), tuple(problems(20)[16:]), pools={})
    rival = door("agon.rivals", settings.rival.kind)(settings)
    return Training(settings, run, splits, machines, Notes(), rival)
