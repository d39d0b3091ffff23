"""Files that the real packages wrote are read without an option (`writers/` has the scripts that made them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon_lens import Columns, LensError, diagnose, read, view
from agon_lens.logs import read_rollouts
from lens_pages import unpack

WRITTEN = Path(__file__).parent / "written"


@pytest.mark.parametrize(
    ("folder", "groups", "rows", "terms"),
    [
        ("trl", 6, 24, ("digits", "brief")),
        ("verifiers", 8, 32, ("reward.exact", "reward.short")),
        ("verifiers_eval", 2, 4, ("reward.exact", "reward.conversion_bonus")),
        ("verifiers_v0", 3, 12, ("reward",)),
        ("inspect", 3, 6, ("score.match", "score.includes")),
        ("lm_eval", 12, 12, ("score.exact_match",)),
        ("verl", 4, 16, ("score",)),
        ("wandb", 4, 16, ("correct_reward",)),
    ],
)
def test_a_file_of_a_real_writer_is_read(
    folder: str, groups: int, rows: int, terms: tuple[str, ...], tmp_path: Path
) -> None:
    (log,) = read(WRITTEN / folder)
    found = diagnose(log)
    assert (found.groups, found.rows, log.terms) == (groups, rows, terms)
    assert found.unexplained_groups == 0
    texts = read_rollouts([WRITTEN / folder]).texts
    assert all(group.prompt for group in texts)
    assert all(text for group in texts for text in group.completions)
    page = view(WRITTEN / folder, tmp_path / "page.html")
    assert len(unpack(page.read_text(), "index")["groups"]["size"]) == groups


@pytest.mark.parametrize("folder", ["trl", "verifiers", "wandb"])
def test_advantages_that_a_trainer_logged_are_those_of_the_totals(folder: str) -> None:
    (log,) = read(WRITTEN / folder)
    assert diagnose(log).advantages_agree


def test_seats_of_an_episode_are_groups_of_their_own_within_a_step() -> None:
    (log,) = read(WRITTEN / "verifiers")
    assert log.steps == (0, 0, 0, 0, 1, 1, 1, 1)
    drafts, challenges = log.groups[0], log.groups[1]
    assert [row.terms for row in drafts] == [(1.0, 0.1), (0.0, 0.1), (0.0, 0.0), (0.0, 0.1)]
    assert {row.terms for row in challenges} == {(1.0, 0.1)}


def test_a_trace_that_failed_is_ungraded_and_not_wrong() -> None:
    (log,) = read(WRITTEN / "verifiers")
    assert [row.total is None for row in log.groups[-1]] == [True, False, False, False]


def test_rollouts_of_several_turns_are_shown_as_turns() -> None:
    for folder in ("verifiers", "verifiers_v0"):
        first = read_rollouts([WRITTEN / folder]).texts[0].completions[0]
        assert isinstance(first, list)
        assert [role for role, _ in first] == ["assistant", "tool", "assistant"]
        assert "add" in first[0][1]
        assert first[1][1] == "4"
    traces = read_rollouts([WRITTEN / "verifiers"]).texts[0]
    assert traces.completions[0][-1][1] == "<think>\nI used the tool.\n</think>\n4"
    assert traces.completions[1] == "7"
    assert (traces.prompt, traces.gold) == ("What is 2 + 2?", "4")


def test_metrics_without_weights_are_not_taken_for_rewards_and_can_be_named() -> None:
    (log,) = read(WRITTEN / "verifiers_v0")
    assert any("--weights" in note for note in log.notes)
    named = Columns(terms=("says", "short"), weights={"short": 0.2})
    (weighted,) = read(WRITTEN / "verifiers_v0", named)
    assert [row.total for row in weighted.rows()] == [pytest.approx(row.total) for row in log.rows()]


def test_letters_of_inspect_are_numbers_and_verdicts() -> None:
    (log,) = read(WRITTEN / "inspect")
    assert {(row.terms[0], row.correct) for row in log.rows()} == {(1.0, True), (0.0, False)}
    assert read_rollouts([WRITTEN / "inspect"]).texts[0].prompt == "[system]\nBe brief.\n\n[user]\nWhat is 1 + 1?"


def test_filters_of_lm_eval_are_groups_of_their_own() -> None:
    (log,) = read(WRITTEN / "lm_eval")
    assert sum(row.total or 0.0 for row in log.rows()) == 1.0, "2 + 2, by the second filter"


def test_logs_of_inspect_as_json_are_read_too(tmp_path: Path) -> None:
    from agon_lens.lines import LogLines

    samples = [{"id": n, "epoch": 1, "input": "q", "scores": {"match": {"value": "C"}}} for n in range(3)]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"version": 2, "eval": {"task": "t"}, "samples": samples}, indent=1))
    assert [line["score.match"] for line in LogLines([path])] == [1.0, 1.0, 1.0]


def test_an_archive_that_is_damaged_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    path.write_bytes((WRITTEN / "inspect" / "sums.eval").read_bytes()[:4000])
    with pytest.raises(LensError, match="archive of inspect") as refused:
        read(path)
    assert refused.value.fix


def test_a_table_in_csv_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,prompt,completion,accuracy\n1,p,a,1\n1,p,b,0\n1,p,c,\n")
    (log,) = read(path)
    assert [row.total for row in log.rows()] == [1.0, 0.0, None]
    path.write_text("step,prompt\n1,p,q\n")
    with pytest.raises(LensError, match="row 2"):
        read(path)
