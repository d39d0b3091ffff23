"""math-verify as others use it, in processes that can be killed: for numbers that can be compared with theirs.

What stands after the reasoning is given to `math_verify.parse`, the gold too, then both to `verify`, with the library's
defaults. It does not know `<answer>` blocks, so the last one is given to it as a box. Nothing is refused beforehand. A
gold that does not parse is `bad_gold`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from agon_judge.answers import parse, split
from agon_judge.judge import Judge
from agon_judge.verdict import Reason, Verdict
from agon_judge.workers.messages import Limits, Outcome
from agon_judge.workers.pool import WorkerPool
from agon_judge.workers.system import available_cores

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


class PlainMathJudge(Judge):
    """A row is a gold and a whole completion."""

    def __init__(self, *, workers: int | None = None, deadline: float = 2.0) -> None:
        limits = Limits(workers or min(8, available_cores()), deadline)
        self._pool = WorkerPool("agon_judge.math.plain:compare", limits)
        self._rows = 0
        self._pool.start()

    def judge(self, gold: str, text: str) -> Verdict:
        return self.judge_many([(gold, text)])[0]

    def judge_many(self, rows: Iterable[tuple[str, str]]) -> list[Verdict]:
        futures = [self._pool.submit(*self._row(*row)) for row in rows]
        return [_verdict(future.result()) for future in futures]

    async def judge_async(self, gold: str, text: str) -> Verdict:
        return _verdict(await asyncio.wrap_future(self._pool.submit(*self._row(gold, text))))

    def self_test(self) -> list[str]:
        """Whether the library is there and works on two rows; what else it pays is for an audit to say."""
        known = {("42", r"\boxed{42}"): True, ("42", r"\boxed{41}"): False}
        return [
            f"{row}: {v.reason}"
            for row, v in zip(known, self.judge_many(known), strict=True)
            if v.correct != known[row]
        ]

    @property
    def counters(self) -> dict[str, int]:
        pool = self._pool.counters
        return {"rows": self._rows, "jobs": pool.jobs, "killed": pool.killed, "restarted": pool.restarted}

    def close(self) -> None:
        self._pool.close()

    def _row(self, gold: str, text: str) -> tuple[str, str]:
        self._rows += 1
        parsed = parse(text)
        if not parsed.answers:
            return gold[:LONGEST], split(text)[1][-LONGEST:]
        answer = parsed.answers[-1][-LONGEST:]
        return gold[:LONGEST], answer if "\\boxed" in answer or "$" in answer else f"\\boxed{{{answer}}}"


def _verdict(outcome: Outcome) -> Verdict:
    reason = _REASONS.get(outcome.name) or Reason(outcome.name)
    return Verdict(reason, outcome.detail)
