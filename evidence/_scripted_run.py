"""A run without a model: real bouts of the game between two scripted policies, on problems with formulas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from _lib import ROOT
from agon.algorithm import play
from agon.config import load_config
from agon.engine.scripted import ScriptedSampler
from agon.game.parse import parse, well_formed
from agon.game.rules import Game
from agon.rundir import RunDir
from agon.types import Completion, Policy, Problem, Reason, Request, Sampling, Verdict, Version

CONFIG = "configs/tabletop/agon.yaml"
EXTRA_SOURCES = ("configs/tabletop",)
PROBLEMS_PER_STEP, GROUP = 5, 8
BOUTS_PER_STEP = PROBLEMS_PER_STEP * GROUP


def powers(number: int) -> tuple[int, int]:
    """The exponent and the divisor of a problem."""
    return 2 + number % 7, 1 + number % 5


def problem(number: int) -> Problem:
    """An integral with a known value."""
    n, k = powers(number)
    question = (
        f"Problem {number}. Let $f(x) = \\frac{{x^{{{n}}}}}{{{k}}} + \\sqrt{{{k}}}\\,\\sin(\\pi x)$. Compute\n"
        f"$$\\int_0^1 \\left( f(x) - \\sqrt{{{k}}}\\sin(\\pi x) \\right) dx.$$"
    )
    return Problem(f"{number:016x}", question, f"\\frac{{1}}{{{k * (n + 1)}}}", {"n": n, "k": k})


def answer(request: Request) -> str:
    """Right more often as steps pass and when a draft can be read; now and then cut off, empty or without a tag."""
    rng = random.Random(request.seed)
    n, k, skill = _read(request)
    right = rng.random() < skill
    value = f"\\frac{{1}}{{{k * (n + 1)}}}" if right else f"\\frac{{1}}{{{k + n + rng.randrange(3)}}}"
    power = f"the antiderivative of $x^{{{n}}}$ is $\\frac{{x^{{{n + 1}}}}}{{{n + 1}}}$"
    lines = [f"Line {i}: {power}; at {rng.random()} it is {rng.random()}." for i in range(rng.randrange(4, 40))]
    trace, kind = "\n".join(lines), rng.random()
    if kind < 0.04:
        return f"<think>\n{trace}\nWait, let me try again. " + "and so on " * 400
    stated = f" So the value is ${value}$." if kind > 0.9 else ""
    rule = f"$\\int_0^1 x^{{{n}}} dx = \\frac{{1}}{{{n + 1}}}$"
    recap = "" if kind < 0.08 else f"The sine cancels. By the power rule {rule}; divide by ${k}$.{stated}"
    return f"<think>\n{trace}\n</think>\n{recap}\n<answer>{value}</answer>"


def _read(request: Request) -> tuple[int, int, float]:
    text = request.prompt.messages[-1].text
    number = int(text.split("Problem ", 1)[1].split(".", 1)[0])
    n, k = powers(number)
    progress = min(1.0, number / 600)
    base = 0.3 + 0.35 * progress + (0.1 if request.seat is Policy.B else 0.0)
    return n, k, base + (0.15 if "<attempt>" in text else 0.0)


async def verify(problem: Problem, completion: Completion) -> Verdict:
    """The answer block against the gold; one row in three hundred has no verdict."""
    found = parse(completion).answers
    if not random.Random(completion.text).randrange(300):
        return Verdict(False, well_formed(completion), Reason.INFRA, "the worker was lost twice")
    if not found:
        return Verdict(False, False, Reason.NO_ANSWER, "no <answer> block after the reasoning")
    right = found[-1] == problem.answer
    return Verdict(right, well_formed(completion), Reason.CORRECT if right else Reason.WRONG, f"read as {found[-1]}")


def make_run(root: Path, bouts: int, script: Callable[[Request], str] = answer) -> RunDir:
    """A run directory with at least that many bouts."""
    run = RunDir.create(root, "scripted", load_config(ROOT / CONFIG))
    game = Game(group_size=GROUP, sampling=Sampling(max_tokens=420))
    for step in range(-(-bouts // BOUTS_PER_STEP)):
        batch = [problem(step * PROBLEMS_PER_STEP + i) for i in range(PROBLEMS_PER_STEP)]
        sampler = ScriptedSampler(script)
        sampler.latest = {policy: Version.of(policy, step, "5f3c9a1e") for policy in Policy}
        run.write_bouts(step, asyncio.run(play(batch, step, game, sampler, verify)).bouts, "agon")
    return run
