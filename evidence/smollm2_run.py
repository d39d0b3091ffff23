"""A real model trains on vLLM: SmolLM2-135M-Instruct, two adapters head to head on one-digit sums, 32 steps.

`agon.train` runs `configs/examples/smollm2.yaml` in a process of its own, whose memory is read from outside. Measured:
whether groups are alive, whether memory stays flat once the run has warmed up, how far the engine's log-probs are from
the learner's for bfloat16, and whether the engine attested its adapters in every step. `--quick` trains the base that
ships with the package for a few steps instead, in the same way. The environment variable AGON_SMOLLM2 names a
checkpoint that `scripts/make_smollm2` made; without it, one is made.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, linear_regression
from typing import Any

from _lib import ROOT, arguments, smollm2, verdict
from agon import RunDir, train
from agon.rundir.records import StepRecord, Timing

EXTRA_SOURCES = ("configs/examples", "examples")
CONFIG = ROOT / "configs" / "examples" / "smollm2.yaml"
WARM = 5
"""Steps after which buffers and caches have their size."""
FLAT = 0.03
"""Growth of the learner from the fifth step to the last, as a share of its level, that we call flat."""
POOL = 1024.0
"""MiB of the engine's key-value cache. It is reserved at the start and touched block by block, and kernels are made for
new widths, so that a young engine grows; it must not grow by more than this."""
ROUNDING = 2.0
"""Engine and learner both round to bfloat16, each in its own order: on average they may differ by this many times what
bfloat16 differs from float32 in one and the same implementation."""
ROWS = 24
CLAIM = "SmolLM2-135M runs 32 steps on vLLM: live groups, flat memory, the engine attests its adapters in every step"
QUICK = [
    *("model.name=agon:tiny", "verifier=math", "train.max_steps=4", "train.temperature=1.0"),
    *("data.train.preset=tabletop", "data.dev.preset=tabletop", "data.held_out.preset=tabletop"),
    *("data.train.options={}", "data.dev.options={}", "data.held_out.options={}"),
    *("train.max_completion_tokens=96", "sampler.max_model_len=null"),
]


def main() -> None:
    args = arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix="agon-smollm2-") as scratch:
        root = Path(scratch)
        changes = QUICK if args.quick else [f"model.name={smollm2(root / 'base')}"]
        code, memory = train_watched(root, changes)
        if code:
            verdict(CLAIM, {"exit code": code}, {"exit code": 0}, holds=False)
        run = RunDir.open(root / "run")
        steps, timings = run.steps.records(), run.timings.records()
        allowed = ROUNDING * rounding(run)
    value = judged(steps, timings) | flatness(memory)
    show(value, timings, allowed)
    wanted = 4 if args.quick else 32
    verdict(
        CLAIM,
        value,
        {
            **{"steps": wanted, "live steps": 0.8 * wanted, "mean": round(allowed, 4), "canary": wanted},
            **{"learner growth": FLAT, "engine growth mib": POOL},
        },
        value["steps"] == wanted == value["canary"]
        and (args.quick or (value["live steps"] >= 0.8 * wanted and value["learner growth"] <= FLAT))
        and value["engine growth mib"] <= POOL
        and value["mean"] <= allowed,
        n=len(steps),
        learner_mib=[round(learner) for learner, _ in memory],
        engine_mib=[round(engine) for _, engine in memory],
    )


def train_watched(root: Path, changes: Sequence[str]) -> tuple[int, list[tuple[float, float]]]:
    """Train to the end; the exit code, and the memory of learner and engine in MiB after each step."""
    import psutil

    os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = multiprocessing.get_context("spawn").Process(target=train_to_the_end, args=(root, changes))
    process.start()
    timings, memory = RunDir(root / "run").timings, list[tuple[float, float]]()
    while process.is_alive():
        if len(timings.records()) > len(memory):
            time.sleep(1.0)  # the step is written just before its memory is released
            memory.append(resident(psutil.Process(process.pid)))
        time.sleep(0.2)
    process.join()
    return process.exitcode or 0, memory


def train_to_the_end(root: Path, changes: Sequence[str]) -> None:
    sys.path.insert(0, str(ROOT / "examples"))  # the verifier is an example
    train(CONFIG, *changes, out=root, name="run")


def resident(run: Any) -> tuple[float, float]:
    """MiB that the learner's process has allocated, and all that it started."""
    return allocated(run.pid), sum(allocated(child.pid) for child in run.children(recursive=True))


