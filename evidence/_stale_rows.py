"""Real adapters and real draws in bfloat16, for `stale_adapter.py`: SmolLM2-135M learns by the recipe's steps.

LoRA, learning rate and loss are the recipe's, the problems short questions of GSM8K. Every version is published to a
real vLLM and compared by the canary, and what it draws is kept, as are the versions: the training may be interrupted at
any time and goes on where it was.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from _lib import ROOT, data_dir
from agon.config import Config, load_config
from agon.engine.synthetic import rollout, stream
from agon.protocols import Tokens, Update
from agon.types import BASE, Message, Policy, Prompt, Quote, Sampling, Stream, Version, seed_for

WARM, ROUNDS = 8, 20
"""Steps before the first round: an adapter's first steps are not like its later ones. Then one round per step."""
GROUP, GROUPS, LEARNT = 8, 12, 2
"""Rows per problem, as in the recipe; problems per step for the policy that a round tests; the problems that an update
learns from. The other policy has no more than those."""
IGNORED = 12
"""Rows of the bare base for each round."""
LONGEST, SHORT = 256, 130
"""Tokens of a completion at most, and characters of a question."""
CALIBRATED = ("noise", "worst", "rounding", "effect")


@dataclass(frozen=True, slots=True)
class Row:
    """A completion of the engine, and the reward that its update learns from."""

    tokens: Tokens
    reward: float


@dataclass(frozen=True, slots=True)
class Work:
    """What is kept, and where."""

    root: Path
    base: Path

    def check_settings(self) -> None:
        """Refuse what was kept under other settings."""
        config = recipe(self.base)
        settings = repr((WARM, ROUNDS, GROUP, GROUPS, LEARNT, IGNORED, LONGEST, SHORT, config.train, config.model.lora))
        path = self.root / "settings"
        if path.exists() and path.read_text() != settings:
            raise SystemExit(f"{self.root} was kept with different settings: remove it, or choose another with --work")
        write(path, settings)

    def drawn(self, step: int) -> bool:
        """Whether a round has its rows, and the learner went on from there."""
        return self.trained(step + 1) and self.has_rows(f"{step:03d}base")

    def trained(self, step: int) -> bool:
        return all((self.folder(step, policy) / "version").exists() for policy in Policy)

    def folder(self, step: int, policy: Policy) -> Path:
        return self.root / "versions" / f"{step:03d}{policy.value}"

    def folder_of(self, version: Version) -> Path:
        policy, _, step = version.partition("-")[0].partition("@")
        return self.folder(int(step), Policy(policy))

    def version(self, step: int, policy: Policy) -> Version:
        return Version((self.folder(step, policy) / "version").read_text())

    def rows(self, name: str) -> list[Row]:
        kept = json.loads((self.root / "rows" / f"{name}.json").read_text())
        return [Row(Tokens(tuple(prompt), tuple(ids), tuple(logps)), reward) for prompt, ids, logps, reward in kept]

    def has_rows(self, name: str) -> bool:
        return (self.root / "rows" / f"{name}.json").exists()

    def keep_rows(self, name: str, rows: Sequence[Row]) -> None:
        kept = [[row.tokens.prompt_ids, row.tokens.completion_ids, row.tokens.logprobs, row.reward] for row in rows]
        write(self.root / "rows" / f"{name}.json", json.dumps(kept))


def write(path: Path, text: str) -> None:
    """All of a file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").replace(path)


def checkpoint(folder: Path) -> Path:
    """The folder that AGON_SMOLLM2 names, or a checkpoint made in `folder`."""
    if named := os.environ.get("AGON_SMOLLM2"):
        return Path(named).resolve()
    if not (folder / "config.json").exists():
        subprocess.run([sys.executable, ROOT / "scripts" / "make_smollm2", folder], check=True, stdout=sys.stderr)
    return folder


def tested(step: int) -> Policy:
    """The policy whose version is late in the round of this step: each in turn."""
    return Policy.A if step % 2 == 0 else Policy.B


def recipe(base: Path) -> Config:
    """The paper's recipe for a small base, at a constant rate: with its warmup the first steps are next to nothing."""
    config = load_config(ROOT / "configs" / "paper" / "base.yaml")
    fast = {"schedule": "constant", "warmup": 0.0, "micro_batch": 8, "gradient_checkpointing": False}
    return config.model_copy(
        update={
            "model": config.model.model_copy(update={"name": str(base)}),
            "train": config.train.model_copy(update=fast | {"max_completion_tokens": LONGEST}),
        }
    )


def make_learner(work: Work) -> Any:
    import torch

    from agon.engine.trl.learner import TRLLearner

    torch.set_num_threads(1)
    config = recipe(work.base)
    return TRLLearner(config.model, config.train, total_steps=WARM + ROUNDS)


def draw(work: Work) -> None:
    """Train, publish and draw until every round has its rows."""
    if work.trained(WARM + ROUNDS):
        return
    learner = make_learner(work)
    if saved := sorted((work.root / "states").glob("[0-9]*[0-9]")):
        learner.load(saved[-1])
    with running_sampler(work) as sampler:
        table = Table(work, learner, sampler, questions())
        learner.fit(table.streams, table.after_step)
    for policy in Policy:
        table.export(learner.step, policy)


