"""Who plays policy B: one that learns, as in the paper, or a rival that does not. docs/rivals.md."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from agon.config.section import Frozen, Positive
from agon.doors import door, places
from agon.game.rules import Rivalry
from agon.types import Version

ModelName = Annotated[str, Field(pattern=rf"^{Version.MODEL}$")]
LEARNS = "policy"


def _known(kind: str) -> str:
    if kind not in places("agon.rivals"):
        raise ValueError(f"there is no rival {kind!r}; choose one of: {', '.join(places('agon.rivals'))}")
    return kind


RivalKind = Annotated[str, AfterValidator(_known)]


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
        return self.kind if self.model is None else f"{self.kind}:{self.model}"


def kind_of(name: str) -> str:
    """The kind of a rival, by its name; one that nobody knows is a policy."""
    kind = name.partition(":")[0]
    return kind if kind in places("agon.rivals") else LEARNS


def rivalry_of(name: str) -> Rivalry:
    """What becomes of policy B with a rival."""
    found: Rivalry = door("agon.rivals", kind_of(name)).rivalry
    return found


def row_name(arm: str, rival: str) -> str:
    """How results of a run are named: by its arm, and by its rival where that does not learn."""
    return arm if rival == LEARNS else f"{arm}, rival {rival}"
