"""The judges as rewards of other frameworks: right is 1.0, wrong is 0.0, and no verdict is what each has for it.

    TRL          math_reward, code_reward, math_verify_reward    None: the row is left out of its group
    verl         compute_score                                   score 0.0 with `graded` 0.0, for a filter
    verifiers    math_score, code_score in an @vf.reward         raises NoVerdict: the rollout has an error

A judge is opened at the first call and lives as long as the process; forked children open their own.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Sequence
from functools import cache
from numbers import Number
from typing import TYPE_CHECKING, Any

from agon_judge.answers import one_answer, parse
from agon_judge.errors import InputError, JudgeError
from agon_judge.verdict import Reason, Verdict

if TYPE_CHECKING:
    from agon_judge.code.judge import CodeJudge
    from agon_judge.math.judge import MathJudge

_opening = threading.Lock()
_TESTS = re.compile(r'\s*(?:\[\s*\[\s*"|\{\s*")')
"""How tests begin as JSON, and no answer in mathematics."""
_HASHES = re.compile(r"^####[ \t]*(\S.*)$", re.MULTILINE)
"""An answer as GSM8K states it."""
GOLDS = ("answer", "solution", "ground_truth", "gold", "target", "label", "final_answer")
"""Columns in which data sets keep the gold, in the order in which they are looked for."""


class NoVerdict(JudgeError):
    """The gold or the machine is at fault: nothing is known about the answer."""


def math_reward(
    completions: Sequence[Any], prompts: Sequence[Any] | None = None, log_extra: Any = None, **columns: Any
) -> list[float | None]:
    """TRL's signature: 1.0 for a right answer, 0.0 for a wrong one, None where there is no verdict.

    The gold is the column `answer`, or the first of `solution`, `ground_truth`, `gold`, `target`, `label` and
    `final_answer`. The answer is that of the `<answer>` block after the reasoning, else that of the boxes, which must
    agree, else a short text itself.
    """
    return _paid(math_verdicts(completions, prompts, **columns), log_extra)


def math_verify_reward(
    completions: Sequence[Any], prompts: Sequence[Any] | None = None, log_extra: Any = None, **columns: Any
) -> list[float | None]:
    """The same by math-verify alone, as others use it: for numbers that can be compared with theirs."""
    from agon_judge.math.plain import PlainMathJudge

    golds = _golds(columns, len(completions))
    judge = _judge(PlainMathJudge)
    verdicts = judge.judge_many((gold, _text(each)) for gold, each in zip(golds, completions, strict=True))
    return _paid(verdicts, log_extra)


def code_reward(
    completions: Sequence[Any], tests: Sequence[Any], log_extra: Any = None, **columns: Any
) -> list[float | None]:
    """TRL's signature: 1.0 for a program that passes its `tests`, 0.0 for any other, None where there is no verdict.

    `tests` are pairs of input and output, in any form of `unit_tests`. The sandbox is opened and probed at the first
    call; one that leaks is refused.
    """
    return _paid(code_verdicts(completions, tests), log_extra)


def math_verdicts(completions: Sequence[Any], prompts: Sequence[Any] | None = None, **columns: Any) -> list[Verdict]:
    """The verdicts behind `math_reward`, with their reasons."""
    golds = _golds(columns, len(completions))
    questions = [_text(prompt) for prompt in prompts] if prompts else [""] * len(completions)
    rows = zip(golds, [_answer(_text(each)) for each in completions], questions, strict=True)
    return _math().judge_many(rows)


def code_verdicts(completions: Sequence[Any], tests: Sequence[Any]) -> list[Verdict]:
    """The verdicts behind `code_reward`, with their reasons."""
    from agon_judge.code.extract import one_program
    from agon_judge.unit_tests import UnitTests, unit_tests

    rows: list[tuple[str | Verdict, UnitTests] | Verdict] = []
    for completion, given in zip(completions, tests, strict=True):
        try:
            judged_by = given if isinstance(given, UnitTests) else unit_tests(given)
            rows.append((one_program(_text(completion)), judged_by))
        except ValueError as error:
            rows.append(Verdict(Reason.BAD_GOLD, str(error)))
    usable = [row for row in rows if not isinstance(row, Verdict)]
    verdicts = iter(_code().judge_many(usable) if usable else ())
    return [row if isinstance(row, Verdict) else next(verdicts) for row in rows]


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None, **_: Any
) -> dict[str, Any]:
    """verl's signature, for `custom_reward_function.path`. Programs are judged where the ground truth is tests.

    verl has no word for "no verdict": the score is 0.0 then, and `graded` is 0.0, so that a filter or a metric can tell
    it from a wrong answer.
    """
    question = str((extra_info or {}).get("question", ""))
    if isinstance(ground_truth, list | dict) or _TESTS.match(str(ground_truth)):
        tests = ground_truth if isinstance(ground_truth, str) else json.dumps(ground_truth)
        (verdict,) = code_verdicts([solution_str], [tests])
    else:
        (verdict,) = math_verdicts([solution_str], [question], answer=[ground_truth])
    return {
        "score": float(verdict.correct),
        "acc": float(verdict.correct),
        "graded": float(verdict.graded),
        "reason": str(verdict.reason),
    }


async def math_score(completion: str, gold: str, question: str = "") -> float:
    """For an `@vf.reward` of verifiers: `return await math_score(trace.last_reply, self.data.answer)`.

    NoVerdict is raised where there is none: verifiers notes the error and does not train on the rollout.
    """
    return _scored(await _math().judge_async(gold, _answer(completion), question))


async def code_score(completion: str, tests: Any) -> float:
    """The same for programs: `return await code_score(trace.last_reply, self.data.tests)`."""
    from agon_judge.code.extract import one_program
    from agon_judge.unit_tests import UnitTests, unit_tests

    judged_by = tests if isinstance(tests, UnitTests) else unit_tests(tests)
    return _scored(await _code().judge_async(one_program(completion), judged_by))


def _scored(verdict: Verdict) -> float:
    if not verdict.graded:
        raise NoVerdict(f"no verdict: {verdict.reason}: {verdict.detail}", fix="leave this rollout out")
    return float(verdict.correct)


def _paid(verdicts: Sequence[Verdict], log_extra: Any) -> list[float | None]:
    """Rewards; the reasons go to TRL's table of completions where there is one."""
    if log_extra is not None:
        log_extra("reason", [str(verdict.reason) for verdict in verdicts])
    return [float(verdict.correct) if verdict.graded else None for verdict in verdicts]


