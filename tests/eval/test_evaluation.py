"""An evaluation resumes where it was stopped: no bout lost, none repeated, no draft drawn twice."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path

import pytest

from agon.errors import RunDirError, first_of
from agon.eval.evaluation import delete
from agon.eval.results import post_hoc_cascade
from agon.eval.target import Target, _source
from agon.rundir.log import BoutLog
from agon.rundir.results import read_result
from agon.types import Completion, Direction, Problem, Reason, Verdict
from tests.eval.helpers import draw, evaluation, evaluator
from tests.game.helpers import by_seed, read_tag
from tests.plan.helpers import recipe


class Killed(BaseException):
    pass


def lines(folder: Path) -> dict[str, list[dict]]:
    return {path.stem: [json.loads(line) for line in path.open()] for path in sorted(folder.glob("*.jsonl"))}


def outcomes(rows_of: dict[str, list[dict]]) -> dict:
    """Every bout with all its texts, without seconds."""
    bare = {
        name: [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in rows]
        for name, rows in rows_of.items()
    }
    return {name: sorted(rows, key=lambda row: (row["problem_id"], row["index"])) for name, rows in bare.items()}


def test_a_whole_evaluation_draws_each_draft_once(tmp_path: Path) -> None:
    made = evaluation(tmp_path, samples=2)
    assert draw(made) == 4 * 2 * 4, "two drafts and two challenges per problem and sample"
    assert {name: len(rows) for name, rows in lines(tmp_path).items()} == dict.fromkeys(("a", "ab", "b", "ba"), 8)
    assert not made.missing()


@pytest.mark.parametrize("stop", [1, 5, 9, 14])
def test_a_killed_evaluation_resumes_without_losing_or_repeating_a_bout(tmp_path: Path, stop: int) -> None:
    draw(evaluation(tmp_path / "whole"))
    asked = 0

    def dies(request):
        nonlocal asked
        asked += 1
        if asked > stop:
            raise Killed
        return by_seed(request)

    with pytest.raises(BaseException):  # noqa: B017 - however it dies, what is on disk counts
        draw(evaluation(tmp_path / "killed"), dies)
    again = evaluation(tmp_path / "killed")
    before = sum(map(len, lines(tmp_path / "killed").values()))
    missing = len(again.missing())
    assert before + missing == 16
    draw(again)
    assert outcomes(lines(tmp_path / "killed")) == outcomes(lines(tmp_path / "whole"))


def test_a_verifier_that_fails_again_and_again_stops_it_and_costs_no_bout(tmp_path: Path) -> None:
    graded = 0

    async def gone(problem: Problem, completion: Completion) -> Verdict:
        nonlocal graded
        graded += 1
        return await read_tag(problem, completion) if graded <= 10 else Verdict(False, True, Reason.INFRA, "no boxes")

    made, used = evaluation(tmp_path / "x", "a", n=60), evaluator()
    used.verify = gone
    with pytest.raises(ExceptionGroup) as stopped:
        asyncio.run(made.draw(used, lambda done, of: None))
    assert "failed on 20 answers in a row: no boxes" in first_of(stopped.value).message  # type: ignore[attr-defined]
    assert len(lines(tmp_path / "x")["a"]) == 10
    assert draw(evaluation(tmp_path / "x", "a", n=60)) == 50
    draw(evaluation(tmp_path / "whole", "a", n=60))
    assert outcomes(lines(tmp_path / "x")) == outcomes(lines(tmp_path / "whole"))


def test_a_failure_now_and_then_is_counted(tmp_path: Path) -> None:
    calls = count()

    async def shaky(problem: Problem, completion: Completion) -> Verdict:
        fails = next(calls) % 7 == 0
        return Verdict(False, True, Reason.INFRA) if fails else await read_tag(problem, completion)

    made, used = evaluation(tmp_path, "a", n=60), evaluator()
    used.verify = shaky
    asyncio.run(made.draw(used, lambda done, of: None))
    assert made.finish()["a"].measured.ungraded == 9


def test_a_torn_last_line_is_no_line(tmp_path: Path) -> None:
    draw(evaluation(tmp_path, "a"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    again = evaluation(tmp_path, "a")
    assert len(again.missing()) == 1
    assert draw(again) == 1
    assert len(BoutLog(path).read()) == 4


def test_damage_before_the_end_is_reported(tmp_path: Path) -> None:
    draw(evaluation(tmp_path, "a"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(RunDirError, match="line 1 is damaged"):
        evaluation(tmp_path, "a")


def test_a_draft_on_disk_serves_a_later_cascade(tmp_path: Path) -> None:
    draw(evaluation(tmp_path, "a"))
    assert draw(evaluation(tmp_path, "ab")) == 4, "the challenges alone"
    assert draw(evaluation(tmp_path, "ab", samples=2)) == 4 * 2, "the second sample alone"


def test_drafts_of_other_settings_are_not_used(tmp_path: Path) -> None:
    draw(evaluation(tmp_path, "a"))
    assert draw(evaluation(tmp_path, "ab", seed=1)) == 8


def test_records_of_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    draw(evaluation(tmp_path, "a"))
    with pytest.raises(RunDirError, match=r"seed \(0 -> 1\)") as refused:
        evaluation(tmp_path, "a", seed=1)
    assert "--fresh" in refused.value.fix
    delete(tmp_path, ["a"])
    assert len(evaluation(tmp_path, "a", seed=1).missing()) == 4


def test_an_unfinished_result_is_not_read(tmp_path: Path) -> None:
    made = evaluation(tmp_path, "a")
    with pytest.raises(RunDirError, match="0 of 4 trials"):
        read_result(tmp_path / "a.json")
    draw(made)
    made.finish()
    assert read_result(tmp_path / "a.json").measured.outcomes.keys() == {f"p{k}" for k in range(4)}


def test_moa_scores_both_agents_and_shares_the_zero_shot_draft(tmp_path: Path) -> None:
    made = evaluation(tmp_path, "base", "moa")
    assert draw(made) == 4 * 4, "two drafts and two finals; the zero-shot answer is the first draft"
    rows = lines(tmp_path)["moa"]
    assert sorted((row["problem_id"], row["index"]) for row in rows) == [(f"p{k}", i) for k in range(4) for i in (0, 1)]
    for row in rows:
        (twin,) = [r for r in rows if r["problem_id"] == row["problem_id"] and r["index"] != row["index"]]
        assert (row["peek"], row["other_peek"]) == (twin["other_peek"], twin["peek"])
    measured = made.finish()["moa"].measured
    assert (measured.problems, measured.trials, measured.interval) == (4, 8, "clustered by problem")
    first = {row["problem_id"]: row["draft_text"] for row in lines(tmp_path)["base"]}
    assert {row["problem_id"]: row["draft_text"] for row in rows if row["index"] == 0} == first


def test_the_papers_choice_has_its_own_name_and_says_what_it_is_worth(tmp_path: Path) -> None:
    made = evaluation(tmp_path, n=40)
    draw(made)
    results = made.finish()
    chosen = made.write(post_hoc_cascade(results["ab"], results["ba"]))
    assert chosen.direction is not None
    rates = chosen.direction.pass_rates
    assert chosen.measured.pass_rate is not None
    assert chosen.measured.pass_rate.value == max(rate for rate in rates.values() if rate is not None)
    assert rates.keys() == set(Direction)
    assert chosen.direction.optimism is not None
    assert 0 < chosen.direction.optimism < 0.2
    assert read_result(tmp_path / "cascade-post-hoc.json") == chosen


def test_a_preset_is_read_from_a_local_file(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"problem": "1+1?", "answer": "2", "unique_id": "u"}\n')
    found = _source(Target("run", recipe(), tmp_path), f"math-500={tmp_path / 'test.jsonl'}", None)
    assert (found.preset, found.path) == ("math-500", str(tmp_path / "test.jsonl"))
