"""The learner at the shapes of seven bases, on fake tensors: 15,000 tokens in bfloat16, as on a GPU. The paper's five
are whole; Qwen3-8B and Qwen3-32B have one layer, as all their layers are alike.

Counted, not timed: masks, products of queries and keys by the arguments of every attention call, padding, messages
between processes, and bytes that are saved for the backward pass, against what `agon plan` says. `_fake_learner.py`
says how. Messages are counted in a learner of one process among eight, over a process group that answers nothing. No
base is split over processes: `train.shard` moves weights and changes nothing of what a pass saves.
"""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from _fake_learner import FakeLearner
from _lib import arguments, verdict
from agon.config import Model, Train
from agon.engine.published import TEXT
from agon.plan.base_shapes import shape_of
from agon.plan.footprint import learner_bytes

ROWS = ((200, 7800), (300, 4700), (100, 1900))
"""Prompts and completions: 15,000 tokens."""
TOKENS = sum(map(sum, ROWS))
WORK, BYTES = 1.02, 0.15
RANKS = 8
QUICK = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3.5-2B", "google/gemma-4-E4B-it")
"""One base of each architecture, with one layer of each kind."""
LARGE = ("Qwen/Qwen3-8B", "Qwen/Qwen3-32B")


def main() -> None:
    args = arguments(__doc__)
    warnings.filterwarnings("ignore")
    found = {}
    for name in QUICK if args.quick else (*LARGE, *TEXT):
        found[name] = measured(name, whole=not args.quick and name not in LARGE)
        print(name + ": " + ", ".join(f"{key} {value}" for key, value in found[name].items()), flush=True)
    sent, stock = messages()
    print(f"messages per micro-batch: {sent:g}, as TRL has them {stock:g}")
    worst = {
        "dense_masks": max(values["dense_masks"] for values in found.values()),
        "messages_per_micro_batch": sent,
        "attention_work_of_causal": max(values["work"] for values in found.values()),
        "padding_tokens": max(values["padding"] for values in found.values()),
        "saved_bytes_off_plan": max(abs(values["saved_by_plan"] - 1) for values in found.values()),
    }
    verdict(
        "the learner at 15,000 tokens in bfloat16 on seven bases: masks, messages, attention, padding, saved bytes",
        {key: round(value, 4) for key, value in worst.items()},
        f"no mask, message or padding; attention at most {WORK} of causal; saved bytes within {BYTES:.0%} of the plan",
        holds=not (worst["dense_masks"] or sent or worst["padding_tokens"])
        and worst["attention_work_of_causal"] <= WORK
        and worst["saved_bytes_off_plan"] <= BYTES
        and stock > 0,
        by_base=found,
        messages_of_trl=stock,
        quick=args.quick,
    )


def measured(name: str, whole: bool) -> dict[str, float]:
    """One pass of one base, against the plan's bytes; inside, with one layer of each kind."""
    train, model = Train(tokens_per_pass=TOKENS, max_completion_tokens=TOKENS // 2, max_peek_tokens=1), Model(name=name)
    learner = FakeLearner(name, train, whole=whole)
    done, shape = learner.forward(ROWS), shape_of(learner.config)
    cut = FakeLearner(name, train, whole=False) if whole else learner
    inside = cut.inside(ROWS)
    planned = learner_bytes(shape, model, train, policies=2)
    part = learner_bytes(shape_of(cut.config), model, train, policies=2)
    causal = sum(length * (length + 1) / 2 for length in map(sum, ROWS))
    queries = sum(layer.queries for layer in shape.layers if layer.kind != "linear")
    return {
        "dense_masks": done.masks + sum(is_dense(call.mask) for call in done.calls),
        "work": round(sum(call.work for call in done.calls) / (causal * queries), 4),
        "padding": done.tokens - TOKENS,
        "kept_gib": gib(done.kept),
        "kept_planned": gib(planned.kept),
        "layer_gib": gib(inside.layer),
        "layer_planned": gib(planned.layer),
        "saved_by_plan": round((done.kept + inside.layer) / planned.saved, 4),
        "peak_by_plan": round(inside.peak / (part.saved + part.gradients_inside), 4),
    }


def is_dense(mask: tuple[int, ...] | None) -> bool:
    """Whether a mask grows with the square of a row."""
    return mask is not None and min(mask[-2:]) >= min(map(sum, ROWS))


def gib(size: float) -> float:
    return round(size / 2**30, 3)


class Messages(TorchDispatchMode):
    """Counts calls between processes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += "c10d" in func.namespace
        return func(*args, **(kwargs or {}))


def messages() -> tuple[float, float]:
    """Messages per micro-batch of our learner, and of the same one when TRL may send."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    torch.distributed.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    from accelerate import PartialState

    PartialState._reset_state()
    try:
        return _messages(), _messages(no_collectives=lambda accelerator: nullcontext())
    finally:
        torch.distributed.destroy_process_group()


def _messages(**replaced: Any) -> float:
    from _rollouts import model_config, train_config
    from agon.engine.synthetic import worst_case
    from agon.engine.trl import trainer as module
    from agon.engine.trl.learner import TRLLearner
    from agon.types import Policy
    from tests.engine.helpers.bases import random_base

    learner = TRLLearner(model_config(), train_config(tokens_per_pass=40), total_steps=1, base=random_base())
    assert learner.processes == RANKS
    trainer = learner.trainer
    trainer.current_gradient_accumulation_steps = 1.0
    micros = trainer._start_step([worst_case(Policy.A, 4, 64, 8, 24)])
    with patch.multiple(module, **replaced) if replaced else nullcontext(), Messages() as counted:
        for micro in micros:
            trainer._micro_step(micro)
    return counted.count / len(micros)


if __name__ == "__main__":
    main()