def _answer(text: str) -> str | Verdict:
    """The answer in a completion; of a text without markup, what follows ####, else a line of at most 200 letters."""
    answer = one_answer(text, boxed_answers=True)
    if isinstance(answer, str) or answer.reason is not Reason.NO_ANSWER:
        return answer
    parsed = parse(text)
    stated = {" ".join(line.split()) for line in _HASHES.findall(parsed.summary)}
    if len(stated) > 1:
        return Verdict(Reason.AMBIGUOUS, f"{len(stated)} different answers")
    plain = stated.pop() if stated else parsed.summary.strip()
    if parsed.closed and plain and "\n" not in plain and len(plain) <= 200 and "<answer" not in text:
        return plain
    return answer


def _text(value: Any) -> str:
    """A completion or a prompt as text: of a chat, the last message."""
    if isinstance(value, list | tuple):
        value = value[-1].get("content", "") if value else ""
    if isinstance(value, list):  # a message in parts
        value = "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _golds(columns: dict[str, Any], count: int) -> list[str]:
    """The golds of the first column that holds any, as text."""
    name = next((name for name in GOLDS if name in columns), None)
    if name is None:
        fix = f"name the column of golds in your data set one of: {', '.join(GOLDS)}"
        raise InputError("there is no column of golds", fix=fix)
    if len(columns[name]) != count:
        raise InputError(f"{len(columns[name])} golds for {count} completions", fix="give one gold per completion")
    return ["" if gold is None else gold_text(gold) for gold in columns[name]]


def gold_text(gold: Any) -> str:
    """A gold as text; of a worked solution, what stands behind the last #### (GSM8K) or in the box (MATH).

    NaN is what a table has for a hole: it is empty, and so is what is neither text nor a number.
    """
    if gold != gold or not isinstance(gold, str | Number):
        return ""
    text = str(gold).rpartition("####")[2].strip()
    boxed = one_answer(text, boxed_answers=True) if "\\boxed" in text else None
    return boxed if isinstance(boxed, str) else text


def _judge(kind: Any, process: int = 0) -> Any:
    with _opening:
        return _opened(kind, process)


@cache
def _opened(kind: Any, process: int) -> Any:
    return kind()


def _math() -> MathJudge:
    from agon_judge.math.judge import MathJudge

    judge: MathJudge = _judge(MathJudge)
    return judge


def _code() -> CodeJudge:
    from agon_judge.code.judge import CodeJudge

    judge: CodeJudge = _judge(CodeJudge, os.getpid())  # a forked child has none of its threads
    return judge
