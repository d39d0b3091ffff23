"""Two bases of different architecture and tokenizer train together: a Qwen 3 and a cut Gemma 4.

A is an adapter over `agon:tiny`, B over a copy of Gemma 4 with random weights, cut to a size that a CPU can run
(`agon.engine.published`), with a tokenizer, a chat template and reasoning markers of its own kind. Random weights solve
nothing, so a verifier of this script calls every other completion right. The prompt of every row must be what its own
policy's template makes of it, and the sampler's log-probs must be the learner's: a policy that is drawn from the wrong
base has neither. Then each policy's rollouts are given to a learner over its base alone, which must arrive at the same
adapter to the bit. Last, the newest checkpoints are deleted and the run is resumed: bouts, `steps.jsonl` and adapters
must be the same. `--quick` takes two steps over two bases that ship with the package, of one architecture, and resumes
nothing, which tests/training/test_two_bases.py does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from _lib import ROOT, arguments, verdict

sys.path.insert(0, str(ROOT))

from agon import RunDir, train
from agon.engine.build import base_files
from agon.engine.published import write_cut
from agon.engine.render import Renderer
from agon.engine.trl.learner import TRLLearner
from agon.engine.trl.setup import load_base
from agon.engine.trl.two_learners import TwoBaseLearner
from agon.rundir import read_bouts
from agon.rundir.checkpoint import folders
from agon.rundir.files import sha256
from agon.types import Completion, Policy, Problem, Stream

EXTRA_SOURCES = ("configs/tabletop", "tests/engine/helpers")
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
GEMMA = "google/gemma-4-E4B-it"
SHIPPED = "agon:relay"
"""Has a different tokenizer than `agon:tiny`."""
GAP = 1e-3
"""Nats between sampler and learner in float32."""
SETTINGS = [
    *("data.train.take=24", "data.dev.take=2", "data.held_out.take=2", "verifier=cross_family:odd"),
    *("train.problems_per_step=2", "game.group_size=4", "train.schedule=constant", "train.warmup=0"),
    *("train.max_completion_tokens=24", "train.max_peek_tokens=32", "eval.points=0", "save.every=2", "save.keep=9"),
]


def odd(problem: Problem, completion: Completion) -> bool:
    """A verifier that random text satisfies half of the time."""
    return bool(zlib.crc32(completion.text.encode(errors="replace")) % 2)


class Recorded:
    """The streams that the learner of a run was given, by step."""

    def __init__(self) -> None:
        self.steps: dict[int, Sequence[Stream]] = {}
        self._update = TwoBaseLearner.update

    def __enter__(self) -> Recorded:
        def recording(learner: TwoBaseLearner, streams: Sequence[Stream], *more: Any) -> Any:
            self.steps.setdefault(learner.step, streams)
            return self._update(learner, streams, *more)

        TwoBaseLearner.update = recording  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        TwoBaseLearner.update = self._update  # type: ignore[method-assign]


def adapters(run: RunDir) -> dict[str, str]:
    newest = folders(run.checkpoints)[0]
    return {policy.value: sha256(newest / policy.value / "adapter_model.safetensors") for policy in Policy}


def content(run: RunDir) -> Any:
    return read_bouts(run).to_pylist(), (run.path / "steps.jsonl").read_bytes(), adapters(run)


def own_prompts(run: RunDir, recorded: Recorded) -> dict[str, int]:
    """Rows by policy, and how many of all have a prompt that is not what their policy's own template makes."""
    renderers = {policy: Renderer.load(base_files(run.config.model.of(policy))) for policy in Policy}
    rows = [row for streams in recorded.steps.values() for stream in streams for row in stream.rollouts()]
    wrong = [row for row in rows if row.completion.tokens.prompt_ids != renderers[row.policy].render(row.prompt).ids]
    return {"wrong": len(wrong)} | {policy.value: sum(row.policy is policy for row in rows) for policy in Policy}


def alone(run: RunDir, recorded: Recorded, policy: Policy, folder: Path) -> str:
    """The adapter that a learner over one base makes of the policy's own rollouts."""
    model = run.config.model.of(policy)
    base = load_base(model.model_copy(update={"name": base_files(model)}))
    learner = TRLLearner(model, run.config.train, total_steps=len(recorded.steps), base=base)
    for step in sorted(recorded.steps):
        learner.update([one for one in recorded.steps[step] if one.policy is policy])
    learner.export(policy, folder)
    return sha256(folder / "adapter_model.safetensors")


def resumed_equal(run: RunDir, steps: int) -> bool:
    """Delete the newest checkpoints, resume, and compare with what was there."""
    before = content(run)
    for folder in folders(run.checkpoints):
        if int(folder.name[5:]) > steps // 2:
            shutil.rmtree(folder)
    train(run.path, "verifier=cross_family:odd", resume=True, show="nothing")
    return bool(content(run) == before)


def gemma(folder: Path) -> str:
    from tests.engine.helpers import families

    return str(write_cut(GEMMA, folder / "gemma", families.FAMILIES["gemma4"](), composite=False))


def measure(folder: Path, base: str, steps: int, resume: bool) -> dict[str, Any]:
    with Recorded() as recorded:
        own = [f"train.max_steps={steps}", f"model.b.name={base}"]
        run = train(CONFIG, *SETTINGS, *own, out=folder, name="run", show="nothing")
    records, made = run.steps.records(), adapters(run)
    gaps = {p.value: [r.update[p]["logp_diff_max"] for r in records if r.update[p]["updated"]] for p in Policy}
    single = {policy.value: alone(run, recorded, policy, folder / f"alone-{policy.value}") for policy in Policy}
    return {
        "steps": len(records),
        "prompts": own_prompts(run, recorded),
        "updates": {name: len(some) for name, some in gaps.items()},
        "gap": max(value for some in gaps.values() for value in some),
        "equal to a learner alone": {name: made[name] == single[name] for name in made},
        "resumed equal": resumed_equal(run, steps) if resume else None,
    }


def main() -> None:
    args = arguments(__doc__)
    steps = 2 if args.quick else 6
    with tempfile.TemporaryDirectory(prefix="agon-cross-") as folder:
        base = SHIPPED if args.quick else gemma(Path(folder))
        found = measure(Path(folder), base, steps, resume=not args.quick)
    for name, value in found.items():
        print(f"{name}: {value}", flush=True)
    alike, prompts = found["equal to a learner alone"], found["prompts"]
    holds = found["steps"] == steps and found["gap"] < GAP and min(found["updates"].values()) > 0
    holds &= prompts["wrong"] == 0 and prompts["a"] == prompts["b"] > 0
    holds &= all(alike.values()) and (args.quick or found["resumed equal"])
    verdict(
        "bases of different architecture and tokenizer train together; each update is that of a single-base learner",
        {"gap": found["gap"], "equal adapters": sum(alike.values()), "resumed equal": found["resumed equal"]},
        {"gap": GAP, "equal adapters": 2, "resumed equal": None if args.quick else True},
        holds,
        bases=["agon:tiny", SHIPPED if args.quick else f"{GEMMA}, cut"],
        found=found,
    )


if __name__ == "__main__":
    main()
