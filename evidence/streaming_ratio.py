"""What streaming pairs save: seconds of draft + challenge when b_i starts as a_i ends, over waiting for all drafts.

`agon.algorithm.play` itself, with and without its barrier, on a real engine; only the lengths are prescribed:
log-normal (sigma 0.8), and those of real bouts. The bound is what no schedule of these requests can beat: prompts of
the same length prefilled and the same number of tokens drawn per bout as one unbroken request, so that nothing waits.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from _engine import SMALL, Bench, bench
from _lib import arguments, ratio_interval, verdict
from agon.algorithm import play
from agon.engine.protocol import Draw
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.game.rules import Game
from agon.types import Completion, Policy, Problem, Reason, Request, Sampling, Verdict, seed_for

AIM = 1.10
SIGMA, MEDIAN, MOST = 0.8, 16, 128
PROBLEMS, GROUP = 4, 4
PEEK = 64
FILLER = "seven and nine is one less than a dozen and five; " * 8
"""A peek of any length: the bound reads as much as a challenger does."""
# generated tokens of (draft, challenge) in 32 bouts, drawn at random from a run of SmolLM2-135M
REAL: tuple[tuple[int, int], ...] = (
    (40, 2), (31, 40), (8, 20), (33, 40), (8, 11), (19, 40), (40, 40), (13, 40), (29, 18), (40, 40), (8, 40),
    (37, 17), (40, 40), (8, 40), (40, 13), (8, 8), (40, 40), (40, 31), (8, 40), (9, 40), (26, 8), (40, 8),
    (8, 15), (40, 40), (40, 16), (40, 9), (12, 20), (8, 40), (40, 40), (40, 40), (35, 36), (8, 40),
)  # fmt: skip

Lengths = Sequence[tuple[int, int]]


def main() -> None:
    args = arguments(__doc__)
    rounds = 3 if args.quick else 40
    with bench({**SMALL, "num_hidden_layers": 4}, context=1024) as table:
        for policy in Policy:
            table.publish(policy)
        table.sampler.renderer.stop = frozenset()  # lengths are prescribed: nothing ends early
        measure(table, drawn_lengths(-1), -1)  # warms up
        kinds = {"log-normal": [drawn_lengths(n) for n in range(rounds)]}
        if not args.quick:
            kinds["real bouts"] = [real_lengths(n) for n in range(rounds)]
        results = {
            name: report(name, [measure(table, x, n) for n, x in enumerate(rows)]) for name, rows in kinds.items()
        }
    verdict(
        "wall time of draft + challenge, streaming, against the critical-path bound at the same lengths, on a CPU",
        {name: result["of bound"][0] for name, result in results.items()},
        f"upper ends of the intervals at most {AIM}",
        holds=all(result["of bound"][2] <= AIM for result in results.values()),
        n=rounds,
        bouts=PROBLEMS * GROUP,
        results=results,
    )


def drawn_lengths(n: int) -> list[tuple[int, int]]:
    rng = random.Random(f"lengths {n}")

    def length() -> int:
        return min(MOST, max(1, round(rng.lognormvariate(math.log(MEDIAN), SIGMA))))

    return [(length(), length()) for _ in range(PROBLEMS * GROUP)]


def real_lengths(n: int) -> list[tuple[int, int]]:
    return random.Random(f"real {n}").sample(REAL, PROBLEMS * GROUP)


def measure(table: Bench, lengths: Lengths, n: int) -> dict[str, float]:
    """Seconds of the three schedules, in an order that rotates."""
    schedules = {
        "streaming": lambda: played(table, lengths, n, barrier=False),
        "barrier": lambda: played(table, lengths, n, barrier=True),
        "bound": lambda: unbroken(table, lengths, n),
    }
    order = list(schedules)[n % 3 :] + list(schedules)[: n % 3]
    return {name: schedules[name]() for name in order}


class Prescribed:
    """The real sampler; the seed of a request says how long its completion is."""

    def __init__(self, table: Bench, lengths: dict[int, int]) -> None:
        self._sampler, self._lengths = table.sampler, lengths
        self.clip = table.sampler.clip

    async def sample(self, request: Request) -> Completion:
        sampling = Sampling(max_tokens=self._lengths[request.seed])
        return await self._sampler.sample(replace(request, sampling=sampling))


def problems_of(run: str) -> list[Problem]:
    """Problems of one measurement: no other finds their prompts in the prefix cache."""
    return [Problem(f"{run} {k}", f"Problem {k} of round {run}: what is {k} and {k}?", "0") for k in range(PROBLEMS)]


def played(table: Bench, lengths: Lengths, n: int, *, barrier: bool) -> float:
    problems, game = (
        problems_of(f"{n} {barrier:d}"),
        Game(group_size=GROUP, wait_for_all_drafts=barrier, max_peek_tokens=PEEK),
    )
    stages = list(zip(("draft", "challenge"), game.roles_at(0), strict=True))
    tokens = {
        seed_for(game.seed, 0, stage, policy, x.id, i): lengths[k * GROUP + i][number]
        for k, x in enumerate(problems)
        for i in range(GROUP)
        for number, (stage, policy) in enumerate(stages)
    }
    sampler: Any = Prescribed(table, tokens)
    began = time.perf_counter()
    asyncio.run(play(problems, 0, game, sampler, wrong))
    return time.perf_counter() - began


async def wrong(problem: Problem, completion: Completion) -> Verdict:
    return Verdict(correct=False, well_formed=False, reason=Reason.WRONG)


def unbroken(table: Bench, lengths: Lengths, n: int) -> float:
    """Every prompt prefilled, every token drawn, nothing waiting for anything."""
    sampler = table.sampler
    versions = [sampler._versions.resolve(policy) for policy in Policy]
    draws = []
    for k, x in enumerate(problems_of(f"{n} 2")):
        for i in range(GROUP):
            draft, challenge = lengths[k * GROUP + i]
            read = challenge_prompt(x, sampler.clip(FILLER, min(PEEK, draft)))
            prompts = [sampler.renderer.render(prompt).ids for prompt in (draft_prompt(x), read)]
            for prompt, version, count in zip(prompts, versions, (1, draft + challenge - 1), strict=True):
                draws.append(Draw(prompt, version, seed_for("bound", n, k, i), Sampling(max_tokens=count)))
    began = time.perf_counter()
    sampler.draw_all(draws)
    return time.perf_counter() - began


def report(name: str, rows: list[dict[str, float]]) -> dict[str, Any]:
    of_barrier = ratio_interval([row["streaming"] for row in rows], [row["barrier"] for row in rows])
    of_bound = ratio_interval([row["streaming"] for row in rows], [row["bound"] for row in rows])
    for label, (ratio, low, high) in (("barrier", of_barrier), ("the bound", of_bound)):
        print(
            f"{name}: streaming takes {ratio:.3f} of {label} (95% interval {low:.3f} to {high:.3f}, {len(rows)} rounds)"
        )
    return {"of barrier": [round(v, 4) for v in of_barrier], "of bound": [round(v, 4) for v in of_bound]}


if __name__ == "__main__":
    main()
