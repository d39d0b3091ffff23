"""One base in 4 bits under both adapters, and engines that hold the same weights.

- Isolation: what one policy learns changes neither the other's adapter nor a bit of the base, codes and scales.
- Resume: a run that lost its last checkpoint and was resumed equals one that was not interrupted, to the bit.
- Engines: real vLLM serves the dequantised checkpoint and, where its plugin is installed, the 4-bit one. The canary
  must find both close to the learner, and put aside an engine with the published weights.

All on the tiny base, on a CPU or a GPU. `--quick`: one step of isolation, two of the run, engines in bfloat16 alone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
os.environ["HF_HOME"] = tempfile.mkdtemp(prefix="agon-four-bit-")  # a cache of its own

from _lib import ROOT, Part, arguments, cannot_run, verdict_of_parts
from _rollouts import live_group, model_config, reward, train_config
from agon import RunDir, train
from agon.config import Model, SamplerConfig
from agon.config.bases import Dtype
from agon.engine.base import base_files
from agon.engine.dtypes import gpu_dtype
from agon.engine.synthetic import rollout, stream
from agon.engine.vllm.canary import LIMITS, Canary
from agon.engine.vllm.door import LOADER, PLUGIN, local_engine
from agon.game.advantage import advantages
from agon.rundir import read_bouts
from agon.rundir.files import weights_hash
from agon.types import BASE, Policy, Stream, Version

EXTRA_SOURCES = ("configs/tabletop",)
STEPS = 4
HOME = os.environ["HF_HOME"]
TINY = "agon:tiny"
WORDS = [
    *("data.train.take=16", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2", "train.warmup=0"),
    *("game.group_size=4", "train.max_completion_tokens=48", "train.max_peek_tokens=16", "eval.points=0"),
    *("save.every=1", "save.keep=9", "model.quantize=nf4"),
]
CONTEXT = 512


def learner_over(model: Model, steps: int = STEPS) -> Any:
    from agon.engine.learner.learner import PairLearner

    return PairLearner(model, train_config(), total_steps=steps)


def streams(step: int, policy: Policy) -> list[Stream]:
    rows = live_group(step, policy.value)
    scores = advantages([reward(row.completion_ids) for row in rows])
    return [stream(policy, [[rollout(policy, i, row, s) for i, (row, s) in enumerate(zip(rows, scores, strict=True))]])]


def isolation(quick: bool) -> dict[str, Any]:
    """Tensors that changed while one policy learnt, by whose they are."""
    import torch

    changed = dict[str, dict[str, int]]()
    for policy in Policy:
        learner = learner_over(model_config(name=TINY, quantize="nf4"))
        before = {name: tensor.clone() for name, tensor in learner.pair.model.state_dict().items()}
        for step in range(1 if quick else STEPS):
            learner.update(streams(step, policy))
        after = learner.pair.model.state_dict()
        names = [name for name in before if not torch.equal(before[name], after[name])]
        owners = [name.rsplit(".", 2)[1] if ".lora_" in name else "base" for name in names]
        changed[f"{policy.value} learns"] = {owner: owners.count(owner) for owner in ("a", "b", "base")}
    scales = sum(name.endswith("absmax") for name in before)
    return {"changed": changed, "layers in 4 bits": scales}


def isolated(found: dict[str, Any]) -> bool:
    moved = {policy: found["changed"][f"{policy.value} learns"] for policy in Policy}
    alone = all(one[p.value] > 0 and one[p.rival.value] == one["base"] == 0 for p, one in moved.items())
    return alone and found["layers in 4 bits"] > 0


def resume(quick: bool) -> dict[str, Any]:
    """Whether bouts, steps and adapters of a resumed run are those of the run before it lost checkpoints."""
    steps, lost = (2, 1) if quick else (6, 3)
    out = Path(tempfile.mkdtemp(dir=HOME))
    config = ROOT / "configs" / "tabletop" / "agon.yaml"
    run = train(config, *WORDS, f"train.max_steps={steps}", out=out, name="run", show="nothing")
    before = content(run, steps)
    for step in range(steps - lost + 1, steps + 1):
        shutil.rmtree(run.path / "checkpoints" / f"step_{step:06}")
    train(run.path, resume=True, show="nothing")
    after = content(run, steps)
    return {"steps": steps, "lost": lost, **{name: before[name] == after[name] for name in before}}


def content(run: RunDir, step: int) -> dict[str, Any]:
    last = run.path / "checkpoints" / f"step_{step:06}"
    return {
        "bouts equal": read_bouts(run).to_pylist(),
        "steps.jsonl equal": (run.path / "steps.jsonl").read_bytes(),
        "adapters equal": {policy: weights_hash(last / policy.value) for policy in Policy},
    }


def engines(quick: bool) -> dict[str, Any]:
    """Distances from the learner in nats per token, and which engines the canary put aside, by dtype."""
    here = gpu_dtype()
    dtypes: tuple[Dtype, ...] = (here,) if here else ("bfloat16",) if quick else ("bfloat16", "float32")
    return {dtype: fleet_of(dtype) for dtype in dtypes}


def fleet_of(dtype: Dtype) -> dict[str, Any]:
    from agon.engine.fleet import Fleet
    from agon.engine.vllm.host import in_own_process
    from agon.engine.vllm.sampler import VLLMSampler

    model = model_config(name=TINY, dtype=dtype, quantize="nf4")
    published = base_files(model.model_copy(update={"quantize": "none"}))
    served = {"published": (published, {}), "dequantised": (base_files(model), {})}
    if dtype == "bfloat16" and find_spec(PLUGIN):
        served["4 bits"] = (base_files(model), {"quantization": LOADER})
    settings = {
        name: (SamplerConfig(max_loras=2, gpu_memory_utilization=0.2, options=options), path)
        for name, (path, options) in served.items()
    }
    made = [partial(local_engine, one, model, path, CONTEXT) for one, path in settings.values()]
    learner, root = learner_over(model), Path(tempfile.mkdtemp(dir=HOME))
    sampler = VLLMSampler(base_files(model), Fleet(*map(in_own_process, made)))
    try:
        canary = Canary(sampler, learner, 2, dtype=dtype, served=base_files(model))
        versions = {}
        for policy in Policy:
            folder = root / policy.value
            versions[policy] = Version.of(policy, 0, learner.export(policy, folder)[:8])
            sampler.publish(versions[policy], folder)
        canary.check(versions)
        gaps, members = canary.gaps(), sampler.fleet.members
        return {
            name: {
                "distance": {
                    seat: round(gaps[f"{version}, {member}"], 6)
                    for seat, version in {"base": BASE, **{p.value: v for p, v in versions.items()}}.items()
                },
                "put aside": member.reason if not member.runs else None,
            }
            for name, member in zip(served, members, strict=True)
        }
    finally:
        sampler.close()


def told_apart(found: dict[str, Any]) -> bool:
    """Whether every engine with the learner's weights is within the canary's limit, and the other was put aside."""
    return all(_right(dtype, name, one) for dtype, fleet in found.items() for name, one in fleet.items())


def _right(dtype: str, name: str, engine: dict[str, Any]) -> bool:
    if name == "published":
        return engine["distance"]["base"] > LIMITS[dtype] and "on the bare base" in (engine["put aside"] or "")
    return engine["put aside"] is None and max(engine["distance"].values()) <= LIMITS[dtype]


PARTS: dict[str, Part] = {
    "isolation": (isolation, isolated),
    "resume": (resume, lambda found: all(found[name] for name in found if name.endswith("equal"))),
    "engines": (engines, told_apart),
}


def main() -> None:
    args = arguments(__doc__, list(PARTS))
    if find_spec("bitsandbytes") is None:
        cannot_run("bitsandbytes is not installed; it comes with the extra nf4")
    try:
        verdict_of_parts(
            "over a base in 4 bits each policy learns alone and leaves the base to the bit, a run resumes to the bit, "
            "engines hold the learner's weights, and the canary refuses one with the published weights",
            PARTS,
            args,
            list(PARTS),
        )
    finally:
        shutil.rmtree(HOME, ignore_errors=True)


if __name__ == "__main__":
    main()
