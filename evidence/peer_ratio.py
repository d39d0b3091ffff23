"""Whole steps of arm grpo against a plain `trl.GRPOTrainer`, on one real engine: all that is not drawing.

Both train one policy on the same problems with the same number of rollouts, drawn by the same vLLM engine. Ours is a
run as `agon.train` makes it: checks, log files, versions, the canary. TRL's trainer draws through the same
sampler and hands its adapter over before each step as a PEFT folder (its own push of merged weights needs a GPU), with
its correction for vLLM. Steps alternate. Drawing is from the first request of a step to the last reply; the rest is
update, publication and waiting together, and it is compared. The canary's part hardly depends on the size of a step,
which is a small one here: a step of the recipe has more rollouts, and each is many times as long.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from transformers import PrinterCallback, TrainerCallback

import _engine
from _coin import is_right
from _learner_steps import TARGETS, word_tokenizer
from _lib import arguments, ratio_interval, verdict
from agon.config import Config
from agon.data import splits
from agon.engine.protocol import Draw
from agon.engine.shipped import folder_of
from agon.engine.vllm.sampler import VLLMSampler
from agon.game.prompts import draft_prompt
from agon.training import run as training_run
from agon.training.loop import Training
from agon.training.machines import Machines
from agon.types import Policy, Sampling, Version
from tests.engine.helpers.bases import random_base
from tests.engine.helpers.checkpoints import load_tokenizer, save, token_settings

AIM = 1.0
RANK, PATIENCE = 8, 900.0
SIZES = _engine.SMALL | {"num_hidden_layers": 4}


@dataclass(frozen=True, slots=True)
class Work:
    """How much there is in a step, and how many steps are measured."""

    problems: int
    group: int
    """Completions per problem: 2N."""
    tokens: int
    per_pass: int
    steps: int

    @property
    def total(self) -> int:
        """The first step warms up, and the last one of ours saves."""
        return self.steps + 2


FULL, QUICK = Work(8, 8, 192, 2048, 8), Work(2, 4, 24, 256, 2)


@dataclass(slots=True)
class Times:
    """Seconds of whole steps, and of their drawing."""

    steps: list[float] = field(default_factory=list)
    drawing: list[float] = field(default_factory=list)
    publish: list[float] = field(default_factory=list)
    parts: list[dict[str, float]] = field(default_factory=list)
    """Of our steps, as the run logs them."""

    def rest(self) -> list[float]:
        """Of the steps that are measured."""
        return [whole - drawn for whole, drawn in zip(self.steps, self.drawing, strict=True)][1:-1]


class Turns:
    """Lets two trainers take one step after the other."""

    def __init__(self) -> None:
        self._ours, self._theirs = threading.Semaphore(0), threading.Semaphore(0)
        self._over = False

    def let_stock_step(self, stock: Future[None]) -> None:
        self._theirs.release()
        while not self._ours.acquire(timeout=1):
            if stock.done():
                stock.result()
                raise RuntimeError("the stock trainer ended early")

    def stock_begins(self) -> None:
        if not self._theirs.acquire(timeout=PATIENCE) or self._over:
            raise TimeoutError("our trainer did not finish its step")

    def stock_ends(self) -> None:
        self._ours.release()

    def end(self) -> None:
        """Ours has ended: a stock trainer that still waits would wait in vain."""
        self._over = True
        self._theirs.release()


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    work = QUICK if args.quick else FULL
    ours, theirs = measured(work, _engine.TINY if args.quick else SIZES)
    ratio, low, high = ratio_interval(ours.rest(), theirs.rest())
    for name, times in (("ours", ours), ("stock", theirs)):
        shown = {"step": times.steps[1:-1], "drawing": times.drawing[1:-1], "all the rest": times.rest()}
        print(f"{name}: " + ", ".join(f"{part} {sum(found) / len(found):.2f} s" for part, found in shown.items()))
    measured_parts = ours.parts[1:-1]
    parts = {name: fmean(part.get(name, 0.0) for part in measured_parts) for name in measured_parts[0]}
    print("ours by part: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items()))
    print(f"of the rest, stock hands its adapter over in {sum(theirs.publish) / len(theirs.publish):.2f} s")
    print(f"ratio of the rest {ratio:.3f} (95% interval {low:.3f} to {high:.3f})")
    verdict(
        "a step of arm grpo without its drawing (update, publication, checks, waiting) against trl.GRPOTrainer, CPU",
        round(ratio, 3),
        f"upper end of the interval at most {AIM}",
        holds=args.quick or high <= AIM,
        interval=[round(low, 3), round(high, 3)],
        n=work.steps,
        ours_by_part={name: round(seconds, 2) for name, seconds in parts.items()},
        rollouts=f"{work.problems} x {work.group} of {work.tokens} tokens",
        quick=args.quick,
    )


def measured(work: Work, sizes: dict[str, Any]) -> tuple[Times, Times]:
    """Run both, one step of one after one step of the other."""
    ours, theirs, turns = Times(), Times(), Turns()
    with tempfile.TemporaryDirectory(prefix="agon-peer-") as scratch, ThreadPoolExecutor(1) as pool:
        root = Path(scratch)
        base = random_base_with_our_tokenizer(root / "base", sizes)
        stock: list[Future[None]] = []

        def build(config: Config, total: int) -> Machines:
            machines = make(config, total)
            peer = Stock(base, work, machines, root / "stock", theirs)  # here: it resets a state that both share
            peer.trainer.add_callback(Clock(theirs, turns))
            stock.append(pool.submit(peer.train))
            return machines

        make = training_run.build
        with ExitStack() as patches:
            patches.enter_context(patch.object(training_run, "build", build))
            for patched in watched(ours, lambda: turns.let_stock_step(stock[0])):
                patches.enter_context(patched)
            patches.callback(turns.end)
            run = training_run.train(config_of(base, work), out=root / "runs", show="nothing")
        stock[0].result()
        ours.parts = [timing.seconds for timing in run.timings.records()]
    return ours, theirs


def random_base_with_our_tokenizer(folder: Path, sizes: dict[str, Any]) -> Path:
    """Random weights, large enough that every adapter shows, behind a tokenizer to which our prompts are short."""
    tokenizer = load_tokenizer(folder_of("agon:tiny"))
    settings = {"max_position_embeddings": 2048, "initializer_range": 0.15, **token_settings(tokenizer), **sizes}
    save(folder, random_base("qwen3", **settings), tokenizer)
    return folder


def watched(times: Times, after: Callable[[], None]) -> list[Any]:
    """Patches that time our steps and their drawing."""
    step, sample, asked = Training.step, VLLMSampler.sample, list[float]()

    def timed(training: Training) -> None:
        began = time.perf_counter()
        asked.clear()
        step(training)
        times.steps.append(time.perf_counter() - began)
        times.drawing.append(asked[-1] - asked[0])
        after()

    async def drawn(sampler: VLLMSampler, request: Any) -> Any:
        asked.append(time.perf_counter())
        completion = await sample(sampler, request)
        asked.append(time.perf_counter())
        return completion

    return [
        patch.object(Training, "step", timed),
        patch.object(VLLMSampler, "sample", drawn),
    ]


def config_of(base: Path, work: Work) -> Config:
    problems = work.problems * work.total
    source = {"preset": "tabletop", "options": {"family": "chain", "difficulty": 5}}
    raw = {
        "arm": "grpo",
        "model": {"name": str(base), "dtype": "float32", "lora": {"rank": RANK, "alpha": 2 * RANK}},
        "data": {
            "train": source | {"take": problems},
            "dev": source | {"take": 2},
            "held_out": source | {"take": 2},
        },
        "verifier": "_coin:verify",
        "game": {"group_size": work.group // 2},
        "train": {
            **{"problems_per_step": work.problems, "max_completion_tokens": work.tokens, "max_peek_tokens": 16},
            **{"tokens_per_pass": work.per_pass, "warmup": 0.0, "learning_rate": 1e-5},
        },
        "sampler": {"engine": "vllm", "max_model_len": 1024},
        "eval": {"points": 0, "max_completion_tokens": work.tokens},
        "save": {"every": 1000},
    }
    return Config.model_validate(raw)


class Stock:
    """A plain GRPOTrainer on the same engine, with one adapter that it hands over as a folder before each step."""

    def __init__(self, base: Path, work: Work, machines: Machines, folder: Path, times: Times) -> None:
        assert isinstance(machines.sampler, VLLMSampler)
        self.work, self.sampler = work, machines.sampler
        problems = splits(config_of(base, work).data).train
        self.prompts = [machines.renderer.render(draft_prompt(problem)).ids for problem in problems]
        self.folder, self.times, self.count = folder, times, 0
        self.version: Version | None = None
        self.trainer = self._trainer(base)
        self.trainer.remove_callback(PrinterCallback)
        # TRL corrects what vLLM drew, and hands weights over before it draws
        self.trainer.use_vllm, self.trainer._last_loaded_step = True, -1
        self.trainer.vllm_generation = SimpleNamespace(sync_weights=self._publish)

    def train(self) -> None:
        torch.set_num_threads(1)  # holds for the thread that says it
        self.trainer.train()

    def _trainer(self, base: Path) -> Any:
        from datasets import Dataset
        from peft import LoraConfig
        from transformers import AutoModelForCausalLM
        from trl import GRPOConfig, GRPOTrainer

        work, width = self.work, max(map(len, self.prompts))
        rows = work.problems * work.group
        fitting = [n for n in range(1, rows + 1) if rows % n == 0 and n * (work.tokens + width) <= work.per_pass]
        batch = max([1, *fitting])
        config = GRPOConfig(
            output_dir=str(self.folder / "trainer"),
            loss_type="grpo",
            beta=0.0,
            vllm_importance_sampling_mode="token_truncate",
            max_completion_length=work.tokens,
            num_generations=work.group,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=rows // batch,
            max_steps=work.total,
            learning_rate=1e-5,
            shuffle_dataset=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
        )
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
        return GRPOTrainer(
            model=model,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [str(n) for n in range(len(self.prompts))]}),
            processing_class=word_tokenizer(model.config.vocab_size),
            peft_config=LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=TARGETS, task_type="CAUSAL_LM"),
            reward_funcs=reward,
            rollout_func=self._roll_out,
        )

    def _publish(self) -> None:
        began = time.perf_counter()
        self.count += 1
        version = Version.of(Policy.A, self.count, "stock")
        folder = self.folder / str(version)
        self.trainer.model.save_pretrained(folder)
        self.sampler.load(version, folder)
        if self.version is not None:
            self.sampler.unload(self.version)
        self.version = version
        self.times.publish.append(time.perf_counter() - began)

    def _roll_out(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        assert self.version is not None
        ids = [self.prompts[int(prompt)] for prompt in prompts]
        sampling = Sampling(1.0, 1.0, self.work.tokens)
        draws = [Draw(each, self.version, 1000 * self.count + n, sampling) for n, each in enumerate(ids)]
        began = time.perf_counter()
        drawn = self.sampler.draw_all(draws)
        self.times.drawing.append(time.perf_counter() - began)
        return {
            "prompt_ids": [list(each) for each in ids],
            "completion_ids": [list(result.ids) for result in drawn],
            "logprobs": [list(result.logprobs) for result in drawn],
        }


def reward(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [2.0 * is_right(ids) for ids in completion_ids]


class Clock(TrainerCallback):
    """Times the steps of the stock trainer, which take turns with ours."""

    def __init__(self, times: Times, turns: Turns) -> None:
        self.times, self.turns, self.began = times, turns, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.turns.stock_begins()
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.times.steps.append(time.perf_counter() - self.began)
        self.turns.stock_ends()


if __name__ == "__main__":
    main()
