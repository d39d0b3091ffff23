"""The tiny base that ships with the package is what its page says: weak, well-formed, varied, able to use a rival.

Held-out chains at the base's own difficulty, temperature 1 unless said otherwise. A right recap shows the true values
on the way; a wrong one has one wrong value and goes on from it; the last value is never shown. AGON_TINY names another
checkpoint to measure.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from _lib import arguments, verdict
from agon.data.tabletop import problems as tabletop
from agon.data.tabletop.lessons import operations_of, recap, truth
from agon.engine.hf.sampler import HFSampler
from agon.engine.tiny.checkpoint import tiny_base
from agon.eval.intervals import Interval, clustered
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, Prompt, Request, Sampling, Verdict, seed_for
from agon.verify import load_verifier

SEED = 20_000
PLAIN = Sampling(temperature=1.0, max_tokens=96)
COOL = Sampling(temperature=0.6, top_p=0.95, max_tokens=96)
PASS = (0.20, 0.35)
WELL_FORMED, LIVE, GAIN = 0.90, 0.40, 0.10


class Measured(NamedTuple):
    """The rollouts of one condition, by problem."""

    completions: list[list[Completion]]
    verdicts: list[list[Verdict]]

    @property
    def passed(self) -> Interval:
        return clustered([[verdict.correct for verdict in group] for group in self.verdicts])

    @property
    def well_formed(self) -> float:
        rows = [verdict for group in self.verdicts for verdict in group]
        return sum(verdict.well_formed for verdict in rows) / len(rows)

    @property
    def live(self) -> float:
        sums = [sum(verdict.correct for verdict in group) for group in self.verdicts]
        return sum(0 < total < len(group) for total, group in zip(sums, self.verdicts, strict=True)) / len(sums)

    @property
    def tokens(self) -> float:
        rows = [completion.generated_tokens for group in self.completions for completion in group]
        return sum(rows) / len(rows)


def main() -> None:
    args = arguments(__doc__ or "")
    torch.set_num_threads(1)
    folder = Path(os.environ.get("AGON_TINY") or tiny_base())
    recipe = json.loads((folder / "tiny.json").read_text())
    problems = tabletop.problems(recipe["family"], recipe["difficulty"], 100 if args.quick else 300, SEED)
    sampler = HFSampler(str(folder))
    with load_verifier("math", workers=1) as verifier:
        found = measure(sampler, verifier, problems, quick=args.quick)
    sampler.close()
    show(found)
    planted = [followed(problems, found[name]) for name in ("challenge, wrong recap", "draft")]
    print("a planted wrong value is followed in {:.1%}; it stands there unprompted in {:.1%}".format(*planted))
    conclude(
        found, planted, len(problems), hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]
    )


def measure(sampler: HFSampler, verifier: Verifier, problems: list[Problem], *, quick: bool) -> dict[str, Measured]:
    """Every condition: drafts in groups of 8, challenges in smaller ones."""

    def run(name: str, prompt: Callable[[Problem], Prompt], samples: int, sampling: Sampling = PLAIN) -> Measured:
        rows = problems[: len(problems) // 2] if quick and name != "draft" else problems
        return asyncio.run(play(sampler, verifier, rows, name, prompt, samples, sampling))

    few = 2 if quick else 4
    found = {"draft": run("draft", draft_prompt, 8 if not quick else 6)}
    own = {problem.id: group[0] for problem, group in zip(problems, found["draft"].completions, strict=True)}
    found |= {
        "draft, temperature 0.6": run("cool", draft_prompt, few, COOL),
        "challenge, right recap": run("right", lambda x: challenge_prompt(x, right_recap(x)), few),
        "challenge, wrong recap": run("wrong", lambda x: challenge_prompt(x, wrong_recap(x)[0]), few),
        "challenge, its own draft": run("own", lambda x: challenge_prompt(x, peek(own[x.id], str)), few),
        "challenge, no summary": run("none", lambda x: challenge_prompt(x, ""), few),
    }
    return found


async def play(
    sampler: HFSampler,
    verifier: Verifier,
    problems: list[Problem],
    name: str,
    prompt: Callable[[Problem], Prompt],
    samples: int,
    sampling: Sampling,
) -> Measured:
    """Draw and judge `samples` completions of the base for each problem."""

    async def one(problem: Problem, index: int) -> Completion:
        return await sampler.sample(
            Request(prompt(problem), BASE, seed_for(SEED, name, problem.id, index), sampling=sampling)
        )

    async def group(problem: Problem) -> tuple[list[Completion], list[Verdict]]:
        drawn = await asyncio.gather(*(one(problem, index) for index in range(samples)))
        return list(drawn), list(await asyncio.gather(*(verifier(problem, completion) for completion in drawn)))

    groups = await asyncio.gather(*map(group, problems))
    return Measured([drawn for drawn, _ in groups], [verdicts for _, verdicts in groups])


def right_recap(problem: Problem) -> str:
    """The recap of a flawless draft."""
    return recap([int(step.split()[-1]) for step in problem.meta["solution"][:-1]])


def wrong_recap(problem: Problem) -> tuple[str, int, int]:
    """A recap with one wrong value, the place of it and the value."""
    rng = random.Random(seed_for("planted", problem.id))
    value, operations = operations_of(problem)
    planted = rng.randrange(len(operations) - 1)
    values: list[int] = []
    for index, (operation, operand) in enumerate(operations[:-1]):
        value = truth(value, operation, operand)
        if index == planted:
            value = (value + rng.choice((-2, -1, 1, 2))) % tabletop.MODULUS
        values.append(value)
    return recap(values), planted, values[planted]


def followed(problems: list[Problem], measured: Measured) -> float:
    """How often a planted wrong value stands at its place in the challenger's own recap."""
    hits = []
    for problem, group in zip(problems, measured.completions, strict=False):
        _, place, value = wrong_recap(problem)
        line = f"\n{tabletop.LABELS[place]}) = {value}\n"
        hits += [line in completion.text.partition("Recap:")[2] for completion in group]
    return sum(hits) / len(hits)


def show(found: dict[str, Measured]) -> None:
    print(f"{'':26} {'pass@1':24} {'well-formed':>11} {'live':>6} {'tokens':>7}")
    for name, row in found.items():
        print(f"{name:26} {row.passed!s:24} {row.well_formed:11.3f} {row.live:6.2f} {row.tokens:7.1f}")
    print("\n" + found["draft"].completions[0][0].text + "\n")


def conclude(found: dict[str, Measured], planted: list[float], n: int, checkpoint: str) -> None:
    draft = found["draft"]
    gain = found["challenge, right recap"].passed.value - found["challenge, no summary"].passed.value
    low, high = PASS
    holds = low <= draft.passed.value <= high and draft.well_formed >= WELL_FORMED and draft.live >= LIVE
    verdict(
        "the tiny base solves 20 to 35% at its difficulty, is well-formed, has live groups and uses a right rival",
        round(draft.passed.value, 4),
        f"{low} to {high}; well-formed >= {WELL_FORMED}; live groups >= {LIVE}; right recap +{GAIN} over none",
        holds and gain >= GAIN,
        n=n,
        interval=[round(draft.passed.low, 4), round(draft.passed.high, 4)],
        well_formed=round(draft.well_formed, 4),
        live=round(draft.live, 4),
        conditions={name: round(row.passed.value, 4) for name, row in found.items()},
        planted_value={"followed": round(planted[0], 4), "unprompted": round(planted[1], 4)},
        tokens=round(draft.tokens, 1),
        seeds=[SEED],
        checkpoint=checkpoint,
    )


if __name__ == "__main__":
    main()
