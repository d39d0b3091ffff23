"""Reasoning and content are the same however the text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.deploy.serve.splitter import Splitter

PIECES = st.lists(st.sampled_from(["<think>", "</think>", "<", "th", "ink>", "</", "a", "b", "ab", "\n", "<answer>"]))
STOPS = st.lists(st.sampled_from(["ab", "b", "aba", "</answer>", "<a"]), max_size=3).map(tuple)


def split(pieces: list[str], opened: bool, stops: tuple[str, ...] = ()) -> tuple[str, str, bool]:
    splitter = Splitter(opened, stops=stops)
    parts = [part for piece in pieces for part in splitter.add(piece)] + splitter.end()
    texts = ("".join(part.text for part in parts if part.kind == kind) for kind in ("reasoning", "content"))
    return (*texts, splitter.stopped)


@given(PIECES, st.booleans(), STOPS)
def test_any_cut_gives_the_same(pieces: list[str], opened: bool, stops: tuple[str, ...]) -> None:
    text = "".join(pieces)
    assert split(pieces, opened, stops) == split([text], opened, stops) == split(list(text), opened, stops)


@given(PIECES, st.booleans())
def test_nothing_is_lost_but_markers(pieces: list[str], opened: bool) -> None:
    text = "".join(pieces)
    reasoning, content, _ = split(pieces, opened)
    opening = text.lstrip().removeprefix("<think>") if not opened else text
    begun = opened or text.lstrip().startswith("<think>")
    assert (reasoning, content) == (
        (opening.partition("</think>")[0], opening.partition("</think>")[2]) if begun else ("", text)
    )


@pytest.mark.parametrize(
    ("text", "stops", "content"),
    [
        ("<think>ab</think>abc", ("b",), "a"),
        ("<think>x</think>aabab", ("aba", "bab"), "a"),
        ("<think>x</think>abc", ("abc", "c"), ""),
        ("abc", (), "abc"),
    ],
)
def test_stop_strings_end_the_content_and_leave_reasoning_alone(
    text: str, stops: tuple[str, ...], content: str
) -> None:
    assert split([text], False, stops)[1] == content


def test_nothing_is_held_longer_than_needed() -> None:
    splitter = Splitter(opened=True)
    assert [part.text for part in splitter.add("one <")] == ["one "]
    assert [part.text for part in splitter.add("b")] == ["<b"]


def test_families_with_markers_of_their_own() -> None:
    splitter = Splitter(False, ("<|channel>thought", "<channel|>"))
    parts = [part for piece in "<|channel>thought\nso<channel|>4" for part in splitter.add(piece)] + splitter.end()
    assert "".join(part.text for part in parts if part.kind == "reasoning") == "so"
    assert "".join(part.text for part in parts if part.kind == "content") == "4"
