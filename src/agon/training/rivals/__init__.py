"""Who plays policy B: one file for each kind of rival, behind the door `agon.rivals`.

A rival says which version plays B in a step, who learns, and which versions stay live for it. `play` asks a sampler
for policy B and does not know which version answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from agon.config import Config
from agon.config.rules import Rule
from agon.game.rules import Rivalry
from agon.protocols import CompletionSource
from agon.rundir.records import RunState
from agon.types import Completion, Policy, Request, Version

ONLY_A_LEARNS = (
    Rule(
        ("rival.kind", "game.opponent"),
        lambda kind, opponent: opponent == "rival",
        "is for arms with a rival, such as agon or coop; this one has none: leave it out",
    ),
    Rule(
        ("rival.kind", "game.roles"),
        lambda kind, roles: roles == "rotate",
        "leaves only A to learn, and with game.roles fixed A always drafts, so the rival would teach it nothing: "
        "write game.roles rotate",
    ),
    Rule(
        ("rival.kind", "game.show_draft", "game.stack", "game.tiebreak_weight"),
        lambda kind, show, stack, tiebreak: show or stack != "coop" or tiebreak > 0,
        "leaves only A to learn, and A neither reads the rival's drafts nor is paid against them: "
        "write game.show_draft true, or choose the arm agon",
    ),
)
OF_LEAGUE = {"rival.every": "rival.kind league"}
NO_PAIR = Rule(
    ("eval.direction", "rival.kind"),
    lambda direction, kind: direction in {"dev", "ab"},
    "this rival leaves no pair, so there is no second direction; leave it out",
)


class Rival:
    """Policy B as the paper has it: an adapter that learns. Other kinds change what differs."""

    kind: ClassVar[str] = "policy"
    rivalry: ClassVar[Rivalry] = "learns"
    rules: ClassVar[tuple[Rule, ...]] = ()
    unused: ClassVar[Mapping[str, str]] = OF_LEAGUE
    """Keys that must keep their default here, as they would do nothing; and whose they are."""
    on_card: ClassVar[str] = "B, trained against A"
    """What a model card says of it."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    def about(self) -> str:
        """What `agon plan` says of it; empty where B learns."""
        return ""

    def seats(self, state: RunState, step: int) -> Mapping[Policy, Version]:
        """Who plays each policy in a step: the newest versions."""
        return dict(state.versions)

    def kept(self, state: RunState, done: int) -> tuple[Version, ...]:
        """Versions that stay live as rivals after `done` steps."""
        return ()


@dataclass(frozen=True, slots=True)
class Seated:
    """Implements `agon.protocols.CompletionSource`: one version plays each policy, whatever is published meanwhile.

    The step is the batch: with several in flight, timing must not decide what is rounded together.
    """

    engine: CompletionSource
    versions: Mapping[Policy, Version]
    step: int = 0

    async def sample(self, request: Request) -> Completion:
        seat = self.versions[request.seat] if isinstance(request.seat, Policy) else request.seat
        return await self.engine.sample(replace(request, seat=seat, batch=self.step))

    def clip(self, text: str, max_tokens: int) -> str:
        return self.engine.clip(text, max_tokens)
