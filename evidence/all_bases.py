"""The five bases of the scaling table train on vLLM, laid out as they are published: text models and composites.

No published weights are loaded. Each base is a cut copy with random weights (`agon.engine.published`), of the
architecture, the layout on disk and the chat template that the original has; every kind of layer stays. Each is trained
for two steps by its own config of `configs/paper/scaling`, with the real engine: adapters are loaded by name, and the
engine refuses one of which it does not know every module; it attests them in every step, and the canary compares
engine and learner before the first, in float32 where the CPU build has the kernels. Random weights solve nothing, so a
verifier of this script calls every other completion right. `--quick` trains one base.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from _lib import ROOT, arguments, verdict
from agon.engine.dtypes import gpu_dtype
from agon.types import Completion, Problem

EXTRA_SOURCES = ("configs/paper", "tests/engine/helpers")
BASES = {
    "Qwen/Qwen3-0.6B": ("qwen3-0.6b-agon.yaml", "qwen3"),
    "Qwen/Qwen3-1.7B": ("qwen3-1.7b-agon.yaml", "qwen3"),
    "Qwen/Qwen3-4B": ("qwen3-4b-agon.yaml", "qwen3"),
    "Qwen/Qwen3.5-2B": ("qwen3.5-2b-agon.yaml", "qwen3_5"),
    "google/gemma-4-E4B-it": ("gemma-4-e4b-agon.yaml", "gemma4"),
}
"""The config of each base, and its tokenizer in `tests/engine/helpers/families.py`."""
QUICK = "Qwen/Qwen3.5-2B"
STEPS = 2
BFLOAT16 = "Qwen/Qwen3.5-2B"
"""The CPU build has linear attention in bfloat16 only."""
CLOSE = {"float32": 1e-3, "float16": 0.1, "bfloat16": 0.1}
"""Nats per token that engine and learner may be apart."""
SETTINGS = [
    *("model.lora.rank=8", "model.init.b_noise_std=0.05", "verifier=all_bases:odd"),
    *(f"data.{split}.preset=tabletop" for split in ("train", "dev", "held_out")),
    *(f"data.{split}.take={count}" for split, count in (("train", 4), ("dev", 2), ("held_out", 2))),
    *(f"train.max_steps={STEPS}", "train.problems_per_step=2", "game.group_size=4", "train.tokens_per_pass=80"),
    *("train.max_completion_tokens=16", "train.max_peek_tokens=32", "eval.max_completion_tokens=16"),
    *("train.learning_rate=1e-2", "train.warmup=0.0", "eval.points=0", "sampler.max_model_len=640"),
]
"""What differs from the paper's configs: sizes that a CPU can run, steps that move an adapter far, and B far from A."""
FAILED: dict[str, Any] = {
    **{"class": "-", "modules": 0, "steps": 0, "checked": 0, "gap": 1e9, "a moved": False, "b moved": False}
}
CLAIM = "cut copies of the five bases of the scaling table, random weights, take two steps on vLLM; the canary agrees"


def odd(problem: Problem, completion: Completion) -> bool:
    """A verifier that random text satisfies half of the time."""
    return bool(zlib.crc32(completion.text.encode(errors="replace")) % 2)


def main() -> None:
    args = arguments(__doc__)
    chosen = [QUICK] if args.quick else list(BASES)
    with tempfile.TemporaryDirectory(prefix="agon-bases-") as scratch:
        found = {name: trained(name, Path(scratch, str(number))) for number, name in enumerate(chosen)}
    good = [name for name, row in found.items() if holds(row)]
    show(found)
    verdict(CLAIM, len(good), len(chosen), len(good) == len(chosen), n=len(chosen), bases=found)


def show(found: dict[str, dict[str, Any]]) -> None:
    print(f"\n{'base':<22} {'class':<32} {'type':<8}  modules  steps  canary gap  A moved  B moved  seconds")
    for name, row in found.items():
        print(f"{name:<22} {row['class']:<32} {row['dtype']:<8}  {row['modules']:>7}  {row['steps']:>5}", end="  ")
        print(f"{row['gap']:>10.1e}  {row['a moved']!s:>7}  {row['b moved']!s:>7}  {row['seconds']:>7.0f}")


def holds(row: dict[str, Any]) -> bool:
    checked = row["steps"] == STEPS == row["checked"] and row["gap"] <= CLOSE[row["dtype"]]
    return bool(checked and row["a moved"] and row["b moved"] and row["modules"])


def trained(name: str, root: Path) -> dict[str, Any]:
    """Train one base in a process of its own; what its run directory says."""
    began = time.monotonic()
    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    process = multiprocessing.get_context("spawn").Process(target=train_cut, args=(name, root))
    process.start()
    process.join()
    row = FAILED | (read(root) if process.exitcode == 0 else {})
    return row | {"dtype": dtype_of(name), "seconds": round(time.monotonic() - began, 1)}


def dtype_of(name: str) -> str:
    return gpu_dtype() or ("bfloat16" if name == BFLOAT16 else "float32")


def train_cut(name: str, root: Path) -> None:
    import torch

    from agon import train
    from tests.engine.helpers import families
    from tests.engine.helpers.bases import write_cut

    torch.set_num_threads(1)
    config, family = BASES[name]
    base = write_cut(name, root / "base", families.FAMILIES[family]())
    own = (f"model.name={base}", f"model.dtype={dtype_of(name)}")
    train(ROOT / "configs" / "paper" / "scaling" / config, *own, *SETTINGS, out=root, name="run")


def read(root: Path) -> dict[str, Any]:
    """Whether a run did what it should, from its files alone."""
    import json

    from agon import RunDir
    from agon.types import Policy

    run = RunDir.open(root / "run")
    timings, state = run.timings.records(), run.resume().state
    moved = {f"{p.value} moved": state.versions[p].digest != state.first[p].digest for p in Policy}
    config = json.loads((root / "base" / "config.json").read_text())
    return {
        "class": config["architectures"][0],
        "modules": modules(run.path / "pair" / Policy.A.value),
        "steps": len(run.steps.records()),
        "checked": sum(timing.attested >= len(Policy) for timing in timings),
        "gap": max(gap for timing in timings for gap in timing.canary.values()),
        **moved,
    }


def modules(adapter: Path) -> int:
    from safetensors import safe_open

    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        return sum(".lora_A." in name for name in file.keys())  # noqa: SIM118


if __name__ == "__main__":
    main()
