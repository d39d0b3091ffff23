"""Draw the bouts of an evaluation: a system of the game, run on a sampler and a verifier.

A draft is drawn and judged once and serves every system that starts from it: the standalone answer of a policy *is* the
first stage of its cascade.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agon.game.cascade import System, Turn, follow, indexes, turns
from agon.protocols import Sampler, Verify
from agon.types import Bout, Completion, Problem, Request, Rollout, Sampling, Seat, Verdict, seed_for

DraftKey = tuple[Seat, str, int]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A completion with the seconds until it arrived, and its verdict, which may still be pending."""

    turn: Turn
    completion: Completion
    seconds: float
    verdict: asyncio.Future[Verdict]


@dataclass(slots=True)
class Evaluator:
    """The machines, the decoding, and the drafts already drawn."""

    sampler: Sampler
    verify: Verify
    sampling: Sampling
    max_peek_tokens: int
    seed: int = 0
    show_code: bool = False
    failures: Counter[str] = field(default_factory=Counter)
    """Why answers have no verdict, and how many each time."""
    _drafts: dict[DraftKey, asyncio.Future[_Drawn]] = field(default_factory=dict)

    async def bouts(
        self, problems: Sequence[Problem], systems: Mapping[str, System], samples: int = 1
    ) -> dict[str, list[Bout]]:
        """Every system on every problem, `samples` times, all in flight at once."""
        async with asyncio.TaskGroup() as tasks:
            drawn = {
                name: [
                    tasks.create_task(self.bout(problem, index, system))
                    for problem in problems
                    for sample in range(samples)
                    for index in indexes(system, sample)
                ]
                for name, system in systems.items()
            }
        return {name: [task.result() for task in row] for name, row in drawn.items()}

    async def bout(self, problem: Problem, index: int, system: System, other: Problem | None = None) -> Bout:
        """One system on one problem; `index` tells samples apart. `other`: whose draft a shuffled control reads."""
        stages: list[_Drawn] = []

        async def draw(turn: Turn) -> Completion:
            asked = turn.problem or problem
            stages.append(await (self._draft(asked, turn) if turn.stage == "draft" else self._draw(asked, turn)))
            return stages[-1].completion

        asked = turns(system, problem, index, self._clip, show_code=self.show_code, other=other)
        peeks = await follow(asked, draw)
        draft = await _judged(problem, index, stages[0])
        challenge = await _judged(problem, index, stages[-1]) if len(stages) > 1 else None
        drawn = Bout(draft, challenge, peeks.own, other_peek=peeks.other)
        if not drawn.final.verdict.graded:
            self.failures[drawn.final.verdict.detail] += 1
        return drawn

    def remember(self, seat: Seat, draft: Rollout) -> None:
        """Use a draft that an earlier evaluation drew and judged instead of drawing it again."""
        loop = asyncio.get_running_loop()
        verdict, drawn = loop.create_future(), loop.create_future()
        verdict.set_result(draft.verdict)
        turn = Turn("draft", seat, draft.index, draft.prompt)
        drawn.set_result(_Drawn(turn, draft.completion, draft.seconds, verdict))
        self._drafts[seat, draft.problem.id, draft.index] = drawn

    def _clip(self, text: str) -> str:
        return self.sampler.clip(text, self.max_peek_tokens)

    async def _draft(self, problem: Problem, turn: Turn) -> _Drawn:
        key = (turn.seat, problem.id, turn.index)
        if key not in self._drafts:
            self._drafts[key] = asyncio.ensure_future(self._draw(problem, turn))
        return await self._drafts[key]

    async def _draw(self, problem: Problem, turn: Turn) -> _Drawn:
        """One completion, seeded by problem, index, stage and policy; its verdict is awaited while others are drawn."""
        seed = seed_of(self.seed, problem, turn)
        began = time.perf_counter()
        completion = await self.sampler.sample(Request(turn.prompt, turn.seat, seed, self.sampling))
        seconds = round(time.perf_counter() - began, 3)  # as on disk: a result must not change when it is read again
        return _Drawn(turn, completion, seconds, asyncio.ensure_future(self.verify(problem, completion)))


def seed_of(seed: int, problem: Problem, turn: Turn) -> int:
    """The seed of a completion, the same wherever the system answers."""
    return seed_for(seed, "eval", turn.stage, turn.seat.policy, problem.id, turn.index)


async def _judged(problem: Problem, index: int, drawn: _Drawn) -> Rollout:
    verdict = await drawn.verdict
    return Rollout(
        problem, index, drawn.turn.seat.policy, drawn.turn.prompt, drawn.completion, verdict, seconds=drawn.seconds
    )
