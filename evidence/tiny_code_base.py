"""The base `agon:tiny-code` is what docs/code.md says: weak, well-formed, with live groups, and able to use a rival.

Held-out templated problems at the base's own difficulty, temperature 1; programs run in the sandbox. A right recap
shows every line of the solution but the last. AGON_TINY_CODE names a different checkpoint to measure.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch

from _lib import arguments, need_bubblewrap, verdict
from agon.data.tabletop.code_lessons import recap
from agon.data.tabletop.code_templates import problems as templated
from agon.engine.hf import HFSampler
from agon.engine.tiny.checkpoint import tiny_base
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.sandbox import HostSandbox, cgroups
from agon.types import Problem, Prompt, Sampling
from agon.verify.code.grader import CodeVerifier
from tiny_base import Measured, play, show

SEED = 20_000
PLAIN = Sampling(temperature=1.0, max_tokens=80)
PASS = (0.10, 0.50)
WELL_FORMED, LIVE, GAIN = 0.90, 0.50, 0.05


def right_recap(problem: Problem) -> str:
    """The recap of a flawless draft."""
    return recap(problem.answer.splitlines()[1:-1])


def measure(folder: Path, problems: list[Problem], group: int) -> dict[str, Measured]:
    """Drafts in groups, and challenges in pairs."""
    sampler = HFSampler(str(folder))
    sandbox = HostSandbox(workers=2, memory="cgroup" if cgroups.places() else "per_process")

    def run(name: str, prompt: Callable[[Problem], Prompt], samples: int) -> Measured:
        return asyncio.run(play(sampler, verifier, problems, name, prompt, samples, PLAIN))

    with CodeVerifier(sandbox, threads=4) as verifier:
        found = {
            "draft": run("draft", draft_prompt, group),
            "challenge, right recap": run("right", lambda x: challenge_prompt(x, right_recap(x)), 2),
            "challenge, no summary": run("none", lambda x: challenge_prompt(x, ""), 2),
        }
    sampler.close()
    return found


def main() -> None:
    args = arguments(__doc__ or "")
    need_bubblewrap()
    torch.set_num_threads(1)
    folder = Path(os.environ.get("AGON_TINY_CODE") or tiny_base("tiny-code"))
    recipe = json.loads((folder / "tiny.json").read_text())
    problems = templated(recipe["family"], recipe["difficulty"], 30 if args.quick else 200, SEED)
    found = measure(folder, problems, 6 if args.quick else 8)
    show(found)
    draft, gain = (
        found["draft"],
        found["challenge, right recap"].passed.value - found["challenge, no summary"].passed.value,
    )
    low, high = PASS
    verdict(
        "the tiny base of code solves 10 to 50%, is well-formed, has live groups and uses a right rival",
        round(draft.passed.value, 4),
        f"{low} to {high}; well-formed >= {WELL_FORMED}; live groups >= {LIVE}; right recap +{GAIN} over none",
        low <= draft.passed.value <= high and draft.well_formed >= WELL_FORMED and draft.live >= LIVE and gain >= GAIN,
        n=len(problems),
        interval=[round(draft.passed.low, 4), round(draft.passed.high, 4)],
        well_formed=round(draft.well_formed, 4),
        live=round(draft.live, 4),
        conditions={name: round(row.passed.value, 4) for name, row in found.items()},
        tokens=round(draft.tokens, 1),
        seeds=[SEED],
        checkpoint=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16],
    )


if __name__ == "__main__":
    main()
