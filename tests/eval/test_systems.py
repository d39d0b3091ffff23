"""What an arm deploys, and what can be asked of it besides."""

from __future__ import annotations

import pytest

from agon.arms import resolve
from agon.errors import InputError
from agon.eval.systems import deployed, headline, select
from agon.game.rules import Game


@pytest.mark.parametrize("arm", ["plain-pair", "hidden-drafts"])
def test_a_pair_that_was_trained_apart_is_single_pass_unless_its_cascade_is_asked_for(arm: str) -> None:
    game = Game(**resolve(arm))
    assert (deployed(game), headline(game)) == (("a", "b"), "single-pass")
    assert list(select(["cascade", "a"], game, "dev")) == ["ab", "ba", "a"]


def test_one_policy_has_no_cascade() -> None:
    with pytest.raises(InputError, match="policy A alone"):
        select(["cascade"], Game(**resolve("grpo")), "dev")
