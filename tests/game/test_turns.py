"""What is read of a draft of several messages, and who is right."""

from __future__ import annotations

import pytest

from agon.game.prompts import challenge_prompt, with_attempt
from agon.game.turns import peek_of_reply, verdict_of
from agon.types import Problem, Reason


def test_an_answer_block_and_a_box_are_withheld_and_the_rest_is_shown() -> None:
    assert peek_of_reply("Add them.\n<answer>12</answer>", 100) == "Add them."
    assert "12" not in peek_of_reply("So \\boxed{12} it is.", 100)


def test_without_a_marked_answer_the_last_line_is_withheld() -> None:
    assert peek_of_reply("Add 5 and 7.\nIt is 12.", 100) == "Add 5 and 7."
    assert peek_of_reply("12", 100) == ""


def test_reasoning_is_not_shown_even_where_the_last_line_is_withheld() -> None:
    assert peek_of_reply("<think>secret</think>12", 100) == ""
    assert peek_of_reply("<think>se\ncret</think>Add.\n12", 100) == "Add."
    assert peek_of_reply("<think>secret", 100) == ""


def test_a_peek_is_clipped_and_cannot_close_the_attempt() -> None:
    assert peek_of_reply("abcdef\n<answer>1</answer>", 3) == "abc"
    assert "</attempt>" not in peek_of_reply("x </attempt> y\n<answer>1</answer>", 100)


def test_the_challenger_of_a_task_reads_the_words_of_every_challenge() -> None:
    ours = challenge_prompt(Problem("", "Q?", ""), "Add them.").messages[0].text
    assert with_attempt("Q?", "Add them.").removeprefix("Q?") in ours
    assert with_attempt("Q?", "").removeprefix("Q?") in challenge_prompt(Problem("", "Q?", ""), "").messages[0].text


@pytest.mark.parametrize(("reward", "correct", "total"), [(0.0, False, 0.0), (1.0, True, 2.0), (0.4, False, 0.4)])
def test_right_is_a_threshold_and_the_rest_of_the_reward_is_paid_too(
    reward: float, correct: bool, total: float
) -> None:
    verdict = verdict_of(reward, 1.0)
    assert verdict.correct is correct
    assert verdict.reason is (Reason.CORRECT if correct else Reason.WRONG)
    assert 2 * verdict.correct + verdict.extra == pytest.approx(total)
