"""A base in parts, one on each learner process (`train.shard: base`), learns as a whole one does, in less memory.

Parts: `equal` compares two processes over parts with two over whole bases, to the bit, and with one process, where sums
of gradients have a different order: there the bounds of two_processes.py hold. Its cases have ranks without live rows
and uneven micro-batches, so that some passes are fillers. `families` scores with cut copies of three architectures,
composites among them, laid out as they are published. `memory` loads a base in bfloat16 and learns once, in 2 and 4
processes, and counts the most bytes that tensors of each take, as a GPU's allocator does, over those of the whole base;
a part that is a view of the mapped file, as on a CPU, counts as if it were copied. `faults` kills, stops and fails
processes of a run (process_faults.py) on a real vLLM engine, whose canary needs scores of all processes.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}

from _lib import arguments, verdict_of_parts
from _processes import run_world
from _rollouts import model_config, train_config
from agon.types import Policy
from process_faults import CLOSE, VLLM, WAIT, Run, finish_and_compare, show, strike
from two_processes import GOALS, GROUPS, STEPS, Job, flat, gap, groups_of, metric_gap

EXTRA_SOURCES = ("configs/tabletop", "evidence/_faulty_rank.py", "tests/engine/helpers")
SPLIT = ["train.shard=base"]
CASES = ("live", "rank dead", "policy dead", "uneven")
COPIES = {"Qwen/Qwen3-4B": "qwen3", "Qwen/Qwen3.5-2B": "qwen3_5", "google/gemma-4-E4B-it": "gemma4"}
"""Published bases, and the tokenizers of their families."""
LARGE: dict[str, Any] = {
    **{"vocab_size": 2048, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 64},
    **{"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64},
}
FRACTIONS = {2: 0.75, 4: 0.5}
"""The share of the base that the peak of a process stays below: its part, activations, adapters, and what a pass has
gathered (embeddings, and a few of 64 layers)."""


def learner_over(path: str, shard: str, job: Job, steps: int = STEPS, dtype: str = "float32", **settings: Any) -> Any:
    from agon.engine.trl.learner import TRLLearner

    plain = {"loss": job.loss, "beta": job.beta, "tokens_per_pass": 60, "learning_rate": job.rate, "shard": shard}
    train = train_config(**plain | settings)
    return TRLLearner(model_config(name=path, dtype=dtype), train, total_steps=steps, optimizer=job.optimizer)


# -- equal -------------------------------------------------------------------------------------------------------------


def train_all(rank: int, world: int, work: tuple[str, str, list[Job]]) -> list[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    path, shard, jobs = work
    return [trained(rank, world, path, shard, job) for job in jobs]


def trained(rank: int, world: int, path: str, shard: str, job: Job) -> dict[str, Any]:
    from agon.engine.synthetic import stream

    share = GROUPS // world
    mine = range(rank * share, (rank + 1) * share)
    learner, metrics = learner_over(path, shard, job), list[Any]()
    before = flat(learner)
    for step in range(STEPS):
        update = learner.update([stream(policy, groups_of(job, policy, step, mine)) for policy in Policy])
        metrics.append({policy.value: dict(found) for policy, found in update.metrics.items()})
    return {"after": flat(learner), "moved": gap(before, flat(learner)), "metrics": metrics}


def equal(quick: bool) -> dict[str, Any]:
    from tests.engine.helpers.bases import random_base

    few = [Job("sgd", "grpo", case="rank dead"), Job("adamw", "dapo", 0.05, "uneven")]
    every = [Job("sgd", loss, case=case) for loss in ("grpo", "dapo", "dr_grpo") for case in CASES]
    jobs = few if quick else [*every, *(Job("adamw", "grpo", 0.05, case) for case in CASES)]
    with tempfile.TemporaryDirectory() as folder:
        random_base().save_pretrained(folder)
        single = run_world(1, train_all, (folder, "none", jobs))[0]
        whole, parts = (run_world(2, train_all, (folder, shard, jobs)) for shard in ("none", "base"))
    ranks = [pair for both in zip(whole, parts, strict=True) for pair in zip(*both, strict=True)]
    apart = dict.fromkeys(GOALS, 0.0)
    for one, part, job in zip(single, parts[0], jobs, strict=True):
        apart[job.optimizer] = max(apart[job.optimizer], gap(one["after"], part["after"]))
    return {
        "jobs": len(jobs),
        "least moved": min(one["moved"] for one in single),
        "weights that differ from two whole bases": max(gap(w["after"], p["after"]) for w, p in ranks),
        "metrics that differ": max(metric_gap(w["metrics"], p["metrics"]) for w, p in ranks),
        "weights against one process": apart,
    }


def is_equal(found: dict[str, Any]) -> bool:
    same = found["weights that differ from two whole bases"] == found["metrics that differ"] == 0
    close = all(found["weights against one process"][name] <= goal for name, goal in GOALS.items())
    return same and close and found["least moved"] > 1e-3


# -- families ----------------------------------------------------------------------------------------------------------


def score_all(rank: int, world: int, folders: list[str]) -> list[bool]:
    """Whether a base in parts gives the log-probs of the whole one, to the bit."""
    warnings.filterwarnings("ignore")
    from agon.protocols import Tokens

    same = []
    for folder in folders:
        job, rows = Job("sgd", "grpo"), [Tokens(tuple(range(5, 20 + n)), tuple(range(30, 50 - n))) for n in range(3)]
        learners = [learner_over(folder, shard, job) for shard in ("none", "base")]
        whole, parts = ([learner.score(policy, rows) for policy in (None, *Policy)] for learner in learners)
        same.append(whole == parts and whole[0] != whole[2])
    return same


def families(quick: bool) -> dict[str, Any]:
    from tests.engine.helpers.bases import write_cut
    from tests.engine.helpers.families import FAMILIES

    with tempfile.TemporaryDirectory() as scratch:
        folders = [
            str(write_cut(name, Path(scratch, str(n)), FAMILIES[family]()))
            for n, (name, family) in enumerate(COPIES.items())
        ]
        found = run_world(2, score_all, folders)
    return {name: all(rank[n] for rank in found) for n, name in enumerate(COPIES)}


# -- memory ------------------------------------------------------------------------------------------------------------


def measure_peak(rank: int, world: int, work: tuple[str, str]) -> tuple[int, int]:
    """Bytes of the whole base, and of this process's tensors at most while it loads its part and learns."""
    warnings.filterwarnings("ignore")
    from agon.engine.synthetic import stream
    from tests.engine.helpers.memory import allocated, in_files

    path, shard = work
    job = Job("sgd", "grpo")
    with allocated() as most:
        learner = learner_over(path, shard, job, dtype="bfloat16")
        learner.update([stream(policy, groups_of(job, policy, 0, range(rank, rank + 1))) for policy in Policy])
    base = [weight for name, weight in learner.pair.model.named_parameters() if ".lora_" not in name]
    return sum(weight.numel() * weight.element_size() for weight in base), most[0] + sum(map(in_files, base))


