"""The two-stage function: draft, peek, challenge, for given versions and seeds. Training evaluates with it, and so
does `agon eval`.

Prompts and peek are training's own, byte for byte. A draft is drawn once and serves every cascade that starts from
it: the standalone answer of a policy *is* the first stage of its cascade.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from agon.engine.base import Sampler, Verify
from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, refine_prompt
from agon.types import BASE, Completion, Policy, Problem, Prompt, Request, Sampling, Verdict, seed_for


@dataclass(frozen=True, slots=True)
class Seat:
    """Whose weights sit here: a policy at a version (None: its latest), or the bare base."""

    policy: Policy | None
    version: str | None = None

    def __str__(self) -> str:
        return self.version or (self.policy.value if self.policy else BASE)


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion of a trial, judged."""

    seat: Seat
    prompt: Prompt
    completion: Completion
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Trial:
    """One problem answered once. Single pass: `final` alone; cascade: `draft`, what was seen of it, then `final`."""

    problem: Problem
    sample: int
    final: Turn
    draft: Turn | None = None
    peek: str | None = None


@dataclass(slots=True)
class Table:
    """Where trials are held: the machines, the decoding, and the drafts already drawn."""

    sampler: Sampler
    verify: Verify
    sampling: Sampling
    max_peek_tokens: int
    seed: int = 0
    _drawn: dict[tuple[Seat, str, int], asyncio.Task[Completion]] = field(default_factory=dict)
    _judged: dict[tuple[Seat, str, int], asyncio.Task[Verdict]] = field(default_factory=dict)

    async def first(self, problem: Problem, sample: int, seat: Seat) -> Completion:
        """The seat's answer to the plain prompt, drawn once and not yet judged."""
        key = (seat, problem.id, sample)
        if key not in self._drawn:
            self._drawn[key] = asyncio.ensure_future(self._draw(problem, sample, seat, "draft", draft_prompt(problem)))
        return await self._drawn[key]

    async def draft(self, problem: Problem, sample: int, seat: Seat) -> Turn:
        """The same, judged once."""
        completion, key = await self.first(problem, sample, seat), (seat, problem.id, sample)
        if key not in self._judged:
            self._judged[key] = asyncio.ensure_future(self.verify(problem, completion))
        return Turn(seat, draft_prompt(problem), completion, await self._judged[key])

    async def turn(self, problem: Problem, sample: int, seat: Seat, stage: str, prompt: Prompt) -> Turn:
        """Draw and judge one completion."""
        completion = await self._draw(problem, sample, seat, stage, prompt)
        return Turn(seat, prompt, completion, await self.verify(problem, completion))

    async def _draw(self, problem: Problem, sample: int, seat: Seat, stage: str, prompt: Prompt) -> Completion:
        """One completion, seeded by problem, sample, stage and policy."""
        seed = seed_for(self.seed, "eval", stage, seat.policy, problem.id, sample)
        return await self.sampler.sample(Request(prompt, seat.policy, seed, self.sampling, seat.version))

    def peek(self, draft: Completion) -> str:
        """What the second stage sees of a draft."""
        return peek(draft, lambda text: self.sampler.clip(text, self.max_peek_tokens))


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


System = Seat | tuple[Seat, Seat]
"""One seat answers alone; (drafter, challenger) is a cascade."""


async def hold(
    problems: Sequence[Problem], systems: Sequence[System], table: Table, samples: int = 1
) -> list[list[Trial]]:
    """Every system on every problem, `samples` times, all in flight at once; one list of trials per system."""

    def trial(system: System, problem: Problem, sample: int) -> asyncio.Task[Trial]:
        if isinstance(system, Seat):
            return tasks.create_task(standalone(problem, sample, system, table))
        return tasks.create_task(cascade(problem, sample, *system, table))

    async with asyncio.TaskGroup() as tasks:
        held = [[trial(s, problem, k) for problem in problems for k in range(samples)] for s in systems]
    return [[task.result() for task in row] for row in held]
