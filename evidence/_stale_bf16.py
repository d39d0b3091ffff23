"""One optimizer step in bfloat16: SmolLM2-135M learns by the recipe's steps, and the engine is made to fail in some.

Adapters, optimizer, rate and loss are the recipe's; groups and completions are small, since the size of a step hardly
depends on them. Every step publishes both policies to a real vLLM and learns from what that draws: the canary must not
stop it. In some steps the engine first serves the old weights under the new name, then the base's, then the other
policy's: the canary must stop each, and does not know what was done. Results are kept as they come; a run that was
interrupted goes on.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from _engine import write_zeros
from _lib import ROOT, cannot_run, data_dir, smollm2
from agon.config import Config, load_config
from agon.engine.synthetic import rollout, stream
from agon.game.advantage import advantages
from agon.protocols import Tokens, Update
from agon.types import Message, Policy, Prompt, Quote, Sampling, Stream, Version, seed_for

STEPS, WARM, ROUNDS = 51, 10, 20
"""Steps, and those before the first with faults, which is then every second: a round. The fewest rounds; one more is
played, as the first step after an interruption cannot be late."""
GROUP, LONGEST, SHORT = 4, 32, 130
"""Rows that a policy learns from in a step, tokens of a completion at most, and characters of a question."""
MORE, MOST = 16, 20_000
"""Rows that are drawn at a time from an engine that swaps, until the canary stops it, and the most tokens of theirs."""
SETTINGS = (STEPS, WARM, GROUP, LONGEST, SHORT, MOST)
GOAL = {"late": 0.95, "ignored": 1.0, "swapped": 1.0, "rounds": ROUNDS, "healthy checks": 200, "false alarms": 0}


def prove(root: Path) -> dict[str, Any]:
    """Train to the end, or on from where it was interrupted, and count."""
    base = smollm2(root / "base")
    check_settings(root / "settings", settings(recipe(base)))
    bench = Bench(root, base, make_learner(base), questions())
    if saved := sorted((root / "states").glob("[0-9]*[0-9]")):
        bench.learner.load(saved[-1])
    with running_engine(base) as bench.sampler:
        while bench.learner.step < bench.learner.total_steps:
            bench.keep(bench.learner.update(bench.streams(bench.learner.step)))
    return counted([json.loads(line) for line in bench.results.read_text().splitlines()][:STEPS])


def settings(config: Config) -> str:
    """What the kept steps depend on."""
    train = config.train
    return repr((SETTINGS, train.learning_rate, train.loss, train.importance, train.clip_norm, config.model.lora))


def check_settings(path: Path, settings: str) -> None:
    """Refuse to continue what was kept under other settings."""
    if path.exists() and path.read_text() != settings:
        raise SystemExit(f"{path.parent} was kept with different settings: remove it, or choose another with --work")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings)


def counted(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rounds = [step["caught"] for step in steps if step["caught"]]
    tokens = [step["tokens"] for step in steps if step["caught"]]
    return {
        **{name: sum(found[name] for found in rounds) for name in ("late", "ignored", "swapped")},
        **{"rounds": len(rounds), "steps": len(steps), "tokens until swapped is seen": max(tokens, default=0)},
        **{
            "healthy checks": sum(step["healthy"] for step in steps),
            "false alarms": sum(step["alarms"] for step in steps),
        },
        "a step in nats per token, rounding included": round(fmean(step["moved"] for step in steps[1:]), 4),
    }


def holds(found: dict[str, Any]) -> bool:
    caught = all(found[name] >= GOAL[name] * found["rounds"] for name in ("late", "ignored", "swapped"))
    enough = all(found[name] >= GOAL[name] for name in ("rounds", "healthy checks"))
    return caught and enough and not found["false alarms"]


def has_faults(step: int) -> bool:
    return step >= WARM and step % 2 == 0


@dataclass(slots=True)
class Bench:
    """A learner and an engine that play the steps, and what the canary said in each."""

    root: Path
    base: Path
    learner: Any
    questions: list[tuple[str, str]]
    sampler: Any = None
    canary: Any = None
    done: dict[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.root / "steps.jsonl"

    def streams(self, step: int) -> list[Stream]:
        """Publish both policies, try the faults if it is their turn, check, draw, check the samples."""
        from agon.engine.vllm.canary import Canary

        self.canary = self.canary or Canary(self.sampler, self.learner, slots=4)
        before = dict(self.canary._current)
        versions = {policy: self._publish(step, policy) for policy in Policy}
        self.done = {"step": step, "caught": {}, "tokens": 0, "healthy": 0, "alarms": 0}
        if has_faults(step) and before:
            self._faults(step, before, versions)
        self._healthy(lambda: self.canary.check(versions))
        rows = {policy: self._draw(versions[policy], f"{step}", GROUP) for policy in Policy}
        self.done["moved"] = self._moved(Policy.A, [tokens for tokens, _ in rows[Policy.A]])
        streams = [stream(policy, [list(group_of(policy, rows[policy]))]) for policy in Policy]
        self._healthy(lambda: self.canary.check_samples(streams))
        return streams

    def keep(self, update: Update) -> None:
        """Keep the learner and the step's results together: a run that goes on repeats no step."""
        step, states = update.step + 1, self.root / "states"
        shutil.rmtree(states / "part", ignore_errors=True)
        self.learner.save(states / "part")
        (states / "part").rename(states / f"{step:03d}")
        shutil.rmtree(states / f"{step - 1:03d}", ignore_errors=True)
        kept = self.results.read_text().splitlines()[: step - 1] if self.results.exists() else []
        self.results.write_text("".join(f"{line}\n" for line in [*kept, json.dumps(self.done)]))
        print(json.dumps(self.done), flush=True)

    def _publish(self, step: int, policy: Policy) -> Version:
        folder = self.root / "versions" / f"{step:03d}{policy.value}"
        shutil.rmtree(folder, ignore_errors=True)
        version = Version.of(policy, step, self.learner.export(policy, folder)[:8])
        self.sampler.publish(version, folder)
        return version

    def _faults(self, step: int, before: dict[Policy, Version], versions: dict[Policy, Version]) -> None:
        """Serve the wrong weights in each way, to one policy in even rounds and to the other in odd ones."""
        adapters = self._engine._adapters
        policy = Policy.A if step // 2 % 2 else Policy.B
        right, caught, new = dict(adapters), self.done["caught"], versions[policy]
        adapters[new] = right[before[policy]]
        caught["late"] = self._stops(lambda: self.canary.check(versions))
        adapters[new] = self._zeros(new)
        caught["ignored"] = self._stops(lambda: self.canary.check(versions))
        for mine, other in (Policy.A, Policy.B), (Policy.B, Policy.A):
            adapters[versions[mine]] = right[versions[other]]
        caught["swapped"] = self._stops(lambda: self.canary.check(versions)) or self._swapped(step, policy, new)
        adapters.clear()
        adapters.update(right)
        self.canary.suspects.slopes.clear()

    def _swapped(self, step: int, policy: Policy, version: Version) -> bool:
        """Whether the canary stops a run by the samples, of which ever more are drawn."""
        suspects, number = self.canary.suspects, 0
        suspects.slopes.clear()
        while self.done["tokens"] < MOST:
            rows = self._draw(version, f"{step} swapped {number}", MORE)
            drawn = [rollout(policy, n, tokens, None) for n, (tokens, _) in enumerate(rows)]
            count = sum(len(tokens.completion_ids) for tokens, _ in rows)
            suspects.tokens, number = 4 * count, number + 1  # the rival is tested with a fourth of this
            self.done["tokens"] += count
            try:
                if self._stops(lambda drawn=drawn: self.canary.check_samples([stream(policy, [drawn])])):
                    return True
            finally:
                suspects.tokens = None
        return False

    def _zeros(self, version: Version) -> Any:
        """The bare base, as an adapter of zeros."""
        source = self.sampler.live[version]
        folder = write_zeros(source, source.with_name(f"{source.name}-zeros"))
        zeros = Version.of(Policy.A, int(source.name[:3]), "zeros")
        self.sampler.submit(self._engine.load(zeros, folder)).result()
        return self._engine._adapters.pop(zeros)

    @property
    def _engine(self) -> Any:
        return self.sampler.fleet.members[0].engine

    @staticmethod
    def _stops(check: Any) -> bool:
        from agon.errors import EngineError

        try:
            check()
        except EngineError as error:
            print(f"  {error}", flush=True)
            return True
        return False

    def _healthy(self, check: Any) -> None:
        """A check of both policies, which must not stop the run."""
        self.done["healthy"] += 2
        self.done["alarms"] += self._stops(check)

    def _moved(self, policy: Policy, rows: Sequence[Tokens]) -> float:
        """How far the last step moved a policy's log-probs on its own rows, as the learner sees it in bfloat16."""
        from agon.protocols import Stretch

        if not (folder := self.canary._folder_before(policy)):
            return 0.0
        now, then = self.learner.score(policy, rows), self.learner.score(policy, rows, Stretch(folder, 0.0))
        return fmean(abs(one - two) for x, y in zip(now, then, strict=True) for one, two in zip(x, y, strict=True))

    def _draw(self, version: Version, name: str, count: int) -> list[tuple[Tokens, float]]:
        """Completions on questions that a name chooses, with their rewards."""
        from agon.engine.protocol import Draw

        draws, golds = list[Draw](), list[str]()
        for number in range(count):
            question, gold = self.questions[seed_for("question", name, number // GROUP) % len(self.questions)]
            ids = self.sampler.renderer.render(Prompt((Message("user", (Quote(question),)),))).ids
            draws.append(Draw(ids, version, seed_for("row", version, name, number), Sampling(1.0, 1.0, LONGEST)))
            golds.append(gold)
        drawn = zip(draws, golds, self.sampler.draw_all(draws), strict=True)
        return [(Tokens(d.ids, got.ids, got.logprobs), self._reward(got, gold)) for d, gold, got in drawn]

    def _reward(self, drawn: Any, gold: str) -> float:
        """Right, and full of figures: no group is dead, and every step moves both policies."""
        text = self.sampler.renderer.text(drawn.ids)
        return float(gold in text.replace(",", "").split()) + sum(map(str.isdigit, text)) / max(len(text), 1)


def group_of(policy: Policy, rows: Sequence[tuple[Tokens, float]]) -> Iterator[Any]:
    """A group with its advantages."""
    found = advantages([reward for _, reward in rows])
    for index, ((tokens, _), advantage) in enumerate(zip(rows, found, strict=True)):
        yield rollout(policy, index, tokens, advantage)


def recipe(base: Path) -> Config:
    """The paper's recipe for a small base, at a constant rate: with its warmup the first steps are next to nothing."""
    config = load_config(ROOT / "configs" / "paper" / "base.yaml")
    fast = {"schedule": "constant", "warmup": 0.0, "tokens_per_pass": 2048, "gradient_checkpointing": False}
    return config.model_copy(
        update={
            "model": config.model.model_copy(update={"name": str(base)}),
            "train": config.train.model_copy(update=fast | {"max_completion_tokens": LONGEST}),
        }
    )


def make_learner(base: Path) -> Any:
    import torch

    from agon.engine.trl.learner import TRLLearner

    torch.set_num_threads(1)
    config = recipe(base)
    return TRLLearner(config.model, config.train, total_steps=STEPS)


@contextmanager
def running_engine(base: Path) -> Iterator[Any]:
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.local import LocalEngine
    from agon.engine.vllm.sampler import VLLMSampler

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rank = recipe(base).model.lora.rank
    engine = LocalEngine(str(base), dtype="bfloat16", context=512, rank=rank, max_loras=4, memory=0.4)
    sampler = VLLMSampler(str(base), Fleet(engine, patience=1800.0))
    try:
        yield sampler
    finally:
        sampler.close()


def questions() -> list[tuple[str, str]]:
    """Short questions of GSM8K with their answers."""
    folder = data_dir()
    if folder is None:
        cannot_run("no data: set AGON_DATA to a folder with gsm8k/train.jsonl")
    rows = [json.loads(line) for line in (folder / "gsm8k" / "train.jsonl").read_text().splitlines()]
    return [(row["question"], row["answer"].split("####")[1].strip()) for row in rows if len(row["question"]) <= SHORT]
