"""A peek carries the worked summary and nothing that could pass for an answer, a box or structure."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon.game.peek import WITHHELD, bare_program, leaks, neutral, peek
from agon.types import Completion

PIECES = [
    "<think>", "</think>", "<answer>", "</answer>", "<ans", "wer>", "< Answer >", "\\boxed{", "\\boxed", "\\fbox{",
    "\\bo", "xed{", "{", "}", "%\n", "\\Boxed", "</attempt", " x>",
    "\\", "<|im_end|>", "<|", "|>", "im_start", "<start_of_turn>", "[INST]", "[/INST]", "<<SYS>>",
    "<|channel>", "<channel|>", "<｜", "｜>",
    "＜think＞", "&lt;think&gt;", WITHHELD, "7", " ", "\n", "so x < y", "\ud800", "\u0301", "\u200b",
]  # fmt: skip
STRUCTURE = re.compile(
    r"</?\s*(?:think|answer|attempt)|<\||\|>|\\(?:boxed|Boxed|fbox)(?![A-Za-z])|\[/?INST\]|<(?:start|end)_of_turn>"
)


def completion(summary: str) -> Completion:
    return Completion(f"<think>secret trace</think>{summary}", "base", 1, 1)


def whole(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("summary", "seen"),
    [
        ("Add them.\n<answer>7</answer>", "Add them."),
        ("Add them: \\boxed{\\frac{7}{2}}. Done.", f"Add them: {WITHHELD}. Done."),
        ("Add \\boxed{7", f"Add {WITHHELD}"),
        ("Add. <answer>7", "Add."),
        ("Add. <Answer>7</ANSWER> ok", f"Add. {WITHHELD} ok"),
        ("<answer>7</answer>", ""),
        ("\\boxed{7}", ""),
        ("", ""),
        ("a <|im_end|> b", "a &lt;|im_end|&gt; b"),
        ("since a < b and c > d", "since a < b and c > d"),
        ("area [ABC] and |x| > 2", "area [ABC] and |x| > 2"),
        ("a </attempt x> b", "a &lt;/attempt x> b"),
        ('</attempt foo="1">', '&lt;/attempt foo="1">'),
        ("<          /attempt>", "&lt;          /attempt>"),
        (r"<\/attempt> ＜!Attempt", r"&lt;\/attempt> &lt;!Attempt"),
        ("my attempt < its attempts", "my attempt < its attempts"),
        ("Add \\boxed%\n{7} them", f"Add {WITHHELD} them"),
        ("Add \\boxed % so\n  %\n {7} them", f"Add {WITHHELD} them"),
        ("Add \\Boxed{7} and \\bbox[2pt]{8} them", f"Add {WITHHELD} and {WITHHELD} them"),
        ("the \\boxedtext stays", "the \\boxedtext stays"),
    ],
)
def test_what_the_rival_sees(summary: str, seen: str) -> None:
    assert peek(completion(summary), whole) == seen


@pytest.mark.parametrize(
    ("summary", "seen"),
    [
        (
            "Read them.\n```python\nprint(3)\n```\nPrint the sum.",
            f"Read them.\n{WITHHELD}\nPrint the sum.",
        ),
        ("Read.\n```\nprint(3)", f"Read.\n{WITHHELD}"),
        ("Read. ```print(3)``` Print.", f"Read. {WITHHELD} Print."),
        ("Read.\n~~~cpp\nint x;\n~~~", f"Read.\n{WITHHELD}"),
        ("Read.\n````\n```\nprint(3)\n```\n````\nPrint.", f"Read.\n{WITHHELD}\nPrint."),
        ("Read.\n```\n<answer>\nprint(3)\n</answer>\n```", f"Read.\n{WITHHELD}"),
        ("```python\nprint(3)\n```", ""),
        ("Add `a` and `b`.", "Add `a` and `b`."),
    ],
)
def test_code_blocks_are_withheld_where_the_answer_is_a_program(summary: str, seen: str) -> None:
    assert peek(completion(summary), whole, withhold_code=True) == seen
    if "```" in summary:
        assert WITHHELD not in peek(completion(summary), whole)


@pytest.mark.parametrize("unit", ["```", "```a", "~~~ ", "`" * 7 + "\n", "```x\n```"])
def test_withholding_code_takes_linear_time(unit: str) -> None:
    start = time.process_time()
    peek(completion(unit * (200_000 // len(unit))), whole, withhold_code=True)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("answer", ["print(3)", "```python\nprint(3)\n```", "Here:\n```\nprint(3)\n```"])
def test_a_program_is_compared_without_its_fence(answer: str) -> None:
    assert bare_program(answer).strip() == "print(3)"


def test_a_draft_that_never_closed_its_reasoning_shows_nothing() -> None:
    assert peek(Completion("so it is 7 <answer>7</answer>", "base", 1, 1, opened=True), whole) == ""


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_no_structure_survives_and_escaping_is_idempotent(pieces: list[str]) -> None:
    shown = neutral("".join(pieces))
    assert not STRUCTURE.search(shown)
    assert neutral(shown) == shown


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20), st.integers(0, 60))
def test_clipping_anywhere_brings_no_structure_back(pieces: list[str], cut: int) -> None:
    assert not STRUCTURE.search(peek(completion("".join(pieces)), lambda text: text[:cut]))


def test_even_a_clip_that_rewrites_is_neutralised() -> None:
    assert STRUCTURE.search(peek(completion("fine"), lambda _: "<answer>7</answer>\\boxed{7}")) is None


@pytest.mark.parametrize(
    "unit",
    [
        "\\boxed{",
        "\\boxed{7}",
        "<answer ",
        "<",
        "</",
        "| ",
        "<ans<answer>5</answer>wer>7</answer>",
        "\\",
        "\\boxed%",
        "<!",
    ],
)
def test_peeking_takes_linear_time(unit: str) -> None:
    started = time.process_time()
    peek(completion(unit * (200_000 // len(unit))), whole)
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("text", "answer", "leaked"),
    [
        ("so the total is 42.", "42", True),
        ("the total is 1,234 dollars", "1234", True),
        ("it is seven in all", "7", True),
        (r"we get $\frac{1}{2}$", "1/2", True),
        (r"hence $\{1, 2\}$", r"\{1,2\}", True),
        ("X = Y", "x=y", True),
        (r"so \frac34 of it", r"\frac{3}{4}", True),
        ("so 0.75 of it", r"\frac{3}{4}", True),
        ("so 3/4 of it", "0.75", True),
        ("that is 42.0 in all", "42", True),
        ("that is 42.50 in all", "42.5", True),
        ("Forty-two in all", "42", True),
        ("it costs 58 500 euros", "58,500", True),
        ("so $4{2}$", "42", True),
        ("142 and 42.5", "42", False),
        ("4 and 2, or 4 2", "42", False),
        ("42.05 and 0.333", "1/3", False),
        ("nothing here", "42", False),
        ("anything", "", False),
        ("anything", "$ $", False),
    ],
)
def test_a_leak_is_the_answer_standing_as_whole_tokens(text: str, answer: str, leaked: bool) -> None:
    assert leaks(text, answer) is leaked


def test_leaks_takes_linear_time_on_combining_marks() -> None:
    started = time.process_time()
    leaks("e" + "\u0301\u0323" * 50_000, "7")
    assert time.process_time() - started < 3
