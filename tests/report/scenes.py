"""Small runs of real bouts, scripted so that every outcome and every mark occurs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import yaml

from agon.algorithm import play
from agon.engine.scripted import ScriptedSampler
from agon.game.rules import Game
from agon.rundir import RunDir
from agon.types import Completion, Policy, Problem, Reason, Request, Sampling, Verdict, seed_for

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)> {{script}} \u2028 \u2029 &amp; <!--"
WORKED = "<think>a</think>the sum is worked out<answer>{}</answer>"
BOUTS = {
    "regressed": (WORKED.format(4), "5"),
    "converted": (WORKED.format(5), "4"),
    "both wrong, differently": (WORKED.format(6), "5"),
    "leak": ("<think>a</think>I find 4 at the end<answer>4</answer>", "4"),
    "empty peek": ("<think>a</think><answer>5</answer>", "4"),
    "infra": (f"<think>{HOSTILE}</think>{HOSTILE}<answer>lost</answer>", "4"),
    "cut off": ("<think>" + "on and " * 60, "5"),
    "both wrong, alike": (WORKED.format(5), " 5 "),
}


def seeds(step: int) -> dict[int, tuple[str, int]]:
    """Which request a seed belongs to."""
    return {
        seed_for(0, step, stage, policy, "p0", i): (stage, i)
        for stage in ("draft", "challenge")
        for policy in Policy
        for i in range(len(BOUTS))
    }


async def verify(problem: Problem, completion: Completion) -> Verdict:
    if "lost" in completion.text:
        return Verdict(False, True, Reason.INFRA, "the worker was lost")
    right = f"<answer>{problem.answer}</answer>" in completion.text
    return Verdict(right, completion.finish == "stop", Reason.CORRECT if right else Reason.WRONG)


def make_run(root: Path, steps: int = 2) -> RunDir:
    """A run with one problem a step, one bout for each line of BOUTS."""
    path = root / "match"
    path.mkdir()
    config = {"schema": 1, "arm": "agon", "model": {"name": "none"}, "train": {"seed": 7}}
    (path / "config.yaml").write_text(yaml.safe_dump(config))
    (path / "manifest.json").write_text(json.dumps({"schema": 1}))
    run = RunDir.open(path)
    for step in range(steps):
        run.write_bouts(step, bouts(step), "agon")
    return run


def bouts(step: int) -> tuple:
    """The bouts of one step, played by the game itself."""
    known = seeds(step)

    def answer(request: Request) -> str:
        stage, i = known[request.seed]
        draft, challenge = list(BOUTS.values())[i]
        return draft if stage == "draft" else f"<think>b</think>read it<answer>{challenge}</answer>"

    game = Game(group_size=len(BOUTS), sampling=Sampling(max_tokens=50))
    problem = Problem("p0", f"What is 2 + 2? {HOSTILE}", "4")
    return asyncio.run(play([problem], step, game, ScriptedSampler(answer), verify)).bouts
