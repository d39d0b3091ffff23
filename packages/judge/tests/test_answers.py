"""Exactly one answer is extracted, from the block after the last `</think>`."""

from __future__ import annotations

import time

import pytest

from agon_judge.answers import one_answer
from agon_judge.math.gate import limits
from agon_judge.math.judge import unbox
from agon_judge.verdict import Reason, Verdict


def extract(text: str, *, boxed_answers: bool = False) -> str | Reason:
    answer = one_answer(text, boxed_answers=boxed_answers)
    answer = unbox(answer) if isinstance(answer, str) else answer
    return answer.reason if isinstance(answer, Verdict) else answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>a</think> sum <answer>42</answer>", "42"),
        ("<think>a</think><answer> 4\n2 </answer>", "4 2"),
        ("no reasoning at all <answer>42</answer>", "42"),
        ("<think>a</think><answer>42</answer> and again <answer> 42 </answer>", "42"),
        ("<think>a</think><answer>41</answer><answer>42</answer>", Reason.AMBIGUOUS),
        ("<think><answer>42</answer></think> I forgot", Reason.NO_ANSWER),
        (r"<think>\boxed{42}</think> so it is", Reason.NO_ANSWER),
        (r"<think>a</think> \boxed{42}", Reason.NO_ANSWER),
        ("<think>a</think><answer></answer>", Reason.NO_ANSWER),
        ("<think>a</think><answer>42", Reason.NO_ANSWER),
        ("<think>never closed <answer>42</answer>", Reason.NO_ANSWER),
        ("", Reason.NO_ANSWER),
        (r"<think>a</think><answer>\boxed{42}</answer>", "42"),
        (r"<think>a</think><answer>$\boxed{\frac{1}{2}}$.</answer>", r"\frac{1}{2}"),
        (r"<think>a</think><answer>\boxed{\boxed{42}}</answer>", "42"),
        (r"<think>a</think><answer>The answer is \boxed{42}</answer>", "42"),
        (r"<think>a</think><answer>\boxed{42} = \boxed{42}</answer>", Reason.AMBIGUOUS),
        (r"<think>a</think><answer>\boxed{42} \boxed{42}</answer>", "42"),
        (r"<think>a</think><answer>\boxed{41} \boxed{42}</answer>", Reason.AMBIGUOUS),
        (r"<think>a</think><answer>41, \boxed{42}</answer>", Reason.AMBIGUOUS),
    ],
)
def test_one_answer(text: str, expected: str | Reason) -> None:
    assert extract(text) == expected


def test_a_box_stands_in_for_a_missing_block_only_when_asked() -> None:
    text = r"<think>\boxed{41}</think> so \boxed{42}"
    assert extract(text, boxed_answers=True) == "42"
    assert extract(text) is Reason.NO_ANSWER
    assert extract(r"<think>a</think> \boxed{41} or \boxed{42}", boxed_answers=True) is Reason.AMBIGUOUS
    assert extract(r"<think>a</think> \boxed{41} <answer>42</answer>", boxed_answers=True) == "42"


def test_a_truncated_completion_says_so() -> None:
    verdict = one_answer("<think>on and on", truncated=True)
    assert isinstance(verdict, Verdict)
    assert verdict.detail == "cut off before an answer"


def test_a_text_that_begins_inside_reasoning_has_no_answer_there() -> None:
    assert isinstance(one_answer("<answer>42</answer>", opened=True), Verdict)
    assert one_answer("so</think><answer>42</answer>", opened=True) == "42"


def test_twenty_thousand_unclosed_boxes_take_linear_time() -> None:
    start = time.process_time()
    extract("<think>a</think><answer>" + r"\boxed{" * 20_000 + "</answer>")
    assert time.process_time() - start < 2


@pytest.mark.parametrize("depth", [400, 4_000])
def test_boxes_in_boxes_cost_no_time(depth: int) -> None:
    text = "<think>a</think><answer>" + "\\boxed{" * depth + "42" + "}" * depth + "</answer>"
    began = time.process_time()
    answer = extract(text)
    assert time.process_time() - began < 0.1
    assert limits(answer), "the gate refuses it"
