"""Who plays policy B: one that learns, as in the paper, or a rival that does not. docs/rivals.md."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from agon.config.section import Frozen, Positive
from agon.game.rules import RivalKind
from agon.types import ENDPOINT, Version

ModelName = Annotated[str, Field(pattern=rf"^{Version.MODEL}$")]
LEARNS: Literal["policy"] = "policy"


class Rival(Frozen):
    """Who plays policy B. By default B learns, as in the paper; with any other kind only A does."""

    kind: RivalKind = LEARNS
    """Our choice: `policy` learns, as in the paper. `frozen` keeps the adapter of `model.init.b`, `league` draws an
    earlier version of A for each step, `endpoint` asks a server; from these three only A learns."""
    every: Positive = 10
    """Our choice: for `league`, the steps between two versions of A that are kept; the first is its start."""
    url: str | None = None
    """Our choice: for `endpoint`, an OpenAI-compatible address, such as https://host/v1. Its key is read from
    AGON_RIVAL_KEY."""
    model: ModelName | None = None
    """Our choice: for `endpoint`, what the server calls its model."""

    @property
    def name(self) -> str:
        """The kind; of an endpoint with its model, which is also its version: `endpoint:MODEL`."""
        return f"{ENDPOINT}{self.model}" if self.kind == "endpoint" else self.kind


def kind_of(name: str) -> RivalKind:
    """The kind of a rival, by its name; one that nobody knows is a policy."""
    kind = name.partition(":")[0]
    return next((known for known in get_args(RivalKind) if known == kind), LEARNS)


def row_name(arm: str, rival: str) -> str:
    """How results of a run are named: by its arm, and by its rival where that does not learn."""
    return arm if rival == LEARNS else f"{arm}, rival {rival}"
