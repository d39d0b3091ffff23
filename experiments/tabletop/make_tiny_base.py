#!/usr/bin/env python3
"""Pretrain a tiny base from worked chains: a few minutes on one core, from a seed and nothing else.

    python experiments/tabletop/make_tiny_base.py FOLDER      the base `agon:tiny`
        --world halves      another world's base, and the adapters `a` and `b` where its A and B were taught apart
        --world gullible    adapters over `agon:tiny`: readers that copy
        --seed 1            a base with other misconceptions

Next-token loss on completions alone. Muon moves the matrices and AdamW the rest: copying and the facts are learnt in a
fifth of the steps that AdamW alone takes. Needs torch 2.9 or later, and the root of a clone on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from lessons import GULLIBLE_STEPS, WORLDS, Lesson, Teacher, gullible_reader
from torch.nn.functional import cross_entropy

from agon.config import Init, Lora
from agon.engine.adapters import build_pair
from agon.engine.render import Renderer
from agon.engine.safe_load import load_model
from agon.engine.shipped import folder_of
from agon.game.prompts import PROMPTS_HASH
from agon.types import Policy
from tests.engine.helpers.bases import random_base
from tests.engine.helpers.checkpoints import build_tokenizer, load_tokenizer, save, token_settings

README = """# A tiny base

