"""The deployed cascade: draft, peek, challenge, as a generator that asks for completions and takes them.

Evaluation and deployment run this one; they differ in how they draw. Nothing here samples or waits, so that prompts,
peek and order are the same wherever a pair answers. Prompts and peek are training's own, byte for byte.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from agon.game.peek import peek
from agon.game.prompts import challenge_prompt, draft_prompt, moa_prompt, refine_prompt
from agon.types import Completion, Problem, Prompt, Seat

Clip = Callable[[str], str]
"""Caps a peek in the model's own tokens."""
Look = Callable[[Completion], str]
"""What is seen of a draft."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion that a cascade asks for. `index` tells several samples of one stage apart."""

    stage: str
    seat: Seat
    index: int
    prompt: Prompt
    peek: str | None = field(default=None, compare=False)
    """What the prompt quotes of the draft, for whoever shows it."""
    problem: Problem | None = field(default=None, compare=False)
    """Where it is a different problem than the one that the cascade answers."""


@dataclass(frozen=True, slots=True)
class Peeks:
    """What the last stage read: of the draft, and in a mixture of agents of the other agent's draft."""

    own: str | None = None
    other: str | None = None


Turns = Generator[Turn, Completion, Peeks]


@dataclass(frozen=True, slots=True)
class Mixture:
    """Untrained Mixture of Agents: two samples of one seat, each refined after reading itself and the other."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Control:
    """The challenger of a cascade under its own prompt, with something else to read than the rival's draft."""

    drafter: Seat
    challenger: Seat
    reads: Literal["own", "shuffled", "none"]
    """Its own draft; the rival's draft of a different problem; nothing."""


System = Seat | tuple[Seat, Seat] | Mixture | Control
"""One seat answers alone; (drafter, challenger) is a cascade; a Mixture is two agents that read each other."""


def turns(
    system: System, problem: Problem, index: int, clip: Clip, *, show_code: bool = False, other: Problem | None = None
) -> Turns:
    """What a system asks for to answer a problem once; `show_code` as in the game's rules. `other` is the problem whose
    draft a shuffled control reads."""
    look = partial(peek, clip=clip, withhold_code=problem.is_code and not show_code)
    if isinstance(system, Mixture):
        return mixture(problem, index, system.seat, look)
    if isinstance(system, Control):
        return control(problem, index, system, look, other)
    if isinstance(system, tuple):
        return cascade(problem, index, *system, look)
    return single_pass(problem, index, system)


def indexes(system: System, sample: int) -> tuple[int, ...]:
    """The bouts that make one sample of a system: a mixture has two, one per agent."""
    return (2 * sample, 2 * sample + 1) if isinstance(system, Mixture) else (sample,)


def peeks_in(system: System) -> int:
    """How many attempts the last prompt of a system quotes."""
    return 2 if isinstance(system, Mixture) else int(isinstance(system, tuple | Control))


def single_pass(problem: Problem, index: int, seat: Seat) -> Turns:
    """One pass: the plain prompt, nothing read."""
    yield _draft(problem, index, seat)
    return Peeks()


def cascade(problem: Problem, index: int, drafter: Seat, challenger: Seat, look: Look) -> Turns:
    """Two passes, as trained: one drafts, the other reads the summary and answers. Who reads itself refines."""
    draft = yield _draft(problem, index, drafter)
    seen = look(draft)
    prompt = (refine_prompt if drafter == challenger else challenge_prompt)(problem, seen)
    yield Turn(f"challenge {drafter.policy}", challenger, index, prompt, seen)
    return Peeks(seen)


def control(problem: Problem, index: int, system: Control, look: Look, other: Problem | None) -> Turns:
    """A challenge that reads something else; its first stage is the draft that the cascade would have shown."""
    drafter = system.challenger if system.reads == "own" else system.drafter
    seen = look((yield _draft(problem, index, drafter)))
    if system.reads == "shuffled":
        if other is None:
            raise ValueError("a shuffled control needs a second problem")
        seen = look((yield replace(_draft(other, index, drafter), problem=other)))
    elif system.reads == "none":
        seen = ""
    yield Turn(f"challenge {system.reads}", system.challenger, index, challenge_prompt(problem, seen), seen)
    return Peeks(seen)


def mixture(problem: Problem, index: int, seat: Seat, look: Look) -> Turns:
    """One agent of two, with drafts 2k and 2k + 1: it reads its own and the other's, and answers again."""
    own = look((yield _draft(problem, index, seat)))
    other = look((yield _draft(problem, index ^ 1, seat)))
    yield Turn("moa", seat, index, moa_prompt(problem, own, other))
    return Peeks(own, other)


def _draft(problem: Problem, index: int, seat: Seat) -> Turn:
    return Turn("draft", seat, index, draft_prompt(problem))


async def follow(steps: Turns, draw: Callable[[Turn], Awaitable[Completion]]) -> Peeks:
    """Draw what the generator asks for, one completion after the other; return what the last stage read."""
    try:
        turn = next(steps)
        while True:
            turn = steps.send(await draw(turn))
    except StopIteration as end:
        peeks: Peeks = end.value
        return peeks
