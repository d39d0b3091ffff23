"""A completion is taken apart the same way whoever opened the reasoning block, and whatever was written in it."""

from __future__ import annotations

import time

import pytest

from agon.game.parse import parse, well_formed
from agon.types import Completion


def completion(text: str, *, opened: bool = False, finish: str = "stop") -> Completion:
    return Completion(text, "base", 1, 1, finish=finish, opened=opened)  # type: ignore[arg-type]


GOOD = "<think>try 6, then 7</think>\nSix and one more.\n<answer>7</answer>"


def test_the_three_parts_of_an_ordinary_completion() -> None:
    parsed = parse(completion(GOOD))
    assert (parsed.trace, parsed.summary, parsed.answers) == ("try 6, then 7", "Six and one more.", ("7",))
    assert parsed.closed
    assert well_formed(completion(GOOD))


def test_a_block_opened_by_the_prompt_reads_the_same() -> None:
    inside = completion(GOOD.removeprefix("<think>"), opened=True)
    assert parse(inside) == parse(completion(GOOD))
    assert well_formed(inside)


@pytest.mark.parametrize("text", ["", "still thinking", "so <answer>7</answer>", "\\boxed{7} <answer>7</answer>"])
def test_truncation_inside_the_block_leaves_nothing_to_grade_or_show(text: str) -> None:
    for cut in (completion(text, opened=True, finish="length"), completion("<think>" + text)):
        parsed = parse(cut)
        assert (parsed.summary, parsed.answers, parsed.boxed, parsed.closed) == ("", (), (), False)
        assert not well_formed(cut)


def test_without_any_tag_all_is_summary() -> None:
    parsed = parse(completion("It is \\boxed{7}."))
    assert (parsed.trace, parsed.summary, parsed.boxed, parsed.closed) == ("", "It is \\boxed{7}.", ("7",), True)


@pytest.mark.parametrize(
    ("text", "summary", "answers"),
    [
        ("<think>a</think>x<think>b</think>y<answer>1</answer>", "y", ("1",)),
        ("<think>a<think>b</think>c</think>y<answer>1</answer>", "y", ("1",)),
        ("<answer>9</answer><think>a</think>y<answer>1</answer>", "y", ("1",)),
        ("a</think>y<answer>1</answer>", "y", ("1",)),
        ("<think>a<answer>9</think>y</answer>", "y</answer>", ()),
        ("<think>a</think>y<answer>1</answer><think>hm", "", ()),
        ("<think>a</think><answer>1</answer>mid<answer>2</answer>", "mid", ("1", "2")),
        ("<think>a</think>y<answer><answer>1</answer></answer>", "y", ("1",)),
        ("<think>a</think>y<answer>1", "y", ()),
        ("<think>a</think>y<answer> </answer>", "y", ("",)),
    ],
)
def test_tags_repeated_nested_interleaved_or_unclosed(text: str, summary: str, answers: tuple[str, ...]) -> None:
    parsed = parse(completion(text))
    assert (parsed.summary, parsed.answers) == (summary, answers)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no tags",
        "<answer>7</answer>",
        "<think>a</think>recap",
        "<think>a</think><answer> </answer>",
        "<think>a</think><answer>1</answer><answer>1</answer>",
        "<think>a</think><answer>1</answer></answer>",
        "<think>a</think><answer>1</answer><think>b</think>",
        "<think>a</think><answer>1</answer><think>b",
        "<think>a<answer>1</answer></think>",
        "first <think>a</think><answer>1</answer>",
        "a</think><answer>1</answer>",
    ],
)
def test_malformed_structure_is_not_paid(text: str) -> None:
    assert not well_formed(completion(text))


QUOTED = (
    "I must put it inside <answer> and </answer>.",
    "First <answer>9</answer>? No.",
    "an <answer> that never ends",
    "Reason inside <think> and </think>, then <answer>.",
)


@pytest.mark.parametrize("quoted", QUOTED)
@pytest.mark.parametrize("opened", [False, True])
def test_reasoning_may_quote_the_format_that_the_prompt_asks_for(quoted: str, opened: bool) -> None:
    text = f"{'' if opened else '<think>'}{quoted}</think>\nSix and one more.\n<answer>7</answer>"
    quoting = completion(text, opened=opened)
    assert well_formed(quoting)
    assert (parse(quoting).summary, parse(quoting).answers) == ("Six and one more.", ("7",))


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_tag_after_the_reasoning_is_not_well_formed(quoted: str) -> None:
    assert not well_formed(completion(f"<think>a</think>{quoted}<answer>7</answer>"))


def test_a_truncated_completion_is_not_well_formed() -> None:
    assert not well_formed(completion(GOOD, finish="length"))


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{\frac{1}{2}}", (r"\frac{1}{2}",)),
        (r"\boxed{\{1, 2\}} and \fbox {3}", (r"\{1, 2\}", "3")),
        (r"\boxed{\boxed{7}}", (r"\boxed{7}",)),
        (r"\boxed{5 \boxed{7}", ("7",)),
        (r"{\boxed{7} \boxed 8 \boxedfoo{9}", ("7",)),
        (r"\boxed{7", ()),
    ],
)
def test_boxes_balance_their_braces(text: str, boxed: tuple[str, ...]) -> None:
    assert parse(completion(text)).boxed == boxed


@pytest.mark.parametrize(
    "unit",
    [
        "\\boxed{",
        "\\boxed",
        "{",
        "\\",
        "<think>",
        "</think>",
        "<answer>",
        "<ans<answer></answer>",
        "\ud800",
        "\u0301\u0323",
    ],
)
def test_parsing_takes_linear_time(unit: str) -> None:
    started = time.process_time()
    for opened in (False, True):
        parse(completion(unit * (200_000 // len(unit)), opened=opened))
    assert time.process_time() - started < 2
