"""A rival by the door `agon.rivals`: the policy that A started as plays B, so A learns to read and to beat it.

pip install -e examples/rival
agon train CONFIG.yaml rival.kind=start
"""

from __future__ import annotations

from collections.abc import Mapping

from agon.rundir.records import RunState
from agon.training.rivals import NO_PAIR, OF_LEAGUE, ONLY_A_LEARNS, Rival
from agon.types import Policy, Version


class Start(Rival):
    """The first version of A stays live in every run: it is what progress is measured against."""

    kind = "start"
    rivalry = "leaves"  # no adapter B is left to deploy
    rules = (*ONLY_A_LEARNS, NO_PAIR)
    unused = OF_LEAGUE
    on_card = "A as it started; B was not trained: A answers alone"

    @property
    def about(self) -> str:
        return "A as it started; only A learns"

    def seats(self, state: RunState, step: int) -> Mapping[Policy, Version]:
        return {**state.versions, Policy.B: state.first[Policy.A]}
