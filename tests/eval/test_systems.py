"""What an arm deploys, and what can be asked of it besides."""

from __future__ import annotations

import pytest

from agon.config.arms import resolve
from agon.errors import InputError
from agon.eval.systems import deployed, drawn_by, headline, select
from agon.game.rules import Game


@pytest.mark.parametrize("arm", ["plain-pair", "hidden-drafts"])
def test_a_pair_that_was_trained_apart_is_single_pass_unless_its_cascade_is_asked_for(arm: str) -> None:
    game = Game(**resolve(arm))
    assert (deployed(game), headline(game)) == (("a", "b"), "single-pass")
    assert list(select(["cascade", "a"], game, "dev")) == ["ab", "ba", "a"]


def test_a_rival_that_is_no_adapter_of_the_run_leaves_a_alone() -> None:
    game = Game(**resolve("agon"), rival="leaves")
    assert (drawn_by(game), deployed(game), headline(game)) == (("a",), ("a",), "a")
    with pytest.raises(InputError, match="policy A alone"):
        select(["cascade"], game, "dev")
    assert list(select(["self-cascade"], game, "dev")) == ["self-cascade"]


def test_a_frozen_rival_and_a_are_a_pair() -> None:
    game = Game(**resolve("agon"), rival="stays")
    assert (drawn_by(game), headline(game)) == (("a", "b", "ab", "ba"), "cascade")


def test_one_policy_has_no_cascade() -> None:
    with pytest.raises(InputError, match="policy A alone"):
        select(["cascade"], Game(**resolve("grpo")), "dev")
