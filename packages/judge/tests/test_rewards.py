"""The judges as rewards: right, wrong and no verdict in the words of TRL, verl and verifiers."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
from functools import cache
from typing import Any

import pytest

import agon_judge
from agon_judge.errors import InputError
from agon_judge.rewards import gold_text
from agon_judge.verdict import Reason, Verdict
from judge_helpers import HERE

RIGHT = "<think>so</think> <answer>1+x</answer>"
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_trl_gets_numbers_and_none_for_no_verdict() -> None:
    texts = [RIGHT, r"so \boxed{x+1}", "1+x", "<answer>x</answer>", "<think>1+x", "", "7"]
    golds = ["x+1", "x+1", "x+1", "x+1", "x+1", "x+1", r"\aleph_0"]
    assert agon_judge.math_reward(texts, answer=golds) == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, None]
    assert agon_judge.math_reward([chat(text) for text in texts], answer=golds)[:3] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("column", ["solution", "ground_truth", "gold", "label"])
def test_the_gold_is_found_under_the_usual_names(column: str) -> None:
    assert agon_judge.math_reward(["42"], **{column: ["6 x 7 is 42\n#### 42"]}) == [1.0]


def test_a_worked_solution_is_judged_by_its_box() -> None:
    golds = [r"It is $6 \cdot 7$, so \boxed{42}.", r"Thus $\boxed{\frac{1}{2}}$", r"\boxed{1} or \boxed{2}"]
    texts = [r"\boxed{42}", r"\boxed{1/2}", r"\boxed{2}"]
    assert agon_judge.math_reward(texts, solution=golds)[:2] == [1.0, 1.0]
    assert gold_text(golds[2]) == golds[2]


def test_an_answer_may_stand_behind_hashes_as_in_gsm8k() -> None:
    texts = ["6 x 7 = 42\n#### 42", "#### 42", "#### 41\n#### 42", "#### 42\n####  42", "<answer>41</answer>\n#### 42"]
    assert agon_judge.math_reward(texts, answer=["42"] * 5) == [1.0, 1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("hole", [float("nan"), None, {"a": 1}, b"42", ["42"], ""])
def test_a_gold_that_is_missing_gives_no_verdict(hole: Any) -> None:
    assert agon_judge.math_reward([r"\boxed{42}", "41"], answer=[hole, hole]) == [None, None]


def test_a_message_in_parts_is_read() -> None:
    parts = [{"role": "assistant", "content": [{"type": "text", "text": r"\boxed{"}, {"type": "text", "text": "42}"}]}]
    assert agon_judge.math_reward([parts], answer=["42"]) == [1.0]


def test_a_repeated_question_is_not_paid() -> None:
    prompts = ["Expand $(x+1)^2$."]
    assert agon_judge.math_reward([r"\boxed{(x+1)^2}"], prompts, answer=["x^2+2x+1"]) == [0.0]
    assert agon_judge.math_verify_reward([r"\boxed{(x+1)^2}"], prompts, answer=["x^2+2x+1"]) == [1.0]


def test_reasons_go_to_the_table_of_completions() -> None:
    logged: dict[str, Any] = {}
    agon_judge.math_reward(["42", "41"], answer=["42", "42"], log_extra=logged.__setitem__)
    assert logged == {"reason": ["correct", "wrong"]}


def test_a_data_set_without_golds_is_refused_with_advice() -> None:
    with pytest.raises(InputError) as caught:
        agon_judge.math_reward(["42"], level=[1])
    assert "answer" in caught.value.fix
    with pytest.raises(InputError):
        agon_judge.math_reward(["42", "41"], answer=["42"])


def test_verl_gets_a_score_and_can_tell_no_verdict_from_wrong() -> None:
    right = agon_judge.compute_score("any", RIGHT, "x+1")
    assert (right["score"], right["graded"], right["reason"]) == (1.0, 1.0, "correct")
    wrong = agon_judge.compute_score("any", "7", "x+1")
    assert (wrong["score"], wrong["graded"]) == (0.0, 1.0)
    none = agon_judge.compute_score("any", "7", r"\aleph_0")
    assert (none["score"], none["graded"], none["reason"]) == (0.0, 0.0, "bad_gold")


def test_verifiers_gets_a_float_or_an_error() -> None:
    assert asyncio.run(agon_judge.math_score(RIGHT, "x+1")) == 1.0
    assert asyncio.run(agon_judge.math_score("7", "x+1")) == 0.0
    with pytest.raises(agon_judge.NoVerdict):
        asyncio.run(agon_judge.math_score("7", r"\aleph_0"))


@needs_bwrap
def test_programs_are_paid_by_their_tests(monkeypatch: pytest.MonkeyPatch, sandbox: Any) -> None:
    from agon_judge import rewards
    from agon_judge.code.judge import CodeJudge

    judge = CodeJudge(sandbox)
    monkeypatch.setattr(rewards, "_code", lambda: judge)
    add = "<answer>a, b = map(int, input().split())\nprint(a + b)</answer>"
    tests = [[["1 2", "3"], ["40 2", "42"]], '[["1 2", "4"]]', [["1 2"]]]
    assert agon_judge.code_reward([add, add, add], tests=tests) == [1.0, 0.0, None]
    assert agon_judge.compute_score("code", add, '[["1 2", "3"]]')["score"] == 1.0
    assert asyncio.run(agon_judge.code_score(add, tests[0])) == 1.0


@needs_bwrap
def test_a_forked_child_judges_programs_in_a_sandbox_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from agon_judge import rewards
    from agon_judge.code import judge
    from agon_judge.sandbox import HostSandbox

    opened: list[HostSandbox] = []

    def sandbox(_: object) -> HostSandbox:
        opened.append(HostSandbox(workers=1, memory=HERE))  # type: ignore[arg-type]
        return opened[-1]

    def paid() -> list[float | None]:
        return agon_judge.code_reward([f"<answer>print(input())  # {os.getpid()}</answer>"], tests=[[["7", "7"]]])

    def child(end: Any) -> None:
        end.send((paid(), len(opened)))
        opened[-1].close()

    monkeypatch.setattr(judge, "checked_sandbox", sandbox)
    monkeypatch.setattr(rewards, "_opened", cache(rewards._opened.__wrapped__))
    assert paid() == [1.0]
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    process.start()
    try:
        assert ours.poll(60)
        assert ours.recv() == ([1.0], 2)
        assert paid() == [1.0]
    finally:
        process.kill()
        process.join()
        for each in opened:
            each.close()


def test_a_gold_as_a_program_prints_a_number_is_that_number() -> None:
    texts = [r"\boxed{0.00001}", r"\boxed{1\times10^{-5}}", r"\boxed{1e-05}", r"\boxed{e-5}"]
    assert agon_judge.math_reward(texts, answer=[1e-05] * 4) == [1.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "tests",
    ['{"inputs": ["1 2"], "outputs": ["3"]}', '{"cases": [["1 2", "3"]]}', ' [\n ["1 2", "3"]]'],
)
def test_tests_in_any_form_are_not_mathematics(monkeypatch: pytest.MonkeyPatch, tests: str) -> None:
    monkeypatch.setattr(agon_judge.rewards, "code_verdicts", lambda texts, given: [Verdict(Reason.CORRECT)])
    assert agon_judge.compute_score("code", "<answer>print(3)</answer>", tests)["score"] == 1.0
