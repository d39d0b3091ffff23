"""What a client sees of a completion is the same however the text is cut, and never holds the answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.deploy.serve.reasoning import ReasoningText
from agon.game.parse import answer_spans, without

PIECES = st.lists(
    st.sampled_from(
        ["<think>", "</think>", "<answer>", "</answer>", "<", "th", "ink>", "</", "ans", "wer>", "a", "b", "\n"]
    )
)


def shown(pieces: list[str], opened: bool, *, answers: bool = False) -> str:
    text = ReasoningText(opened, answers=answers)
    return "".join(map(text.add, pieces)) + text.end()


def without_blocks(text: str) -> str:
    """Text without its closed answer blocks."""
    spans, _ = answer_spans(text, re.compile("</?answer>"))
    closed = [
        (start, end)
        for start, end in spans
        if text.count("<answer>", start, end) == text.count("</answer>", start, end)
    ]
    return "".join(without(text, closed))


@given(PIECES, st.booleans(), st.booleans())
def test_any_cut_gives_the_same(pieces: list[str], opened: bool, answers: bool) -> None:
    text = "".join(pieces)
    whole = shown([text], opened, answers=answers)
    assert shown(pieces, opened, answers=answers) == whole == shown(list(text), opened, answers=answers)


@given(PIECES, st.booleans())
def test_nothing_is_left_out_but_markers_and_answer_blocks(pieces: list[str], opened: bool) -> None:
    text = "".join(pieces)
    begins = opened or text.lstrip().startswith("<think>")
    body = text if opened or not begins else text.lstrip().removeprefix("<think>")
    reasoning, mark, rest = body.partition("</think>") if begins else ("", "", body)
    newline = "\n" if mark else ""
    assert shown(pieces, opened) == reasoning + newline + without_blocks(rest)
    assert shown(pieces, opened, answers=True) == reasoning + newline + rest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>so</think>Recap: 4\n<answer>4</answer>\n", "so\nRecap: 4\n\n"),
        ("<think>is <answer>3</answer> right?</think><answer>4</answer>", "is <answer>3</answer> right?\n"),
        ("<think>so</think>Recap <answer>cut sho", "so\nRecap <answer>cut sho"),
        ("no tags", "no tags"),
    ],
)
def test_the_recap_is_shown_and_the_answer_is_not(text: str, expected: str) -> None:
    assert shown([text], opened=False) == expected


def test_nothing_is_held_longer_than_needed() -> None:
    text = ReasoningText(opened=True)
    assert text.add("one <") == "one "
    assert text.add("b") == "<b"


def test_families_with_markers_of_their_own() -> None:
    text = ReasoningText(False, ("<|channel>thought", "<channel|>"))
    pieces = "<|channel>thought\nso<channel|>then <answer>4</answer>"
    assert "".join(map(text.add, pieces)) + text.end() == "so\nthen "