def allocated(pid: int) -> float:
    """MiB of a process's own pages; those of mapped files, libraries and weights, come and go with other processes."""
    try:
        text = Path("/proc", str(pid), "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")) / 1024


def judged(steps: Sequence[StepRecord], timings: Sequence[Timing]) -> dict[str, Any]:
    """What the run's own files say."""
    streams = [stream for record in steps for stream in record.streams]
    updates = [update for record in steps for update in record.update.values() if update.get("updated")]
    means = [update["logp_diff_mean"] or 0.0 for update in updates]
    importance = [update["importance_mean"] or 0.0 for update in updates]
    return {
        "steps": len(steps),
        "live steps": sum(any(stream.live_groups for stream in record.streams) for record in steps),
        "live groups": round(sum(s.live_groups for s in streams) / max(sum(s.groups for s in streams), 1), 3),
        "right": round(fmean(stream.pass_rate or 0.0 for stream in streams), 3),
        "empty peeks": sum(record.exchange.empty_peeks for record in steps if record.exchange),
        "mean": round(fmean(means), 4) if means else 0.0,
        "largest mean": max(means, default=0.0),
        "most": max((update["logp_diff_max"] or 0.0 for update in updates), default=0.0),
        "canary": sum(timing.attested >= 2 for timing in timings),
        "canary gap": max((gap for timing in timings for gap in timing.canary.values()), default=0.0),
        "importance": [round(f(importance, default=1.0), 4) for f in (min, max)],
    }


def rounding(run: RunDir) -> float:
    """What bfloat16 alone does to the log-probs of the run's own drafts: the base in both types, in nats per token."""
    import torch
    from transformers import AutoModelForCausalLM

    from agon.engine.base import base_path
    from agon.engine.render import Renderer
    from agon.game.prompts import draft_prompt
    from agon.rundir import read_bouts
    from agon.types import Problem

    torch.set_num_threads(1)
    config = run.config
    path = base_path(config.model)
    renderer = Renderer.load(path)
    found: list[list[float]] = []
    for dtype in (torch.float32, torch.bfloat16):
        model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        found.append([])
        for row in read_bouts(run).to_pylist()[-ROWS:]:
            prompt = renderer.render(draft_prompt(Problem("", row["question"], ""))).ids
            drawn = renderer.encode(row["draft_text"])
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *drawn]])).logits[0, len(prompt) - 1 : -1].float()
            scaled = (logits / config.train.temperature).log_softmax(-1)
            found[-1] += scaled.gather(1, torch.tensor(drawn).unsqueeze(1)).squeeze(1).tolist()
    return fmean(abs(one - two) for one, two in zip(*found, strict=True))


def flatness(memory: list[tuple[float, float]]) -> dict[str, float]:
    """From the fifth step on: how the learner's memory grew, by a straight line and as a share, and the engine's."""
    learner, engine = ([row[n] for row in memory[WARM:]] for n in (0, 1))
    if len(learner) < 2:
        return {"learner growth": 0.0, "learner slope mib": 0.0, "engine growth mib": 0.0}
    slope = linear_regression(range(len(learner)), learner).slope
    return {
        "learner growth": round(slope * len(learner) / fmean(learner), 4),
        "learner slope mib": round(slope, 2),
        "engine growth mib": round(max(engine) - engine[0]),
    }


def show(value: dict[str, Any], timings: Sequence[Timing], allowed: float) -> None:
    print(f"{value['steps']} steps, {value['live steps']} with a live group, {value['live groups']:.0%} of groups live")
    print(f"{value['right']:.0%} of completions right, {value['empty peeks']} empty peeks")
    print(f"learner {value['learner slope mib']:+.1f} MiB per step after step {WARM}, engine grew by", end=" ")
    print(f"{value['engine growth mib']} MiB, of {POOL:.0f} that its cache may touch")
    print(
        f"log-probs off by {value['mean']:.1e} nats per token, in a step by {value['largest mean']:.1e} at most,",
        end=" ",
    )
    print(f"at one token by {value['most']:.2g}; bfloat16 allows {allowed:.1e} per token")
    print(f"importance ratios {value['importance'][0]} to {value['importance'][1]} on average in a step")
    print(f"adapters attested in {value['canary']} steps; distance before the first at most {value['canary gap']:.1e}")
    parts = {name for timing in timings for name in timing.seconds}
    spent = {part: sum(timing.seconds.get(part, 0.0) for timing in timings) for part in sorted(parts)}
    print("seconds: " + ", ".join(f"{part} {seconds:.0f}" for part, seconds in spent.items()))


if __name__ == "__main__":
    main()
