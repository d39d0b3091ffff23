"""A frozen rival: B's own adapter, which nobody trains."""

from __future__ import annotations

from typing import ClassVar

from agon.game.rules import Rivalry
from agon.training.rivals import ONLY_A_LEARNS, Rival


class Frozen(Rival):
    """No stream of B reaches the learner."""

    kind = "frozen"
    rivalry: ClassVar[Rivalry] = "stays"
    rules = ONLY_A_LEARNS
    on_card = "B, which did not learn"

    @property
    def about(self) -> str:
        return "adapter B as it starts; only A learns"
