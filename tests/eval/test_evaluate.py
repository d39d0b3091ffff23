"""An evaluation goes on where it was stopped: no trial lost, none repeated, no draft drawn twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.errors import RunDirError
from agon.eval.derived import derive
from agon.eval.evaluate import throw_away
from agon.eval.records import Records
from agon.eval.result import read_result
from tests.eval.scenes import evaluation, hold
from tests.game.world import by_seed


class Killed(BaseException):
    pass


def lines(folder: Path) -> dict[str, list[dict]]:
    return {path.stem: [json.loads(line) for line in path.open()] for path in sorted(folder.glob("*.jsonl"))}


def outcomes(found: dict[str, list[dict]]) -> dict:
    """Every trial with all its texts, without seconds."""
    bare = json.loads(json.dumps(found), object_hook=lambda o: {k: v for k, v in o.items() if k != "seconds"})
    return {name: sorted(rows, key=lambda r: (r["problem"], r["sample"])) for name, rows in bare.items()}


def test_a_whole_evaluation_draws_each_draft_once(tmp_path: Path) -> None:
    made = evaluation(tmp_path, samples=2)
    assert hold(made) == 4 * 2 * 4, "two drafts and two challenges per problem and sample"
    assert {name: len(rows) for name, rows in lines(tmp_path).items()} == dict.fromkeys(("a", "ab", "b", "ba"), 8)
    assert not made.missing()


@pytest.mark.parametrize("stop", [1, 5, 9, 14])
def test_a_killed_evaluation_goes_on_without_losing_or_repeating_a_trial(tmp_path: Path, stop: int) -> None:
    hold(evaluation(tmp_path / "whole"))
    asked = 0

    def dies(request):
        nonlocal asked
        asked += 1
        if asked > stop:
            raise Killed
        return by_seed(request)

    with pytest.raises(BaseException):  # noqa: B017 - however it dies, what is on disk counts
        hold(evaluation(tmp_path / "killed"), dies)
    again = evaluation(tmp_path / "killed")
    before = sum(map(len, lines(tmp_path / "killed").values()))
    missing = len(again.missing())
    assert before + missing == 16
    hold(again)
    assert outcomes(lines(tmp_path / "killed")) == outcomes(lines(tmp_path / "whole"))


def test_a_torn_last_line_is_no_line(tmp_path: Path) -> None:
    hold(evaluation(tmp_path, "a"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    again = evaluation(tmp_path, "a")
    assert len(again.missing()) == 1
    assert hold(again) == 1
    assert len(Records(path).read()) == 4


def test_damage_before_the_end_is_told(tmp_path: Path) -> None:
    hold(evaluation(tmp_path, "a"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(RunDirError, match="line 1 is damaged"):
        evaluation(tmp_path, "a")


def test_a_draft_on_disk_serves_a_later_cascade(tmp_path: Path) -> None:
    hold(evaluation(tmp_path, "a"))
    assert hold(evaluation(tmp_path, "ab")) == 4, "the challenges alone"
    assert hold(evaluation(tmp_path, "ab", samples=2)) == 4 * 2, "the second sample alone"


def test_drafts_of_other_settings_are_not_used(tmp_path: Path) -> None:
    hold(evaluation(tmp_path, "a"))
    assert hold(evaluation(tmp_path, "ab", seed=1)) == 8


def test_records_of_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    hold(evaluation(tmp_path, "a"))
    with pytest.raises(RunDirError, match=r"seed \(0 -> 1\)") as refused:
        evaluation(tmp_path, "a", seed=1)
    assert "--fresh" in refused.value.fix
    throw_away(tmp_path, ["a"])
    assert len(evaluation(tmp_path, "a", seed=1).missing()) == 4


def test_an_unfinished_result_is_not_read(tmp_path: Path) -> None:
    made = evaluation(tmp_path, "a")
    with pytest.raises(RunDirError, match="0 of 4 trials"):
        read_result(tmp_path / "a.json")
    hold(made)
    made.finish()
    assert read_result(tmp_path / "a.json").outcomes.keys() == {f"p{k}" for k in range(4)}


def test_moa_scores_both_agents_and_shares_the_zero_shot_draft(tmp_path: Path) -> None:
    made = evaluation(tmp_path, "base", "moa")
    assert hold(made) == 4 * 4, "two drafts and two finals; the zero-shot answer is the first draft"
    rows = lines(tmp_path)["moa"]
    assert sorted((row["problem"], row["sample"]) for row in rows) == [(f"p{k}", i) for k in range(4) for i in (0, 1)]
    for row in rows:
        (twin,) = [r for r in rows if r["problem"] == row["problem"] and r["sample"] != row["sample"]]
        assert (row["peek"], row["other_peek"]) == (twin["other_peek"], twin["peek"])
    result = made.finish()["moa"]
    assert (result["problems"], result["trials"], result["interval"]) == (4, 8, "clustered by problem")
    first = {row["problem"]: row["final"]["text"] for row in lines(tmp_path)["base"]}
    assert {row["problem"]: row["draft"]["text"] for row in rows if row["sample"] == 0} == first


class Pointed:
    """As much of a target as `derive` asks for."""

    pair = game = None


def test_the_papers_choice_has_its_own_name_and_says_what_it_is_worth(tmp_path: Path) -> None:
    made = evaluation(tmp_path, n=40)
    hold(made)
    results, _, _ = derive(made, made.finish(), Pointed(), "post-hoc", False)
    about = results["cascade-post-hoc"]["direction"]
    assert results["cascade-post-hoc"]["pass"]["value"] == max(about["pass"].values())
    assert 0 < about["optimism"] < 0.2
    assert json.loads((tmp_path / "cascade-post-hoc.json").read_text())["system"] == "cascade-post-hoc"
    assert not (tmp_path / "cascade.json").exists()
