"""The judge's verdict on the answer in a completion becomes c(y), with phi beside it; its errors become ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest

from agon.errors import InputError, VerifierError
from agon.types import BASE, Completion, Problem, Reason, UnitTests
from agon.verify import load_verifier
from agon.verify.judged import CodeVerifier, MathVerifier
from agon_judge import verdict as judge
from agon_judge.code.judge import CodeJudge
from agon_judge.errors import InputError as JudgeInputError
from agon_judge.errors import JudgeError, SandboxDown
from agon_judge.judge import Judge
from agon_judge.math.judge import MathJudge
from agon_judge.sandbox import leaks

PROBLEM = Problem("p", "What is it?", "x+1", tests=UnitTests((("1", "2"),)))


def completion(text: str, **more: Any) -> Completion:
    return Completion(text, BASE, 0, 0, **more)


@pytest.fixture(scope="module")
def verifier() -> Iterator[MathVerifier]:
    with MathVerifier(MathJudge(workers=1)) as made:
        yield made


def test_a_right_answer_in_a_bad_form_is_right_and_not_well_formed(verifier: MathVerifier) -> None:
    texts = ("<think>a</think><answer>1+x</answer>", "<answer>1+x</answer>", "<think>a</think><answer>x</answer>")
    pairs = [(PROBLEM, completion(text)) for text in texts]
    verdicts = verifier.verify_many(pairs)
    assert [(one.reason, one.well_formed) for one in verdicts] == [
        (Reason.CORRECT, True),
        (Reason.CORRECT, False),
        (Reason.WRONG, True),
    ]
    assert [asyncio.run(verifier(*pair)) for pair in pairs] == verdicts  # type: ignore[arg-type]
    assert verifier.counters["rows"] >= 6


@pytest.mark.parametrize(
    ("text", "more", "detail"),
    [
        ("<answer>1+x</answer>", {"opened": True}, "reasoning was never closed"),
        ("<think>on and on", {"finish": "length"}, "cut off before an answer"),
        (r"<think>a</think>\boxed{1+x}", {}, "no answer after the reasoning"),
    ],
)
def test_what_is_no_answer_is_said(verifier: MathVerifier, text: str, more: dict[str, Any], detail: str) -> None:
    (verdict,) = verifier.verify_many([(PROBLEM, completion(text, **more))])
    assert (verdict.reason, verdict.detail) == (Reason.NO_ANSWER, detail)


def test_a_box_stands_in_for_a_block_only_when_asked() -> None:
    with load_verifier("math", workers=1, boxed_answers=True) as verifier:
        (verdict,) = verifier.verify_many([(PROBLEM, completion(r"<think>a</think>\boxed{1+x}"))])
    assert verdict.correct


class Recording(Judge):
    """Says that everything is right, and keeps what it was asked; or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.rows: list[Any] = []
        self.error = error

    def judge_many(self, rows: Iterable[Any]) -> list[judge.Verdict]:
        if self.error:
            raise self.error
        self.rows += rows
        return [judge.Verdict(Reason.CORRECT, "a note") for _ in self.rows]

    async def judge_async(self, *row: Any, **named: Any) -> judge.Verdict:
        return self.judge_many([row])[0]

    def self_test(self) -> list[str]:
        return [str(verdict) for verdict in self.judge_many([()])]

    @property
    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def test_a_program_and_its_tests_are_handed_over_and_the_detail_comes_back() -> None:
    recording = Recording()
    verifier = CodeVerifier(recording)  # type: ignore[arg-type]
    text = "<think>a</think><answer>```python\nprint(2)\n```</answer>"
    (verdict,) = verifier.verify_many([(PROBLEM, completion(text))])
    assert recording.rows == [("print(2)", PROBLEM.tests)]
    assert verdict.detail == "a note"
    assert verdict.well_formed


class Closed:
    def close(self) -> None: ...


def test_a_problem_without_tests_is_masked() -> None:
    with CodeVerifier(CodeJudge(Closed())) as verifier:  # type: ignore[arg-type]
        (verdict,) = verifier.verify_many([(Problem("p", "", "1"), completion("<answer>print(1)</answer>"))])
    assert (verdict.reason, verdict.graded) == (Reason.BAD_GOLD, False)


@pytest.mark.parametrize("error", [JudgeError("no", fix="do this"), SandboxDown("no", fix="do this")])
def test_an_error_of_the_judge_is_one_of_ours(error: JudgeError) -> None:
    verifier = CodeVerifier(Recording(error))  # type: ignore[arg-type]
    for ask in (
        lambda: verifier.verify_many([(PROBLEM, completion("x"))]),
        lambda: asyncio.run(verifier(PROBLEM, completion("x"))),  # type: ignore[arg-type]
        verifier.self_test,
    ):
        with pytest.raises(VerifierError, match="no") as caught:
            ask()
        assert caught.value.fix == "do this"


def test_a_sandbox_that_cannot_be_opened_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, ours in ((JudgeInputError("no bwrap"), InputError), (SandboxDown("gone"), VerifierError)):
        monkeypatch.setattr(leaks, "open_sandbox", Mock(side_effect=error))
        with pytest.raises(ours, match=error.message):
            load_verifier("code")
