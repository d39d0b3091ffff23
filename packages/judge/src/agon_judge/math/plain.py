"""math-verify as others use it, in processes that can be killed: for numbers that can be compared with theirs.

What stands after the reasoning is given to `math_verify.parse`, the gold too, then both to `verify`, with the library's
defaults. It does not know `<answer>` blocks, so the last one is given to it as a box. Nothing is refused beforehand. A
gold that does not parse is `bad_gold`.
"""

from __future__ import annotations

from agon_judge.answers import parse, split
from agon_judge.pooled import PooledJudge, Steps
from agon_judge.verdict import Reason, Verdict

LONGEST = 4_000
"""Characters of a completion that are compared: the last ones, where the answer is."""
_REASONS = {"timeout": Reason.TIMEOUT, "crashed": Reason.UNPARSABLE, "infra": Reason.INFRA}


def compare(gold: str, text: str) -> tuple[str, str]:
    """In a worker: what math-verify says. Its timers are off, as the worker has one."""
    from math_verify import parse as parsed
    from math_verify import verify

    golds = parsed(gold if "\\boxed" in gold or "$" in gold else f"${gold}$", parsing_timeout=None)
    if not golds:
        golds = parsed(gold, parsing_timeout=None)
    if not golds:
        return "bad_gold", "math-verify cannot parse the gold"
    answers = parsed(text, parsing_timeout=None)
    if not answers:
        return "unparsable", "math-verify finds no answer"
    return ("correct" if verify(golds, answers, timeout_seconds=None) else "wrong"), ""


def warm_up() -> None:
    """Fill the parser's tables before workers are forked."""
    compare(r"\frac{1}{2}", r"\boxed{0.5}")


class PlainMathJudge(PooledJudge):
    """A row is a gold and a whole completion."""

    def __init__(self, *, workers: int | None = None, deadline: float = 2.0) -> None:
        super().__init__("agon_judge.math.plain:compare", workers, deadline)

    def judge(self, gold: str, text: str) -> Verdict:
        return self.judge_many([(gold, text)])[0]

    def steps(self, gold: str, text: str) -> Steps:
        parsed = parse(text)
        shown = split(text)[1][-LONGEST:]
        if parsed.answers:
            answer = parsed.answers[-1][-LONGEST:]
            shown = answer if "\\boxed" in answer or "$" in answer else f"\\boxed{{{answer}}}"
        outcome = yield gold[:LONGEST], shown
        return Verdict(_REASONS.get(outcome.name) or Reason(outcome.name), outcome.detail)

    def self_test(self) -> list[str]:
        """Whether the library is there and works on two rows; what else it pays is for an audit to say."""
        known = {("42", r"\boxed{42}"): True, ("42", r"\boxed{41}"): False}
        return [
            f"{row}: {v.reason}"
            for row, v in zip(known, self.judge_many(known), strict=True)
            if v.correct != known[row]
        ]
