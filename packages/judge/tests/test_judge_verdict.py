from __future__ import annotations

import pytest

from agon_judge.verdict import UNGRADED, Reason, Verdict, printable


@pytest.mark.parametrize("reason", Reason)
def test_only_one_reason_is_right_and_two_say_nothing_about_the_answer(reason: Reason) -> None:
    verdict = Verdict(reason)
    assert verdict.correct is (reason == "correct")
    assert verdict.graded is (reason not in ("bad_gold", "infra"))
    assert frozenset({"bad_gold", "infra"}) == UNGRADED


def test_a_verdict_is_not_a_truth_value() -> None:
    with pytest.raises(TypeError, match=r"\.correct"):
        bool(Verdict(Reason.CORRECT))


def test_what_is_printed_moves_no_cursor() -> None:
    assert printable("a\x1b[2J\u202eé π\n") == "a?[2J?é π?"
