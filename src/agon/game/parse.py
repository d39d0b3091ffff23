"""A completion taken apart: trace, summary, answers, boxes, and the format term phi.

How a text is read is in `agon_judge.answers`, so that the game and the judge read the same answer. Where the paper
says "well-formed structure", `well_formed` below is our reading of it.
"""

from __future__ import annotations

from agon.types import THINK_OPEN, Completion
from agon_judge import answers
from agon_judge.answers import ANSWER, Parsed, answer_spans


def parse(completion: Completion) -> Parsed:
    """Split a completion into what is private, what may be shown and what is graded (section 4.3)."""
    return answers.parse(completion.text, opened=completion.opened)


def same_answer(one: Completion, two: Completion) -> bool:
    """Whether both give an answer, and the same one, letter by letter but for spaces."""
    first, second = (parse(completion).answer for completion in (one, two))
    return first is not None and second is not None and first.split() == second.split()


def well_formed(completion: Completion) -> bool:
    """phi(y): reasoning from the start to the last `</think>`, then one non-empty `<answer>` block; not truncated.

    Tags inside the reasoning do not count: a trace may quote the format that the prompt asks for.
    """
    begins = completion.opened or completion.text.lstrip().startswith(THINK_OPEN)
    _, rest, closed = answers.split(completion.text, opened=completion.opened)
    if completion.finish != "stop" or not begins or not closed:
        return False
    tags = [match.group() for match in ANSWER.finditer(rest)]
    return tags == ["<answer>", "</answer>"] and answer_spans(rest, ANSWER)[1] != ("",)
