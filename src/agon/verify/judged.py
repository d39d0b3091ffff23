"""Verifiers over a judge of `agon_judge`: the answer in a completion, the judge's verdict on it, and phi."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agon.errors import InputError, VerifierError
from agon.game.parse import well_formed
from agon.protocols import Verifier
from agon.types import THINK_OPEN, Completion, Problem, UnitTests, Verdict
from agon_judge import errors as judge
from agon_judge.answers import one_answer
from agon_judge.code.extract import one_program
from agon_judge.code.judge import CodeJudge
from agon_judge.judge import Judge
from agon_judge.math.judge import MathJudge


@contextmanager
def errors_of_the_judge() -> Iterator[None]:
    """Raise errors of the judge as ours, so that `except AgonError` catches them."""
    try:
        yield
    except judge.InputError as error:
        raise InputError(error.message, fix=error.fix) from error
    except judge.JudgeError as error:
        raise VerifierError(error.message, fix=error.fix) from error


class JudgedVerifier(Verifier):
    """Takes the answer out of a completion and asks its judge."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    @abc.abstractmethod
    def row(self, problem: Problem, completion: Completion) -> tuple[Any, ...]:
        """What the judge is asked about a completion."""

    async def __call__(self, problem: Problem, completion: Completion) -> Verdict:
        with errors_of_the_judge():
            judged = await self.judge.judge_async(*self.row(problem, completion))
        return Verdict.of(judged, well_formed(completion))

    def verify_many(self, pairs: Iterable[tuple[Problem, Completion]]) -> list[Verdict]:
        pairs = list(pairs)
        with errors_of_the_judge():
            judged = self.judge.judge_many([self.row(*pair) for pair in pairs])
        return [Verdict.of(one, well_formed(pair[1])) for one, pair in zip(judged, pairs, strict=True)]

    def self_test(self) -> list[str]:
        with errors_of_the_judge():
            return self.judge.self_test()

    @property
    def counters(self) -> dict[str, int]:
        return self.judge.counters

    def close(self) -> None:
        self.judge.close()


class MathVerifier(JudgedVerifier):
    """`boxed_answers`: a box after the reasoning stands in for a missing answer block."""

    def __init__(self, judge: MathJudge, *, boxed_answers: bool = False) -> None:
        super().__init__(judge)
        self._boxed_answers = boxed_answers

    def row(self, problem: Problem, completion: Completion) -> tuple[Any, ...]:
        truncated = completion.finish == "length"
        answer = one_answer(
            completion.text, opened=completion.opened, truncated=truncated, boxed_answers=self._boxed_answers
        )
        return problem.answer, answer, problem.question


class MathVerifyVerifier(JudgedVerifier):
    """The plain library on the whole completion, as others use it."""

    def row(self, problem: Problem, completion: Completion) -> tuple[Any, ...]:
        text = f"{THINK_OPEN}{completion.text}" if completion.opened else completion.text
        return problem.answer, text


class CodeVerifier(JudgedVerifier):
    def __init__(self, judge: CodeJudge) -> None:
        super().__init__(judge)

    def row(self, problem: Problem, completion: Completion) -> tuple[Any, ...]:
        return one_program(completion.text, opened=completion.opened), problem.tests or UnitTests()