def memory(quick: bool) -> dict[str, Any]:
    import torch

    from tests.engine.helpers.bases import random_base

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as large:
        random_base(**LARGE).to(torch.bfloat16).save_pretrained(large, max_shard_size="50MB")
        for world in (2,) if quick else FRACTIONS:
            for shard in ("none", "base"):
                ranks = run_world(world, measure_peak, (large, shard))
                found[f"{world} processes, shard {shard}"] = max(taken / base for base, taken in ranks)
    return {"base bytes": ranks[0][0], "peak over base": {name: round(share, 3) for name, share in found.items()}}


def is_small(found: dict[str, Any]) -> bool:
    peaks = found["peak over base"]
    parts = {world: peaks.get(f"{world} processes, shard base", 0.0) for world in FRACTIONS}
    return all(share <= FRACTIONS[world] for world, share in parts.items()) and peaks["2 processes, shard none"] > 0.9


# -- faults ------------------------------------------------------------------------------------------------------------


def faults(quick: bool) -> dict[str, Any]:
    planned = [("SIGKILL of a process", 1, 0.5)]
    if not quick:
        planned += [("exception in an update", 0, 0.3), ("exception in an update", 1, 1.1), ("SIGTERM", 0, 0.7)]
        planned += [("engine killed", 0, 0.2), ("SIGKILL of a process", 1, 1.5), ("SIGKILL of a process", 0, 0.9)]
    words, steps = [*SPLIT, *([] if quick else VLLM)], 4 * len(planned)
    with tempfile.TemporaryDirectory() as scratch:
        run, whole = (Run(Path(scratch, name), steps, words) for name in ("struck", "untouched"))
        outcomes = []
        try:
            whole.start()
            for number, (fault, rank, moment) in enumerate(planned, 1):
                outcomes.append(strike(run, fault, rank, moment))
                show(number, outcomes[-1])
            apart = finish_and_compare(run, whole)
        finally:
            run.kill()
            whole.kill()
    lost = sum(outcome.lost for outcome in outcomes if (outcome.fault, outcome.rank) != ("SIGKILL of a process", 0))
    ended = [outcome.seconds for outcome in outcomes if outcome.fault != "engine killed"]
    return {
        "slowest seconds": round(max(ended), 1),
        "finished steps lost": lost,
        "apart from a run that nobody touched": apart,
        "outcomes": [asdict(outcome) for outcome in outcomes],
    }


def is_survived(found: dict[str, Any]) -> bool:
    apart = found["apart from a run that nobody touched"]
    same = apart["bouts"] == 0 and apart["adapters"] <= CLOSE
    return found["slowest seconds"] < WAIT and found["finished steps lost"] == 0 and same


PARTS = {
    "equal": (equal, is_equal),
    "families": (families, lambda found: all(found.values())),
    "memory": (memory, is_small),
    "faults": (faults, is_survived),
}


def main() -> None:
    args = arguments(__doc__, list(PARTS))
    verdict_of_parts(
        "a base in parts learns as a whole one, to the bit; each process stays below 0.75 (2) and 0.5 (4) of its "
        "bytes; a killed process leaves no other waiting and, but for the first, loses no finished step",
        PARTS,
        args,
        quick=["equal", "memory", "faults"],
    )


if __name__ == "__main__":
    main()
