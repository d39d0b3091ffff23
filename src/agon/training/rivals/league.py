"""A league: in each step an earlier version of A plays B."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from agon.game.rules import Rivalry
from agon.rundir.records import RunState
from agon.training.rivals import NO_PAIR, ONLY_A_LEARNS, Rival
from agon.types import Policy, Version, seed_for


class League(Rival):
    """Versions of A are kept every so many steps; seed and step choose one of them."""

    kind = "league"
    rivalry: ClassVar[Rivalry] = "leaves"
    rules = (*ONLY_A_LEARNS, NO_PAIR)
    unused: ClassVar[Mapping[str, str]] = {}
    on_card = "earlier versions of A; B was not trained: A answers alone"

    @property
    def about(self) -> str:
        return f"an earlier version of A, kept every {self.config.rival.every} steps; only A learns"

    def seats(self, state: RunState, step: int) -> Mapping[Policy, Version]:
        chosen = state.league[seed_for(self.config.train.seed, "league", step) % len(state.league)]
        return {**state.versions, Policy.B: chosen}

    def kept(self, state: RunState, done: int) -> tuple[Version, ...]:
        """A joins at its start and every so many steps, unless it has not moved."""
        newest = state.versions[Policy.A]
        joins = done % self.config.rival.every == 0 and newest not in state.league
        return (*state.league, newest) if joins else state.league
