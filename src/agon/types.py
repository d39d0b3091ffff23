"""The nouns of the game, one word for one thing (docs/vocabulary.md).

Everything here is a frozen value of the standard library: no torch, no strings with two meanings. What an engine
needs to remember about a completion (token ids, log-probabilities) travels in `Completion.tokens` and is opaque to
the game. `Reason`, `UnitTests` and the markers of reasoning, into which those of every family are turned, are the
judge's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from agon_judge import verdict as judge
from agon_judge.answers import THINK_CLOSE as THINK_CLOSE
from agon_judge.answers import THINK_OPEN as THINK_OPEN
from agon_judge.unit_tests import UnitTests as UnitTests
from agon_judge.verdict import UNGRADED as UNGRADED
from agon_judge.verdict import Reason as Reason

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length"]
StreamName = Literal["standalone", "competitive"]


class Policy(StrEnum):
    """A set of weights: adapter A or adapter B. Who drafts and who challenges is decided anew at every step."""

    A = "a"
    B = "b"

    @property
    def rival(self) -> Policy:
        return Policy.B if self is Policy.A else Policy.A

    @property
    def policy(self) -> Policy:
        return self


class Version(str):
    """Published weights: `a@000123-5f3c9a1e` is policy A after 123 steps, with a hash of the weights; `base` is the
    frozen base, without an adapter. A version is never reused: engines cache by its name.
    """

    __slots__ = ()
    _GRAMMAR = re.compile(r"base|([ab])@([0-9]{1,12})-([0-9a-z]{1,64})")

    def __new__(cls, name: str) -> Version:
        if not cls._GRAMMAR.fullmatch(name):
            raise ValueError(f"{name!r} is not a version: one reads like a@000123-5f3c9a1e")
        return super().__new__(cls, name)

    @classmethod
    def of(cls, policy: Policy, step: int, digest: str) -> Version:
        return cls(f"{policy.value}@{step:06d}-{digest}")

    @property
    def policy(self) -> Policy | None:
        return None if self == "base" else Policy(self[0])

    @property
    def step(self) -> int:
        """Steps after which the weights were published; 0 for the base."""
        return int(self[2:].partition("-")[0]) if self.policy else 0

    @property
    def digest(self) -> str:
        """The hash of the weights; empty for the base."""
        return self.partition("-")[2] if self.policy else ""


BASE = Version("base")

Seat = Policy | Version
"""Whose weights answer: a policy (its latest version), or one version, such as BASE."""


class Direction(StrEnum):
    """Who drafts and who answers in a deployed cascade."""

    AB = "ab"
    BA = "ba"

    @property
    def drafter(self) -> Policy:
        return Policy(self.value[0])

    @property
    def challenger(self) -> Policy:
        return Policy(self.value[1])


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its gold. `id` is a hash of the content, so it survives shuffling and re-reading.

    Where there are `tests`, even none that we know, the answer is a program; the gold, if any, is one that passes.
    """

    id: str
    question: str
    answer: str
    meta: Mapping[str, object] = field(default_factory=dict)
    tests: UnitTests | None = None
    given: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    """The columns of question and answer as their file has them, and the prompt: for functions in TRL's signature."""

    @property
    def is_code(self) -> bool:
        return self.tests is not None


@dataclass(frozen=True, slots=True)
class Quote:
    """Text that is not ours (a problem, a rival's summary): spliced in as data, never as markup or control tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    parts: tuple[str | Quote, ...]

    @property
    def text(self) -> str:
        return "".join(part.text if isinstance(part, Quote) else part for part in self.parts)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Chat messages whose parts are either ours or quoted. Only `engine/render.py` turns one into token ids."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Training draws at top_p 1: anything less biases the importance ratios."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 15_000


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to draw."""

    prompt: Prompt
    seat: Seat
    seed: int
    sampling: Sampling = field(default_factory=Sampling)
    watch: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Called with the text so far while it is written, from any thread, by samplers that can."""
    batch: int = field(default=0, compare=False)
    """Requests of a different number are not drawn in one batch by samplers whose rounding depends on what is in it."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a policy wrote, and which version of it did.

    `text` keeps the family's reasoning markers (they are structure) and drops the end-of-turn token. `opened` says
    that the prompt had already opened the reasoning block, so `text` begins inside it.
    """

    text: str
    version: Version
    prompt_tokens: int
    generated_tokens: int
    finish: Finish = "stop"
    opened: bool = False
    tokens: Any = field(default=None, repr=False, compare=False)
    engine: str = field(default="", compare=False)
    """Which engine drew it, where there are several."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """c(y) and phi(y) of one completion, with the reason."""

    correct: bool
    well_formed: bool
    reason: Reason
    detail: str = ""
    extra: float = 0.0
    """What further reward functions pay for the completion, weights applied."""

    def __post_init__(self) -> None:
        if self.correct != (self.reason is Reason.CORRECT):
            raise ValueError(f"correct={self.correct} contradicts reason={self.reason.value}")

    @classmethod
    def of(cls, judged: judge.Verdict, well_formed: bool) -> Verdict:
        """A judge's verdict on the answer, with the form of the completion."""
        return cls(judged.correct, well_formed, judged.reason, judged.detail)

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is not a truth value; read .correct, .well_formed or .graded")

    @property
    def graded(self) -> bool:
        """False when the machine failed rather than the completion: the row is masked out of its group."""
        return self.reason not in UNGRADED