@contextmanager
def running_sampler(work: Work) -> Iterator[Any]:
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.local import LocalEngine
    from agon.engine.vllm.sampler import VLLMSampler

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rank = recipe(work.base).model.lora.rank
    engine = LocalEngine(str(work.base), dtype="bfloat16", context=512, rank=rank, max_loras=4, memory=0.4)
    sampler = VLLMSampler(str(work.base), Fleet(engine, patience=1800.0))
    try:
        yield sampler
    finally:
        sampler.close()


def questions() -> list[tuple[str, str]]:
    """Short questions of GSM8K with their answers."""
    folder = data_dir()
    if folder is None:
        raise SystemExit("set AGON_DATA to a folder with gsm8k/train.jsonl")
    rows = [json.loads(line) for line in (folder / "gsm8k" / "train.jsonl").read_text().splitlines()]
    return [(row["question"], row["answer"].split("####")[1].strip()) for row in rows if len(row["question"]) <= SHORT]


@dataclass(slots=True)
class Table:
    """A learner and an engine that play the rounds."""

    work: Work
    learner: Any
    sampler: Any
    questions: list[tuple[str, str]]
    canary: Any = None

    def streams(self, step: int) -> list[Stream]:
        """Publish both policies, let the canary compare them, draw what is missing."""
        versions = {policy: self._publish(step, policy) for policy in Policy}
        self._compare(step, versions)
        missing = [policy for policy in Policy if not self.work.has_rows(f"{step:03d}{policy.value}")]
        asked = [(versions[policy], f"{step}", self._count(step, policy)) for policy in missing]
        for policy, rows in zip(missing, self._draw(asked) if asked else [], strict=True):
            self.work.keep_rows(f"{step:03d}{policy.value}", rows)
        if step >= WARM and not self.work.has_rows(f"{step:03d}base"):
            self.work.keep_rows(f"{step:03d}base", self._draw([(BASE, f"base {step}", IGNORED)])[0])
        return [learnable(policy, self.work.rows(f"{step:03d}{policy.value}")) for policy in Policy]

    def after_step(self, update: Update) -> bool:
        """Keep the learner as it is; its weights are exported when they are published."""
        step, states = update.step + 1, self.work.root / "states"
        self.learner.save(states / "part")
        (states / "part").rename(states / f"{step:03d}")
        shutil.rmtree(states / f"{step - 1:03d}", ignore_errors=True)
        norms = {policy.value: round(values["grad_norm"], 3) for policy, values in update.metrics.items()}
        print(f"step {step} of {WARM + ROUNDS}: gradient norms {norms}", flush=True)
        return True

    def export(self, step: int, policy: Policy) -> Path:
        folder = self.work.folder(step, policy)
        if not (folder / "version").exists():
            version = Version.of(policy, step, self.learner.export(policy, folder)[:8])
            write(folder / "version", version)
        return folder

    def _publish(self, step: int, policy: Policy) -> Version:
        folder = self.export(step, policy)
        version = self.work.version(step, policy)
        self.sampler.publish(version, folder)
        return version

    def _compare(self, step: int, versions: dict[Policy, Version]) -> None:
        """The canary's own check after a publication; what it calibrated is kept for the judge."""
        from agon.engine.vllm.canary import Canary

        self.canary = self.canary or Canary(self.sampler, self.learner, slots=4)
        self.canary.check(versions)
        found = {name: getattr(self.canary, name) for name in CALIBRATED}
        write(self.work.root / "checks" / f"{step:03d}.json", json.dumps(found | {"measured": self.canary.measured}))

    @staticmethod
    def _count(step: int, policy: Policy) -> int:
        return GROUP * (GROUPS if step >= WARM and policy is tested(step) else LEARNT)

    def _draw(self, asked: Sequence[tuple[Version, str, int]]) -> list[list[Row]]:
        """Completions of versions on questions that a name chooses, all in one batch."""
        from agon.engine.protocol import Draw

        draws, golds = list[Draw](), list[str]()
        for version, name, count in asked:
            for number in range(count):
                question, gold = self.questions[seed_for("question", name, number // GROUP) % len(self.questions)]
                ids = self.sampler.renderer.render(Prompt((Message("user", (Quote(question),)),))).ids
                draws.append(Draw(ids, version, seed_for("row", version, name, number), Sampling(1.0, 1.0, LONGEST)))
                golds.append(gold)
        drawn = zip(draws, golds, self.sampler.draw_all(draws), strict=True)
        rows = iter([Row(Tokens(d.ids, got.ids, got.logprobs), self._reward(got, gold)) for d, gold, got in drawn])
        return [[next(rows) for _ in range(count)] for _, _, count in asked]

    def _reward(self, drawn: Any, gold: str) -> float:
        """Right, and full of figures: no group is dead, every step moves both policies, and rows stay long."""
        text = self.sampler.renderer.text(drawn.ids)
        right = gold in text.replace(",", "").split()
        return float(right) + sum(map(str.isdigit, text)) / max(len(text), 1)


def learnable(policy: Policy, rows: Sequence[Row]) -> Stream:
    """The groups that an update learns from, with their advantages."""
    groups = [rows[start : start + GROUP] for start in range(0, LEARNT * GROUP, GROUP)]
    return stream(policy, [list(group_of(policy, group)) for group in groups])


def group_of(policy: Policy, group: Sequence[Row]) -> Iterator[Any]:
    mean, spread = fmean(row.reward for row in group), pstdev([row.reward for row in group])
    for index, row in enumerate(group):
        yield rollout(policy, index, row.tokens, (row.reward - mean) / (spread + 1e-4))
