"""Generated problems: seeded, and never the same in two splits."""

from __future__ import annotations

import pytest

from agon.config import Source
from agon.data import load, splits
from agon.data.normalise import question_key
from agon.errors import DataError
from tests.data.helpers import data

CHAIN = {"family": "chain", "difficulty": 2}


def test_tabletop_comes_in_the_number_asked_for_and_from_its_seed() -> None:
    source = Source(preset="tabletop", options=CHAIN, take=50)
    assert len(load(source, seed=1)) == 50
    assert load(source, seed=1) == load(source, seed=1)
    assert load(source, seed=1) != load(source, seed=2)


def test_a_generator_needs_a_take() -> None:
    with pytest.raises(DataError) as caught:
        load(Source(preset="tabletop"))
    assert "take" in caught.value.fix


def test_generated_splits_share_no_problem_even_in_a_small_world() -> None:
    train, dev, held_out = (Source(preset="tabletop", options=CHAIN, take=n) for n in (800, 100, 100))
    made = splits(data(train, dev, held_out))
    keys = [question_key(problem.question) for part in made.parts.values() for problem in part]
    assert len(keys) == len(set(keys)) == 1_000


def test_a_larger_generated_train_changes_neither_held_out_nor_dev() -> None:
    def made(n: int) -> dict[str, str]:
        sources = (Source(preset="tabletop", options=CHAIN, take=take) for take in (n, 30, 40))
        return splits(data(*sources)).hashes

    small, large = made(20), made(500)
    assert small["held_out"] == large["held_out"]
    assert small["dev"] == large["dev"]
    assert small["train"] != large["train"]


def test_a_world_too_small_is_reported() -> None:
    tiny = {"family": "chain", "difficulty": 1}
    sources = (Source(preset="tabletop", options=tiny, take=take) for take in (150, 50, 50))
    with pytest.raises(DataError) as caught:
        splits(data(*sources))
    assert caught.value.fix


def test_tabletop_refuses_options_it_does_not_know() -> None:
    with pytest.raises(DataError, match="no option familly"):
        load(Source(preset="tabletop", options={"familly": "chain"}, take=5))


class TestReasoningGym:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        pytest.importorskip("reasoning_gym")

    def test_a_task_is_seeded_and_takes_options(self) -> None:
        source = Source(preset="reasoning-gym:chain_sum", options={"min_terms": 4, "max_terms": 4}, take=20)
        problems = load(source, seed=3)
        assert problems == load(source, seed=3)
        assert {problem.meta["metadata"]["num_terms"] for problem in problems} == {4}
        assert all(int(problem.answer) == eval_sum(problem.meta["metadata"]["expression"]) for problem in problems)

    def test_an_unknown_task_names_the_nearest(self) -> None:
        with pytest.raises(DataError) as caught:
            load(Source(preset="reasoning-gym:chain_sm", take=5))
        assert "chain_sum" in caught.value.fix

    @pytest.mark.parametrize("options", [{"terms": 3}, {"min_terms": -1}, {"min_terms": "many"}])
    def test_bad_options_are_reported_with_the_known_ones(self, options: dict[str, int | str]) -> None:
        with pytest.raises(DataError) as caught:
            load(Source(preset="reasoning-gym:chain_sum", options=options, take=5))
        assert "min_terms" in caught.value.fix

    def test_a_task_that_repeats_itself_is_reported_with_counts(self) -> None:
        options = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
        with pytest.raises(DataError, match=r"made \d+ new problems out of \d+, not 300"):
            load(Source(preset="reasoning-gym:chain_sum", options=options, take=300))


def eval_sum(expression: str) -> int:
    """Terms joined by + and -, without eval."""
    return sum(int(term) for term in expression.replace("- ", "+ -").split("+"))
