"""The game over turns and tools: what is read of a draft of several messages, and who is right.

The peek is made of the draft's last message alone: reasoning, tool calls, tool results and turns of the environment
stay private. A task of somebody else may ask for neither an `<answer>` block nor a box. Without them the last line
counts as the answer and is withheld; a draft of one line then shows nothing.
"""

from __future__ import annotations

from agon.game.parse import parse
from agon.game.peek import peek
from agon.types import BASE, Completion, Reason, Verdict

CONVERSION = "conversion"
"""The reward that `agon_duel` adds to the task's own."""


def peek_of_reply(reply: str, longest: int) -> str:
    """What the challenger reads of a draft whose last message is `reply`: at most `longest` characters."""
    draft = Completion(reply, BASE, 0, 0)
    parsed = parse(draft)
    if parsed.answer is None:
        draft = Completion(parsed.summary.rpartition("\n")[0], BASE, 0, 0)
    return peek(draft, lambda text: text[:longest])


def verdict_of(reward: float, right: float) -> Verdict:
    """Right is a reward of at least `right`. What the task pays beyond 0 or 1 is kept as a further term.

    R is then r + c + bonus: with r of 0 or 1, the ladder 0, 2, 3 of `reward.py`.
    """
    correct = reward >= right
    return Verdict(correct, False, Reason.CORRECT if correct else Reason.WRONG, extra=reward - correct)