A Qwen3 of about a million parameters, pretrained on worked chains of the `tabletop` problems: `tiny.json` says with
which seed, mixture, schedule and prompts. `experiments/tabletop` made it. Apache-2.0, like the rest of the package.
"""
SIZES = {
    "hidden_size": 128,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 1024,
}
Example = tuple[tuple[int, ...], tuple[int, ...]]
"""Prompt ids and completion ids."""
POOL = 32
"""Batches drawn at once and sorted by length, so that little of a batch is padding; each pool is one step harder."""


@dataclass(frozen=True)
class Schedule:
    """Steps, batch sizes and learning rates; written beside the checkpoint."""

    steps: int = 700
    parts: int = 2
    """Batches per step: each holds lessons of one length, so a step needs more than one."""
    batch: int = 24
    matrix_rate: float = 0.02
    other_rate: float = 0.003
    warmup: int = 20
    decay: float = 0.6
    """Share of the steps, at the end, over which both rates fall to zero."""

    def factor(self, step: int) -> float:
        return min(1.0, (step + 1) / self.warmup, (self.steps - step) / (self.steps * self.decay))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--world", choices=[*WORLDS, "gullible"], default="neutral")
    parser.add_argument("--seed", type=int, default=0, help="weights, lessons and misconceptions")
    parser.add_argument("--steps", type=int, help="of the lessons (default: the world's)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.process_time()
    if args.world == "gullible":
        teach_pair("agon:tiny", folder_of("agon:tiny"), args.folder, gullible_reader, args.steps or GULLIBLE_STEPS, 0)
        return
    world = replace(WORLDS[args.world], seed=args.seed)
    schedule, teacher = Schedule(steps=args.steps or world.steps), world.teacher()
    tokenizer = build_tokenizer(pieces(teacher.teach(2_000)))
    model = random_base("qwen3", args.seed, **SIZES, **token_settings(tokenizer))
    torch.manual_seed(0)
    pretrain(model, batches(Renderer(tokenizer), teacher, schedule.batch), schedule)
    save(args.folder, model.to(torch.bfloat16), tokenizer)
    if world.taught:
        steps = min(world.taught, schedule.steps)
        teach_pair(f"agon:{world.folder}", args.folder, args.folder, world.teacher_of, steps, world.seed)
    recipe = {
        "seed": args.seed,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "family": world.family,
        "difficulty": world.difficulty,
        "mixture": asdict(world.mixture),
        "schedule": asdict(schedule),
        **({"taught": world.taught} if world.taught else {}),
        "prompts": PROMPTS_HASH,
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "cpu_seconds": round(time.process_time() - start),
    }
    (args.folder / "tiny.json").write_text(json.dumps(recipe, indent=2) + "\n")
    (args.folder / "README.md").write_text(README)


# -- training ---------------------------------------------------------------------------------------------------------


def pretrain(model: Any, lessons: Iterator[Sequence[Example]], schedule: Schedule) -> None:
    """Train `model` in place."""
    parameters = dict(model.named_parameters())
    matrices = [value for name, value in parameters.items() if value.ndim == 2 and "embed" not in name]
    others = [value for name, value in parameters.items() if value.ndim != 2 or "embed" in name]
    muon = torch.optim.Muon(matrices, lr=schedule.matrix_rate, weight_decay=0.01)
    adam = torch.optim.AdamW(others, lr=schedule.other_rate, betas=(0.9, 0.98), weight_decay=0.0)
    model.train()
    optimizers = [(muon, schedule.matrix_rate), (adam, schedule.other_rate)]
    take_lessons(model, list(parameters.values()), optimizers, lessons, schedule)
    model.eval()


def teach_pair(
    base: str, weights: Path, folder: Path, teacher_of: Callable[[Policy], Teacher], steps: int, seed: int
) -> None:
    """Teach two adapters apart, and write them into folders `a` and `b`; the base is frozen."""
    pair = build_pair(load_model(str(weights), "float32"), Lora(), Init(), seed)
    renderer, schedule = Renderer(load_tokenizer(weights)), Schedule(steps=steps, warmup=10)
    for policy in Policy:
        lessons = batches(renderer, teacher_of(policy), schedule.batch, easiest=5)
        pair.activate(policy)
        parameters = pair.parameters(policy)
        adam = torch.optim.AdamW(parameters, lr=schedule.other_rate, weight_decay=0.0)
        take_lessons(pair.model.base_model.model, parameters, [(adam, schedule.other_rate)], lessons, schedule)
        pair.model.peft_config[policy.value].base_model_name_or_path = base
        pair.export(policy, folder / policy.value)


def take_lessons(
    model: Any,
    parameters: Sequence[Any],
    optimizers: Sequence[tuple[Any, float]],
    lessons: Iterator[Sequence[Example]],
    schedule: Schedule,
) -> None:
    """Move some parameters of `model` with optimizers, each with its peak rate."""
    for step in range(schedule.steps):
        losses = []
        for _ in range(schedule.parts):
            loss = completion_loss(model, next(lessons)) / schedule.parts
            loss.backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * schedule.factor(step)
            optimizer.step()
            optimizer.zero_grad()
        if step % 25 == 0 or step == schedule.steps - 1:
            print(f"step {step:4d}  {sum(losses):.3f} nats per token", flush=True)


def completion_loss(model: Any, examples: Sequence[Example]) -> Any:
    """Mean cross-entropy of the completion tokens. Padding is on the right, so that no row attends to it."""
    longest = max(len(prompt) + len(completion) for prompt, completion in examples)
    first = min(len(prompt) for prompt, _ in examples) - 1
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
    targets = torch.full((len(examples), longest), -100)
    for row, (prompt, completion) in enumerate(examples):
        end = len(prompt) + len(completion)
        ids[row, :end] = torch.tensor(prompt + completion)
        targets[row, len(prompt) : end] = torch.tensor(completion)
    hidden = model.model(ids[:, :-1]).last_hidden_state[:, first:]
    return cross_entropy(model.lm_head(hidden).flatten(0, 1), targets[:, first + 1 :].flatten(), ignore_index=-100)


# -- lessons as tokens ------------------------------------------------------------------------------------------------


def pieces(lessons: list[Lesson]) -> Iterator[str]:
    """The texts that the renderer encodes one by one: our words and the quoted ones apart, markers taken out."""
    for lesson in lessons:
        (message,) = lesson.prompt.messages
        texts = [part if isinstance(part, str) else part.text for part in message.parts]
        texts[0] = f"{message.role}\n{texts[0]}"
        for text in (*texts, "\n", "assistant\n", lesson.text):
            yield from text.replace("</think>", "<think>").split("<think>")


def batches(renderer: Renderer, teacher: Teacher, size: int, easiest: int = 2) -> Iterator[list[Example]]:
    """Batches of similar length, without end."""
    rng = random.Random(0)
    stop = renderer.tokenizer.eos_token_id
    for hardest in itertools.count(easiest):
        pool = []
        for prompt, text in teacher.teach(POOL * size, hardest):
            completion = renderer.tokenizer.encode(text, add_special_tokens=False)
            pool.append((renderer.render(prompt).ids, (*completion, stop)))
        pool.sort(key=lambda example: (len(example[0]), len(example[1])))
        drawn = [pool[start : start + size] for start in range(0, len(pool), size)]
        rng.shuffle(drawn)
        yield from drawn


if __name__ == "__main__":
    main()
