"""reasoning-gym's problems are judged by their own scorers, in processes that can be killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("reasoning_gym")

from agon.config import Source
from agon.data import load
from agon.data.check import gold_check, gold_completion
from agon.data.generated import BROKEN
from agon.errors import DataError
from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, Reason
from agon.verify import load_verifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with load_verifier("reasoning-gym", workers=2) as opened:
        yield opened


def answered(answer: str) -> Completion:
    return Completion(f"<think>\nso\n</think>\n<answer>{answer}</answer>", BASE, 0, 0)


@pytest.mark.parametrize("task", ["chain_sum", "n_queens", "sudoku", "tower_of_hanoi", "countdown", "word_ladder"])
def test_golds_are_paid_of_tasks_that_mathematics_cannot_judge(task: str, verifier: Verifier) -> None:
    problems = load(Source(preset=f"reasoning-gym:{task}", take=3))
    check = gold_check(problems, verifier)
    assert (check.accepted, check.of) == (3, 3), check.rejected


def test_a_different_solution_is_paid_where_a_task_has_several(verifier: Verifier) -> None:
    (problem,) = load(Source(preset="reasoning-gym:countdown", take=1))
    (verdict,) = verifier.verify_many([(problem, answered(f"({problem.answer})"))])
    assert verdict.correct


def test_wrong_is_wrong_partial_credit_included_and_no_answer_is_said_so(verifier: Verifier) -> None:
    (problem,) = load(Source(preset="reasoning-gym:time_intervals", take=1))
    texts = ["not a time", "0"]
    wrong, partial = verifier.verify_many([(problem, answered(text)) for text in texts])
    assert {wrong.reason, partial.reason} == {Reason.WRONG}
    assert "partial credit" in partial.detail
    (none,) = verifier.verify_many([(problem, Completion("<think>\nno", BASE, 0, 0))])
    assert none.reason is Reason.NO_ANSWER


def test_a_scorer_that_raises_gives_no_verdict(verifier: Verifier) -> None:
    draw = {"task": "prime_factorization", "options": {}, "seed": 0, "size": 1, "index": 0}
    import reasoning_gym

    entry = reasoning_gym.create_dataset("prime_factorization", size=1, seed=0)[0]
    problem = Problem("x", entry["question"].strip(), entry["answer"], {"draw": draw})
    right, raises = verifier.verify_many([(problem, gold_completion(problem)), (problem, answered("no idea"))])
    assert right.correct
    assert (raises.reason, raises.graded) == (Reason.INFRA, False)
    assert "ValueError" in raises.detail


def test_a_problem_of_elsewhere_or_of_another_version_has_no_verdict(verifier: Verifier) -> None:
    (problem,) = load(Source(preset="reasoning-gym:chain_sum", take=1))
    changed = replace(problem, question="What is 1 + 1?")
    strange = replace(problem, meta={})
    verdicts = verifier.verify_many([(each, answered("2")) for each in (changed, strange)])
    assert not any(verdict.graded for verdict in verdicts)


@pytest.mark.parametrize("task", sorted(BROKEN))
def test_a_broken_task_is_refused_by_name_with_the_reason(task: str) -> None:
    with pytest.raises(DataError) as caught:
        load(Source(preset=f"reasoning-gym:{task}", take=2))
    assert BROKEN[task] in caught.value.message


def test_a_task_without_golds_is_refused() -> None:
    with pytest.raises(DataError, match="no gold"):
        load(Source(preset="reasoning-gym:rubiks_cube", take=2))


@pytest.mark.slow
def test_tasks_refused_for_their_seed_do_differ_between_processes() -> None:
    code = "import reasoning_gym as g; print(g.create_dataset('ransom_note', size=3, seed=1)[0]['question'])"
    drawn = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(drawn) > 1, "reasoning-gym was mended: take the task out of BROKEN"


def test_it_passes_its_own_test(verifier: Verifier) -> None:
    assert verifier.self_test() == []
