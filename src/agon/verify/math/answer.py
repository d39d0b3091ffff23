"""Extracts exactly one answer: the `<answer>` block after the last `</think>`, without a box around it."""

from __future__ import annotations

import re

from agon.game.parse import parse
from agon.types import Completion, Reason
from agon.verify.math.gate import Finding
from agon_judge.answers import Box, boxes, without

LONGEST, DEEPEST = 4_000, 3
"""Characters, and boxes in boxes, up to which an answer is taken out of its boxes; the gate refuses the rest."""

_DELIMITERS = re.compile(r"\\[()\[\]]|\$")


def one_answer(completion: Completion, *, boxed_answers: bool = False) -> str | Finding:
    """The answer that a completion commits to, or why there is not exactly one.

    Copies of one answer count as one. With `boxed_answers`, a box after the reasoning stands in for a missing block.
    """
    parsed = parse(completion)
    answers = parsed.answers or (parsed.boxed if boxed_answers else ())
    distinct = list(dict.fromkeys(" ".join(text.split()) for text in answers if text.strip()))
    if not distinct:
        return Finding(Reason.NO_ANSWER, _why_none(completion, parsed.closed))
    if len(distinct) > 1:
        return Finding(Reason.AMBIGUOUS, f"{len(distinct)} different answers")
    return _unbox(distinct[0])


def _why_none(completion: Completion, closed: bool) -> str:
    if completion.finish == "length":
        return "cut off before an answer"
    return "no answer after the reasoning" if closed else "reasoning was never closed"


def _unbox(text: str) -> str | Finding:
    """The content of the boxes in a block, if they agree and nothing else in it could be an answer."""
    for _ in range(DEEPEST if len(text) <= LONGEST else 0):
        nested = boxes(text)
        if not nested or not all(box.closed for box in nested):
            break
        contents = {" ".join(text[box.inner : box.stop].split()) for box in nested}
        if len(contents) > 1:
            return Finding(Reason.AMBIGUOUS, f"{len(contents)} different boxes")
        if _states_more(text, nested):
            return Finding(Reason.AMBIGUOUS, "values outside the box")
        text = contents.pop()
    return text


def _states_more(text: str, inner: list[Box]) -> bool:
    """Whether there are digits or mathematics outside the boxes; words are allowed."""
    outside = _DELIMITERS.sub(" ", " ".join(without(text, [(box.start, box.end) for box in inner])))
    return bool(re.search(r"[\d\\=<>]", outside))
