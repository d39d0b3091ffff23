"""Problems of environments are judged by their own scorers, in processes that can be killed.

reasoning-gym is asked here; evidence/verifiers_rewards.py does the same with real verifiers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("reasoning_gym")

from agon.config import Source
from agon.data import load
from agon.data.check import accepted_template, gold_check, gold_completion
from agon.data.generated import BROKEN
from agon.errors import DataError
from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, Reason
from agon.verify import load_verifier
from agon.verify.environment import EnvironmentVerifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with load_verifier("environment", workers=2) as opened:
        yield opened


def answered(answer: str) -> Completion:
    return Completion(f"<think>\nso\n</think>\n<answer>{answer}</answer>", BASE, 0, 0)


@pytest.mark.parametrize("task", ["chain_sum", "jugs", "sudoku", "tower_of_hanoi"])
def test_golds_are_paid_of_tasks_that_mathematics_cannot_judge(task: str, verifier: Verifier) -> None:
    problems = load(Source(preset=f"reasoning-gym:{task}", take=3))
    check = gold_check(problems, verifier)
    assert (check.accepted, check.of) == (3, 3), check.rejected


def test_a_different_form_is_paid_where_the_scorer_allows_it(verifier: Verifier) -> None:
    (problem,) = load(Source(preset="reasoning-gym:knights_knaves", take=1))
    swapped = ", and ".join(reversed(problem.answer.rstrip(".").split(", and ")))
    (verdict,) = verifier.verify_many([(problem, answered(swapped))])
    assert swapped != problem.answer
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


def test_verdicts_follow_the_scores_of_the_framework_itself(verifier: Verifier) -> None:
    import reasoning_gym

    problems = load(Source(env="reasoning-gym:time_intervals", take=3))
    texts = ["0", "1 day", "00:00", "no", *(problem.answer for problem in problems)]
    pairs = [(problem, text) for problem in problems for text in texts]
    drawn = [problem.meta["draw"] for problem, _ in pairs]
    dataset = reasoning_gym.create_dataset("time_intervals", size=drawn[0]["size"], seed=drawn[0]["seed"])
    scores = [dataset.score_answer(text, dataset[draw["index"]]) for draw, (_, text) in zip(drawn, pairs, strict=True)]
    verdicts = verifier.verify_many([(problem, answered(text)) for problem, text in pairs])
    assert [verdict.correct for verdict in verdicts] == [score >= 1.0 for score in scores]
    partial = [f"partial credit {score:.3g}" if 0 < score < 1 else "" for score in scores]
    assert [verdict.detail for verdict in verdicts] == partial
    assert any(partial)
    paid = [verdict.correct + verdict.extra for verdict in verdicts]
    assert paid == pytest.approx(scores), "a score that is not 0 or 1 is a further term"
    assert {verdict.extra for verdict, score in zip(verdicts, scores, strict=True) if score in (0, 1)} == {0.0}
    with load_verifier("environment", workers=1, right=0.01) as lenient:
        verdicts = lenient.verify_many([(problem, answered(text)) for problem, text in pairs])
    assert [verdict.correct for verdict in verdicts] == [score >= 0.01 for score in scores]
    assert [verdict.correct + verdict.extra for verdict in verdicts] == pytest.approx(scores)


def test_an_environment_is_given_the_answer_block_alone_as_the_template_writes_it(verifier: Verifier) -> None:
    (plain,) = load(Source(env="reasoning-gym:chain_sum", take=1))
    (written,) = load(Source(env="reasoning-gym:chain_sum", template="the sum is {}", take=1))
    around = Completion(f"<think>\nso\n</think>\nIt is 1.\n<answer>{plain.answer}</answer>", BASE, 0, 0)
    none = Completion(f"<think>\nso\n</think>\nThe answer is {plain.answer}", BASE, 0, 0)
    verdicts = verifier.verify_many([(plain, around), (plain, none), (written, around)])
    assert [verdict.reason for verdict in verdicts] == [Reason.CORRECT, Reason.NO_ANSWER, Reason.WRONG]


def test_a_scorer_that_hangs_gives_no_verdict_and_the_next_answer_is_judged() -> None:
    import reasoning_gym

    dataset = reasoning_gym.create_dataset("countdown", size=1, seed=0)
    draw = {"task": "countdown", "options": {}, "seed": 0, "size": 1, "index": 0}
    problem = Problem("x", dataset[0]["question"].strip(), dataset[0]["answer"], {"draw": draw})
    with EnvironmentVerifier(workers=1, deadline=2) as opened:
        hangs, right = opened.verify_many([(problem, answered("9**9**9**9")), (problem, gold_completion(problem))])
    assert (hangs.reason, hangs.graded) == (Reason.INFRA, False)
    assert "in time" in hangs.detail
    assert right.correct


def test_golds_that_need_a_different_form_are_answered_with_the_template(verifier: Verifier) -> None:
    problems = load(Source(env="reasoning-gym:chain_sum", template="it is {}", take=2))
    assert not gold_check(problems, verifier).passed
    assert accepted_template(problems, verifier) == "{}"


def test_a_file_cannot_name_an_environment(tmp_path: Path) -> None:
    row = {"question": "1 + 1?", "answer": "2", "draw": {"env": "verifiers:os", "options": {}, "size": 1, "index": 0}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match="environments"):
        load(Source(path=str(tmp_path / "rows.jsonl"), columns={"draw": "draw"}))


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


@pytest.mark.parametrize(
    ("task", "answer", "reason"),
    [
        ("coin_flip", "0", "pays 1.0 for the answer 0"),
        ("puzzle24", "4*6*1*1", "any four numbers that make 24"),
        ("complex_arithmetic", "nan", "pays 1.0 for the answer nan"),
        ("game_of_life_halting", "no idea", "pays 1.0 for any text"),
        ("game_of_life", "{}", "raises"),
        ("prime_factorization", "no idea", "raises"),
        ("boxnet", "0", "raises"),
    ],
)
def test_a_scorer_is_refused_for_what_it_does(task: str, answer: str, reason: str) -> None:
    import reasoning_gym

    assert reason in BROKEN[task]
    dataset = reasoning_gym.create_dataset(task, size=4, seed=0)
    for entry in (dataset[index] for index in range(4) if dataset[index]["answer"] != "1"):
        if reason == "raises":
            with pytest.raises((KeyError, TypeError, ValueError)):
                dataset.score_answer(answer, entry)
        else:
            assert dataset.score_answer(answer, entry) == 1.0, "mended: take the task out of BROKEN"


@pytest.mark.parametrize("task", sorted(task for task, reason in BROKEN.items() if "runs" in reason))
def test_a_scorer_is_refused_for_running_code(task: str, tmp_path: Path) -> None:
    import reasoning_gym

    dataset = reasoning_gym.create_dataset(task, size=1, seed=0)
    dataset.score_answer(f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch()", dataset[0])
    assert (tmp_path / "ran").exists(), "mended: take the task out of BROKEN"


def test_a_task_without_golds_is_refused() -> None:
    with pytest.raises(DataError, match="no gold"):
        load(Source(preset="reasoning-gym:rubiks_cube", take=2))


@pytest.mark.slow
def test_the_tasks_refused_for_their_seed_are_those_that_differ_between_processes() -> None:
    code = (
        "import json, sys, reasoning_gym as gym; "
        "drawn = {task: gym.create_dataset(task, size=5, seed=1) for task in sys.argv[1:]}; "
        "shown = {task: [(made[i]['question'], made[i]['answer']) for i in range(5)] for task, made in drawn.items()}; "
        "print(json.dumps(shown))"
    )
    refused = sorted(task for task, reason in BROKEN.items() if reason.startswith("one seed"))
    draws = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code, *refused, "chain_sum"],
                env={"PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True,
            ).stdout
        )
        for seed in (1, 2, 3)
    ]  # fmt: skip
    differ = sorted(task for task in draws[0] if any(draw[task] != draws[0][task] for draw in draws))
    assert differ == refused, "one was mended: take it out of BROKEN"


def test_it_passes_its_own_test(verifier: Verifier) -> None:
    assert verifier.self_test() == []
