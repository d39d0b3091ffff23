"""The math verifier: one answer, a cheap gate, and math-verify in processes that can be killed (docs/verifiers.md).

Most rows are decided here, without a worker: the answer is written like the gold, both are plain numbers, or the gate
refuses it. The rest is decided by `equality.compare` in a worker. Of a gold that does not parse, two things are still
known: an answer that is written like it is right, and a completion without exactly one answer is not. All others give
`bad_gold`, so that their rows are masked and never scored; whether a gold parses is checked once.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Generator, Iterable
from concurrent.futures import Future

from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.types import Completion, Problem, Reason, Verdict
from agon.verify.cache import Cache
from agon.verify.math.answer import one_answer
from agon.verify.math.gate import Finding, limits, refuse
from agon.verify.math.notation import Leaf, as_words, plain_words, read
from agon.verify.math.operators import profile
from agon.verify.math.rationals import same_number
from agon.verify.math.restated import expressions, ingredients, suspects
from agon.verify.math.spelling import clean, written_alike
from agon.verify.workers.messages import Limits, Outcome
from agon.verify.workers.pool import WorkerPool
from agon.verify.workers.system import available_cores

Comparison = tuple[str | None, ...]
"""Gold, answer and suspects, or a gold alone: what a worker is asked."""
Steps = Generator[Comparison, Outcome, Finding]

_CORRECT = Finding(Reason.CORRECT, "")
_WRONG = Finding(Reason.WRONG, "")
_AS_WRITTEN = Finding(Reason.CORRECT, "the gold does not parse: only answers written like it are right")
_REASONS = {
    "correct": Reason.CORRECT,
    "wrong": Reason.WRONG,
    "unparsable": Reason.UNPARSABLE,
    "crashed": Reason.UNPARSABLE,
    "bad_gold": Reason.BAD_GOLD,
    "timeout": Reason.TIMEOUT,
    "infra": Reason.INFRA,
}


class MathVerifier(Verifier):
    """math-verify behind a gate and a deadline; `cache` is the number of verdicts that are remembered."""

    def __init__(
        self, *, workers: int | None = None, boxed_answers: bool = False, deadline: float = 2.0, cache: int = 100_000
    ) -> None:
        self._boxed_answers = boxed_answers
        self._pool = WorkerPool("agon.verify.math.equality:compare", Limits(workers or _cores(), deadline))
        self._verdicts: Cache[Finding] = Cache(cache)
        self._golds: Cache[Finding] = Cache(cache)
        self._rows = self._cached = 0
        self._pool.start()

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        row = self._row(problem, completion)
        finding = _advance(row, None)
        while isinstance(finding, tuple):
            outcome = await asyncio.wrap_future(self._pool.submit(*finding))
            finding = _advance(row, outcome)
        return _verdict(finding, completion)

    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        rows = [(self._row(problem, completion), completion) for problem, completion in pairs]
        findings = [_advance(row, None) for row, _ in rows]
        while futures := self._submit(findings):
            for index, future in futures.items():
                findings[index] = _advance(rows[index][0], future.result())
        return [_verdict(finding, rows[index][1]) for index, finding in enumerate(findings)]

    def self_test(self) -> list[str]:
        from agon.verify.math.probes import failures

        return failures(self)

    @property
    def counters(self) -> dict[str, int]:
        pool = self._pool.counters
        return {
            "rows": self._rows,
            "cached": self._cached,
            "jobs": pool.jobs,
            "killed": pool.killed,
            "restarted": pool.restarted,
            "retried": pool.retried,
        }

    def workers(self) -> tuple[int, ...]:
        """Process ids of the fork server and the workers that are alive."""
        return self._pool.workers()

    def close(self) -> None:
        self._pool.close()

    def _submit(self, findings: list[Comparison | Finding]) -> dict[int, Future[Outcome]]:
        return {i: self._pool.submit(*finding) for i, finding in enumerate(findings) if isinstance(finding, tuple)}

    def _row(self, problem: Problem, completion: Completion) -> Steps:
        """Decide one row: yields what a worker must compare, and returns the finding."""
        self._rows += 1
        gold = " ".join(problem.answer.split()) if isinstance(problem.answer, str) else ""
        answer = one_answer(completion, boxed_answers=self._boxed_answers)
        if flaw := limits(gold, gold) if gold else "empty":
            return _AS_WRITTEN if gold and answer == gold else Finding(Reason.BAD_GOLD, flaw)
        if isinstance(answer, Finding):
            return answer
        finding = decide(gold, answer, problem.question)
        if finding is None:
            finding = yield from self._compare(gold, answer, *suspects(gold, answer, problem.question))
        return (yield from self._with_gold(gold, finding))

    def _compare(self, *texts: str) -> Steps:
        """The finding of math-verify on gold, answer and suspects; remembered unless the machine failed."""
        gold, key = texts[0], _key(*texts)
        if known := self._verdicts.get(key):
            self._cached += 1
            return known
        finding = _finding((yield texts))
        if finding.reason in (Reason.CORRECT, Reason.WRONG, Reason.UNPARSABLE):
            self._golds.put(_key(gold), _CORRECT)
        if finding.reason is not Reason.INFRA:
            self._verdicts.put(key, finding)
        return finding

    def _with_gold(self, gold: str, finding: Finding) -> Steps:
        """The finding, or `bad_gold` if the gold does not parse and the answer is not written like it."""
        if finding.reason in (Reason.BAD_GOLD, Reason.INFRA) or surely_parses(gold):
            return finding
        known = self._golds.get(_key(gold))
        if known is None:
            known = _finding((yield gold, None))
            if known.reason is Reason.TIMEOUT or known.reason is Reason.UNPARSABLE:
                known = Finding(Reason.BAD_GOLD, known.detail)
            if known.reason is not Reason.INFRA:
                self._golds.put(_key(gold), known)
        if finding.reason is Reason.CORRECT:
            return _AS_WRITTEN if known.reason is Reason.BAD_GOLD else finding
        return finding if known.reason is Reason.CORRECT else known


def decide(gold: str, answer: str, question: str = "") -> Finding | None:
    """The finding on a pair if no worker is needed for it, else None."""
    if flaw := limits(answer, gold):
        return Finding(Reason.UNPARSABLE, flaw)
    if written_alike(gold, answer):
        return _CORRECT
    if (expected := as_words(gold)) is not None:
        return _decide_words(gold, expected, answer, question)
    if refusal := refuse(gold, answer, question):
        return refusal
    one, other = read(gold), read(answer)
    if isinstance(one, Leaf) and isinstance(other, Leaf) and one.number and other.number:
        same = same_number(one.number, other.number)
        return None if same and suspects(gold, answer, question) else _CORRECT if same else _WRONG
    return None


def _decide_words(gold: str, expected: str, answer: str, question: str) -> Finding:
    """The finding if the gold is words. Their case does not matter, but a letter that is a value is not a choice."""
    if as_words(answer) is None and profile(answer).operators:
        return Finding(Reason.UNPARSABLE, "mathematics where the gold is words")
    words = as_words(answer) or plain_words(answer)
    if words != expected:
        return _WRONG
    letter, choice = ("".join(re.findall("[A-Za-z]", clean(text))) for text in (answer, gold))
    is_value = letter == "e" or any(letter in ingredients(part) for part in expressions(question))
    if len(letter) == 1 and letter != choice[-1] and is_value:
        return Finding(Reason.WRONG, f"{letter} is a value, not a choice")
    return _CORRECT


def surely_parses(gold: str) -> bool:
    """Whether a gold is words or a plain number, so that no worker has to parse it."""
    node = read(gold)
    return (isinstance(node, Leaf) and node.number is not None) or as_words(gold) is not None


def _advance(row: Steps, outcome: Outcome | None) -> Comparison | Finding:
    """Run a row up to its next comparison or its end."""
    try:
        return next(row) if outcome is None else row.send(outcome)
    except StopIteration as end:
        finding: Finding = end.value
        return finding


def _finding(outcome: Outcome) -> Finding:
    return _CORRECT if outcome.name == "good" else Finding(_REASONS[outcome.name], outcome.detail)


def _verdict(finding: Comparison | Finding, completion: Completion) -> Verdict:
    assert isinstance(finding, Finding)
    return Verdict(finding.reason is Reason.CORRECT, well_formed(completion), finding.reason, finding.detail)


def _key(*texts: str) -> bytes:
    return hashlib.sha256("\x1f".join(texts).encode(errors="surrogatepass")).digest()


def _cores() -> int:
    return min(8, available_cores())
