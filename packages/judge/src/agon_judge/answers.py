"""The answers in a text: what stands after the reasoning, its answer blocks and its boxes.

Total for any string, in linear time. Reasoning blocks are flat: the trace ends at the last `</think>`, and a text that
ends inside a block has neither summary nor answer, whatever it wrote there. A text that never opened a block is all
summary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agon_judge.verdict import Reason, Verdict

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
"""The markers around reasoning."""
ANSWER = re.compile(r"</?answer>")
_BRACE = re.compile(
    r"\\(?:boxed|fbox|framebox)(?![A-Za-z])(?:\[[^\[\]{}\n]{0,40}\])?\s*(?P<brace>\{)?"
    r"|\\[{}]|[{}]"
)
_BARE = re.compile(r"\\[A-Za-z]+|[^\s{}\\]+")


@dataclass(frozen=True, slots=True)
class Parsed:
    """`answers` and `boxed` are read after the last `</think>` only; `closed` is False when reasoning never ended."""

    trace: str
    summary: str
    answers: tuple[str, ...]
    boxed: tuple[str, ...]
    closed: bool

    @property
    def answer(self) -> str | None:
        """The last answer block after the reasoning, else the last box; None if there is neither."""
        return next(iter([*self.answers[::-1], *self.boxed[::-1]]), None)


@dataclass(frozen=True, slots=True)
class Box:
    """A `\\boxed{}` in a text: `start:end` is all of it, `inner:stop` its content; an unclosed one runs to the end."""

    start: int
    inner: int
    stop: int
    end: int
    closed: bool


def parse(text: str, *, opened: bool = False) -> Parsed:
    """Take a text apart. `opened` says that it begins inside a reasoning block."""
    trace, rest, closed = split(text, opened=opened)
    if not closed:
        return Parsed(trace, "", (), (), closed=False)
    spans, answers = answer_spans(rest, ANSWER)
    boxed = tuple(rest[box.inner : box.stop].strip() for box in boxes(rest) if box.closed)
    return Parsed(trace, "\n".join(without(rest, spans)).strip(), answers, boxed, closed=True)


def one_answer(
    text: str, *, opened: bool = False, truncated: bool = False, boxed_answers: bool = False
) -> str | Verdict:
    """The answer that a text commits to, or why there is not exactly one.

    Copies of one answer count as one. With `boxed_answers`, a box after the reasoning stands in for a missing block.
    """
    parsed = parse(text, opened=opened)
    answers = parsed.answers or (parsed.boxed if boxed_answers else ())
    distinct = list(dict.fromkeys(" ".join(answer.split()) for answer in answers if answer.strip()))
    if len(distinct) > 1:
        return Verdict(Reason.AMBIGUOUS, f"{len(distinct)} different answers")
    if distinct:
        return distinct[0]
    if truncated:
        return Verdict(Reason.NO_ANSWER, "cut off before an answer")
    why = "no answer after the reasoning" if parsed.closed else "reasoning was never closed"
    return Verdict(Reason.NO_ANSWER, why)


def split(text: str, *, opened: bool = False) -> tuple[str, str, bool]:
    """Trace, text after the last `</think>`, and whether reasoning had ended there."""
    head, mark, tail = text.rpartition(THINK_CLOSE)
    inside = THINK_OPEN in tail or (opened and not mark)
    if inside:
        return text.replace(THINK_OPEN, "", 1).strip(), "", False
    return head.replace(THINK_OPEN, "", 1).strip(), tail, True


def answer_spans(text: str, tag: re.Pattern[str]) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Outermost answer blocks (an unclosed one runs to the end), and the contents of the innermost closed ones."""
    spans: list[tuple[int, int]] = []
    answers: list[str] = []
    depth, start, inner = 0, 0, -1
    for match in tag.finditer(text):
        if "/" not in match.group():
            start = start if depth else match.start()
            depth, inner = depth + 1, match.end()
        elif depth:
            if inner >= 0:
                answers.append(text[inner : match.start()].strip())
            depth, inner = depth - 1, -1
            if not depth:
                spans.append((start, match.end()))
    if depth:
        spans.append((start, len(text)))
    return spans, tuple(answers)


def boxes(text: str, brace: re.Pattern[str] = _BRACE) -> list[Box]:
    """Boxes in order: closed ones that no closed one contains, unclosed ones, and `\\boxed 7` without braces."""
    found: list[Box] = []
    stack: list[tuple[int, int]] = []
    for match in brace.finditer(text):
        token = match.group()
        if token == "{" or match["brace"]:
            stack.append((match.start() if match["brace"] else -1, match.end()))
        elif token == "}" and stack:
            start, inner = stack.pop()
            if start >= 0:
                found.append(Box(start, inner, match.start(), match.end(), closed=True))
        elif len(token) > 2:
            found.append(_bare(text, match))
    found += [Box(start, inner, len(text), len(text), closed=False) for start, inner in stack if start >= 0]
    return _outermost(found)


def without(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """The pieces of `text` outside `spans`, which are ordered and disjoint."""
    pieces, last = [], 0
    for start, end in spans:
        pieces.append(text[last:start])
        last = end
    return [*pieces, text[last:]]


def _bare(text: str, marker: re.Match[str]) -> Box:
    """`\\boxed 7`: TeX takes the next token; we take the next word, which holds at least that."""
    word = _BARE.match(text, marker.end())
    end = word.end() if word else marker.end()
    return Box(marker.start(), marker.end(), end, end, closed=False)


def _outermost(found: list[Box]) -> list[Box]:
    """Drop closed boxes inside closed ones; an unclosed box hides nothing that closed within it."""
    kept: list[Box] = []
    edge = -1
    for box in sorted(found, key=lambda box: box.start):
        if not box.closed or box.start >= edge:
            kept.append(box)
            edge = max(edge, box.end) if box.closed else edge
    return kept
