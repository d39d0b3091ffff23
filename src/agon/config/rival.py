"""Who plays policy B: one that learns, as in the paper, or a rival that does not. docs/rivals.md."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator

from agon.config.section import Frozen, Positive
from agon.doors import door, places

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
    earlier version of A for each step; with these two only A learns. A package can add others (`agon.doors`)."""
    every: Positive = 10
    """Our choice: for `league`, the steps between two versions of A that are kept; the first is its start."""


def rival_of(kind: str) -> Any:
    """The class of a rival; for a kind that nobody here knows, the one that learns."""
    return door("agon.rivals", kind if kind in places("agon.rivals") else LEARNS)


def row_name(arm: str, rival: str) -> str:
    """How results of a run are named: by its arm, and by its rival where that does not learn."""
    return arm if rival == LEARNS else f"{arm}, rival {rival}"
