"""Further reward functions are added to the reward with their weights; right and wrong stay the verifier's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import agon
from agon.cli import main
from agon.game import reward
from agon.rundir import bouts
from agon.types import Completion, Problem, Reason, Verdict, Version
from agon.verify.custom import CustomVerifier
from agon.verify.terms import with_terms
from tests.architecture.tree import ROOT

PROBLEM = Problem("p", "What is 1 + 1?", "2", {"level": 3})
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"


def right(problem: Problem, completion: Completion) -> bool:
    return problem.answer in completion.text


def half(problem: Problem, completion: Completion) -> float:
    return 0.5


def brevity(completions: list[str], **columns: Any) -> list[float]:
    return [-len(completions[0]) / 10]


async def level(completions: list[str], level: list[int], **columns: Any) -> list[float]:
    return [float(level[0])]


def judged(text: str, *terms: Any, weights: tuple[float, ...] = (), judge: Any = right, least: float = 1.0) -> Verdict:
    with with_terms(CustomVerifier(judge, right=least), terms, weights) as verifier:
        completion = Completion(text, Version("base"), 1, 1, "stop")
        verdict = asyncio.run(verifier(PROBLEM, completion))
        assert verifier.verify_many([(PROBLEM, completion)]) == [verdict]
        return verdict


def test_terms_are_added_with_their_weights() -> None:
    verdict = judged("so 2", brevity, level, weights=(0.5, 2.0))
    assert verdict.correct
    assert verdict.extra == pytest.approx(-0.2 + 6.0)
    assert judged("no", brevity).extra == pytest.approx(-0.2)
    assert judged("no").extra == 0.0


def test_every_stack_pays_them_and_the_bonus_stays() -> None:
    mine, rival = judged("2", level), judged("no", level)
    assert [stack(mine, rival, 0.5).total for stack in reward.STACKS.values()] == [
        stack(judged("2"), judged("no"), 0.5).total + 3.0 for stack in reward.STACKS.values()
    ]
    assert reward.adv(mine, rival, 0.5).conversion == 1.0


def test_right_is_a_threshold() -> None:
    assert not judged("2", judge=half).correct
    assert judged("2", judge=half, least=0.5).correct


@pytest.mark.parametrize("result", [None, float("nan")])
def test_a_term_that_does_not_apply_pays_nothing_as_in_trl(result: Any) -> None:
    def of_another_task(completions: list[str], **columns: Any) -> Any:
        return [result]

    verdict = judged("2", of_another_task, level)
    assert (verdict.correct, verdict.extra) == (True, 3.0)
    with with_terms(CustomVerifier(right), [of_another_task]) as verifier:
        verifier.verify_many([(PROBLEM, Completion("2", Version("base"), 1, 1))])
        assert verifier.counters["terms_not_applied"] == 1


@pytest.mark.parametrize("result", [float("inf"), "1", [1.0, 2.0]])
def test_a_term_that_cannot_say_masks_the_row(result: Any) -> None:
    def broken(completions: list[str], **columns: Any) -> Any:
        return [result]

    verdict = judged("2", broken)
    assert verdict.reason is Reason.INFRA
    assert not verdict.graded


def test_a_term_that_raises_masks_the_row_and_says_which() -> None:
    def broken(problem: Problem, completion: Completion) -> float:
        raise KeyError("level")

    assert "broken raised KeyError: 'level' (test_terms.py:" in judged("2", broken).detail


def test_a_run_pays_terms_from_a_file_and_keeps_what_they_paid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rewards.py").write_text("def ten(completions, **columns):\n    return [10.0] * len(completions)\n")
    small = (
        *("train.max_steps=1", "train.problems_per_step=1", "game.group_size=2", "train.max_completion_tokens=8"),
        *("eval={points: 0, max_completion_tokens: 8}", "sampler={engine: hf}", "data.train.take=4"),
        *(
            f"reward.terms=[{tmp_path}/rewards.py:ten]",
            "reward.weights=[0.1]",
            "data.dev.take=2",
            "data.held_out.take=2",
        ),
    )
    run = agon.train(CONFIG, *small, out=tmp_path, show="nothing")
    (file,) = bouts.files_in(run.path / "bouts").values()
    table = bouts.read([file])
    assert {*table["draft_reward_extra"].to_pylist(), *table["challenge_reward_extra"].to_pylist()} == {1.0}
    for row in table.to_pylist():
        assert row["draft_reward"] == row["draft_reward_correctness"] + row["draft_reward_format"] + 1.0
    assert main(["diagnose", str(run.path)]) == 0
    assert "reward_extra" in capsys.readouterr().out

    older = tmp_path / "step_000000.parquet"
    pq.write_table(table.drop_columns(["draft_reward_extra", "challenge_reward_extra"]), older)
    again = bouts.read([older])
    assert again.column_names == table.column_names
    assert set(again["draft_reward_extra"].to_pylist()) == {None}
