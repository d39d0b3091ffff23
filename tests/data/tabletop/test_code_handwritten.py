"""Handwritten problems: references accepted and wrong programs rejected by the real sandbox (a sample of them here)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from agon.data.tabletop.code_handwritten import handwritten, problems
from agon.types import Problem
from agon_judge.code.judge import CodeJudge
from agon_judge.code.suspicion import suspicions
from agon_judge.sandbox import HostSandbox, cgroups
from agon_judge.verdict import Verdict

SAMPLE = handwritten()[::7]


@pytest.fixture(scope="module")
def judge() -> Iterator[CodeJudge]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed; scripts/setup says how to install it")
    memory = "cgroup" if cgroups.places() else "per_process"
    with CodeJudge(HostSandbox(workers=2, memory=memory), threads=4) as made:
        yield made


def graded(judge: CodeJudge, rows: list[tuple[Problem, str]]) -> list[Verdict]:
    return judge.judge_many([(program, problem.tests) for problem, program in rows])


def test_there_are_at_least_sixty_each_with_tests_and_three_wrong_programs() -> None:
    assert len(handwritten()) >= 60
    assert len({entry.problem.meta["name"] for entry in handwritten()}) == len(handwritten())
    for entry in handwritten():
        tests = entry.problem.tests
        assert tests is not None
        assert tests.public >= 1
        assert len(tests.cases) - tests.public >= 4
        assert len(tests.cases) == len({given for given, _ in tests.cases}), entry.problem.meta["name"]
        assert len({entry.problem.answer, *entry.wrong.values()}) == 4


def test_a_question_shows_its_public_tests_and_no_hidden_one() -> None:
    for entry in handwritten():
        question, tests = entry.problem.question, entry.problem.tests
        assert tests is not None
        shown = [f"Input:\n{given}Output:\n{expected}" in question for given, expected in tests.cases]
        assert shown == [place < tests.public for place in range(len(tests.cases))]


def test_references_are_accepted(judge: CodeJudge) -> None:
    verdicts = graded(judge, [(entry.problem, entry.problem.answer) for entry in SAMPLE])
    assert all(one.correct for one in verdicts), verdicts


def test_wrong_programs_are_rejected_for_what_they_print(judge: CodeJudge) -> None:
    rows = [(entry.problem, program) for entry in SAMPLE for program in entry.wrong.values()]
    verdicts = graded(judge, rows)
    assert {one.reason.value for one in verdicts} <= {"wrong_output", "runtime_error"}, verdicts
    assert not any(one.correct for one in verdicts)


def test_the_seed_decides_the_order() -> None:
    assert problems(10, seed=0) == problems(64, seed=0)[:10]
    assert problems(10, seed=1) != problems(10, seed=0)


def test_no_reference_is_suspicious() -> None:
    every = [entry.problem for entry in handwritten()]
    assert [problem.meta["name"] for problem in every if suspicions(problem.answer, problem.tests)] == []
