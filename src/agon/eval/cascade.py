"""The two-stage function: draft, peek, challenge, for given versions and seeds. Training evaluates with it, and so
does `agon eval`.

Prompts and peek are training's own, byte for byte. A draft is drawn once and serves every cascade that starts from
it: the standalone answer of a policy *is* the first stage of its cascade.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.protocols import Sampler, Verify
from agon.types import BASE, Completion, Policy, Problem, Prompt, Request, Sampling, Verdict, seed_for


@dataclass(frozen=True, slots=True)
class Seat:
    """Whose weights sit here: a policy at a version (None: its latest), or the bare base."""

    policy: Policy | None
    version: str | None = None

    def __str__(self) -> str:
        return self.version or (self.policy.value if self.policy else BASE)


Drawn = tuple[Completion, float]
"""A completion and the seconds until it was there."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion of a trial, judged. `seconds` is how long it took to arrive, waiting for the engine included."""

    seat: Seat
    prompt: Prompt
    completion: Completion
    verdict: Verdict
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class Trial:
    """One problem answered once. Single pass: `final` alone; cascade: `draft`, what was seen of it, then `final`.

    Mixture of agents: `draft` is one's own, and `other_peek` is what was seen of the other's.
    """

    problem: Problem
    sample: int
    final: Turn
    draft: Turn | None = None
    peek: str | None = None
    other_peek: str | None = None


@dataclass(slots=True)
class Table:
    """Where trials are held: the machines, the decoding, and the drafts already drawn."""

    sampler: Sampler
    verify: Verify
    sampling: Sampling
    max_peek_tokens: int
    seed: int = 0
    _drawn: dict[tuple[Seat, str, int], asyncio.Future[Drawn]] = field(default_factory=dict)
    _judged: dict[tuple[Seat, str, int], asyncio.Future[Verdict]] = field(default_factory=dict)

    def know(self, problem: Problem, sample: int, seat: Seat, drawn: Drawn, verdict: Verdict) -> None:
        """A draft that an earlier evaluation drew and judged: it is not drawn again."""
        loop, key = asyncio.get_running_loop(), (seat, problem.id, sample)
        self._drawn[key], self._judged[key] = loop.create_future(), loop.create_future()
        self._drawn[key].set_result(drawn)
        self._judged[key].set_result(verdict)

    async def first(self, problem: Problem, sample: int, seat: Seat) -> Completion:
        """The seat's answer to the plain prompt, drawn once and not yet judged."""
        return (await self._first(problem, sample, seat))[0]

    async def draft(self, problem: Problem, sample: int, seat: Seat) -> Turn:
        """The same, judged once."""
        completion, seconds = await self._first(problem, sample, seat)
        key = (seat, problem.id, sample)
        if key not in self._judged:
            self._judged[key] = asyncio.ensure_future(self.verify(problem, completion))
        return Turn(seat, draft_prompt(problem), completion, await self._judged[key], seconds)

    async def turn(self, problem: Problem, sample: int, seat: Seat, stage: str, prompt: Prompt) -> Turn:
        """Draw and judge one completion."""
        completion, seconds = await self._draw(problem, sample, seat, stage, prompt)
        return Turn(seat, prompt, completion, await self.verify(problem, completion), seconds)

    def peek(self, draft: Completion) -> str:
        """What the second stage sees of a draft."""
        return peek(draft, lambda text: self.sampler.clip(text, self.max_peek_tokens))

    async def _first(self, problem: Problem, sample: int, seat: Seat) -> Drawn:
        key = (seat, problem.id, sample)
        if key not in self._drawn:
            self._drawn[key] = asyncio.ensure_future(self._draw(problem, sample, seat, "draft", draft_prompt(problem)))
        return await self._drawn[key]

    async def _draw(self, problem: Problem, sample: int, seat: Seat, stage: str, prompt: Prompt) -> Drawn:
        """One completion, seeded by problem, sample, stage and policy."""
        seed = seed_for(self.seed, "eval", stage, seat.policy, problem.id, sample)
        began = time.perf_counter()
        completion = await self.sampler.sample(Request(prompt, seat.policy, seed, self.sampling, seat.version))
        return completion, time.perf_counter() - began


async def standalone(problem: Problem, sample: int, seat: Seat, table: Table) -> Trial:
    """One pass: the plain prompt, nothing read."""
    return Trial(problem, sample, await table.draft(problem, sample, seat))


async def cascade(problem: Problem, sample: int, drafter: Seat, challenger: Seat, table: Table) -> Trial:
    """Two passes, as trained: one drafts, the other reads the summary and answers. Who reads itself refines."""
    seen = table.peek(await table.first(problem, sample, drafter))
    read = refine_prompt if drafter == challenger else challenge_prompt
    answer = table.turn(problem, sample, challenger, f"challenge {drafter.policy}", read(problem, seen))
    draft, final = await asyncio.gather(table.draft(problem, sample, drafter), answer)
    return Trial(problem, sample, final, draft, seen)


@dataclass(frozen=True, slots=True)
class Moa:
    """Untrained Mixture of Agents: two samples of one seat, each refined after reading itself and the other."""

    seat: Seat


async def moa(problem: Problem, sample: int, seat: Seat, table: Table) -> list[Trial]:
    """Both agents' trials. Agent i of sample k starts from draft 2k + i; draft 0 is also the zero-shot answer."""
    numbers = (2 * sample, 2 * sample + 1)
    drafts = await asyncio.gather(*(table.draft(problem, number, seat) for number in numbers))
    seen = [table.peek(draft.completion) for draft in drafts]
    asked = [moa_prompt(problem, seen[i], seen[1 - i]) for i in (0, 1)]
    finals = await asyncio.gather(*(table.turn(problem, numbers[i], seat, "moa", asked[i]) for i in (0, 1)))
    return [Trial(problem, numbers[i], finals[i], drafts[i], seen[i], seen[1 - i]) for i in (0, 1)]


System = Seat | tuple[Seat, Seat] | Moa
"""One seat answers alone; (drafter, challenger) is a cascade; Moa is two agents that read each other."""


def numbers_of(system: System, sample: int) -> tuple[int, ...]:
    """The numbers of the trials that a system makes of one sample: a Mixture of Agents makes two."""
    return (2 * sample, 2 * sample + 1) if isinstance(system, Moa) else (sample,)


async def answer(problem: Problem, sample: int, system: System, table: Table) -> list[Trial]:
    """One sample of a system on a problem."""
    if isinstance(system, Moa):
        return await moa(problem, sample, system.seat, table)
    if isinstance(system, Seat):
        return [await standalone(problem, sample, system, table)]
    return [await cascade(problem, sample, *system, table)]


async def hold(
    problems: Sequence[Problem], systems: Sequence[System], table: Table, samples: int = 1
) -> list[list[Trial]]:
    """Every system on every problem, `samples` times, all in flight at once; one list of trials per system."""
    async with asyncio.TaskGroup() as tasks:
        held = [
            [tasks.create_task(answer(problem, k, system, table)) for problem in problems for k in range(samples)]
            for system in systems
        ]
    return [[trial for task in row for trial in task.result()] for row in held]