@dataclass(frozen=True, slots=True)
class Reward:
    """R(y) by parts, so that a log can say which part paid. `total` is their sum.

    A field here is a column of `bouts/` and a part in the viewer: nothing else lists them.
    """

    correctness: float
    format: float
    conversion: float = 0.0
    margin: float = 0.0
    tiebreak: float = 0.0
    extra: float = 0.0

    @property
    def bonus(self) -> float:
        """What the rival's outcome adds."""
        return float(sum(getattr(self, name) for name in BONUS_PARTS))

    @property
    def total(self) -> float:
        return self.correctness + self.format + self.bonus + self.extra


OWN_PARTS = ("correctness", "format", "extra")
"""Parts of a reward that know no rival."""
PARTS = tuple(field.name for field in fields(Reward))
BONUS_PARTS = tuple(name for name in PARTS if name not in OWN_PARTS)


@dataclass(frozen=True, slots=True)
class Rollout:
    """A completion with its prompt, verdict, reward and advantage: one row of a stream. `policy` None is the base.

    `reward` is None when it cannot be known (a machine failed); `advantage` is None when the row carries no signal
    (unknown reward, or a dead group). Such rows stay in the batch as masked rows and are left out of every
    denominator.
    """

    problem: Problem
    index: int
    policy: Policy | None
    prompt: Prompt
    completion: Completion
    verdict: Verdict
    reward: Reward | None = None
    advantage: float | None = None
    seconds: float = field(default=0.0, compare=False)
    """How long the completion took to arrive, waiting for the engine included; measured in evaluations."""


@dataclass(frozen=True, slots=True)
class Bout:
    """Draft a_i and the challenge b_i that met it: one row of `bouts/`. `challenge` is None where there is one stage.

    `rival` is the index of the draft that pays the challenge; it differs from `draft.index` in the shared-opponent
    and mispaired arms, and is None in an evaluation, where nothing is paid. `other_peek` is what an agent of a mixture
    read of the other agent's draft.
    """

    draft: Rollout
    challenge: Rollout | None = None
    peek: str | None = None
    rival: int | None = None
    other_peek: str | None = None

    @property
    def problem(self) -> Problem:
        return self.draft.problem

    @property
    def final(self) -> Rollout:
        """What the bout answers in the end."""
        return self.challenge or self.draft

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        return (self.draft,) if self.challenge is None else (self.draft, self.challenge)


@dataclass(frozen=True, slots=True)
class Stream:
    """The rollouts that train one policy in one step, in groups that share a problem."""

    name: StreamName
    policy: Policy
    groups: tuple[tuple[Rollout, ...], ...]

    def rollouts(self) -> Iterator[Rollout]:
        for group in self.groups:
            yield from group


@dataclass(frozen=True, slots=True)
class Played:
    """All that one step of the game produced: lines 2 to 9 of Algorithm 1."""

    step: int
    drafter: Policy
    challenger: Policy
    bouts: tuple[Bout, ...]
    standalone: Stream
    competitive: Stream | None
    staleness: int = 0
    """Updates between the versions that drew it and those that learn from it."""

    @property
    def streams(self) -> tuple[Stream, ...]:
        return (self.standalone,) if self.competitive is None else (self.standalone, self.competitive)


def seed_for(*names: object) -> int:
    """A 31-bit seed from names alone, the same on every machine, process and Python version.

    `seed_for(run_seed, step, policy, problem_id, index)`: no global state, and no `hash()`, which is salted per
    process.
    """
    text = "\x1f".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def content_id(*fields: str) -> str:
    """Sixteen hex digits that name a content."""
    return hashlib.sha256("\x1f".join(fields).encode()).hexdigest()[:16]
