"""The run: what is written, published, kept. Real processes are killed in test_kills.py."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from agon.errors import RunError, VerifierError
from agon.plan.schedule import Schedule
from agon.rundir import RunDir, read_bouts
from agon.rundir.bouts import files_in
from agon.rundir.health import verifier_failing
from agon.rundir.pair import read_pair
from agon.training.loop import Training
from agon.training.machines import Machines
from agon.types import Direction, Policy, Request
from tests.game.helpers import RIGHT, WRONG
from tests.training.helpers.records import record, stream
from tests.training.helpers.runs import (
    Verifier,
    config,
    directory,
    half_right,
    problems,
    training,
)

# -- what a run leaves behind -----------------------------------------------------------------------------------------


def test_every_step_is_written_once_and_roles_rotate(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    records = run.steps.records()
    assert [record.step for record in records] == list(range(6))
    assert [record.drafter for record in records] == [Policy.A, Policy.B] * 3
    assert list(files_in(run.bouts)) == list(range(6))
    assert all(record.ledger for record in records)


def test_an_epoch_plays_every_problem_once_in_a_new_order(tmp_path: Path) -> None:
    settings = config(train__epochs=2)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    played = [row["problem_id"] for row in read_bouts(run).to_pylist() if row["index"] == 0]
    assert sorted(played[:12]) == sorted(played[12:]) == sorted(problem.id for problem in problems(12))
    assert played[:12] != played[12:]


def test_versions_are_named_after_step_and_weights_and_never_reused(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    sampler = one.machines.sampler
    names = sampler.published - {"a@000000-scripted", "b@000000-scripted"}  # type: ignore[attr-defined]
    assert len({name.split("-")[1] for name in names}) == len(names)
    last = {policy: f"-{one.machines.learner.hash(policy)[:8]}" for policy in Policy}
    assert all(sampler.latest[policy].endswith(last[policy]) for policy in Policy)  # type: ignore[attr-defined]


def test_a_policy_that_did_not_move_is_not_published_again(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings, answer=lambda request: RIGHT)
    assert one.go()
    assert one.state.versions == one.state.first, "every group was dead"
    assert len(list((run.path / "published").iterdir())) == 2


def test_published_folders_do_not_pile_up(tmp_path: Path) -> None:
    settings = config(train__epochs=3)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    assert one.go()
    kept = {path.name for path in (run.path / "published").iterdir()}
    assert {*one.state.versions.values(), *one.state.first.values()} <= kept
    assert len(kept) <= 6


def right_after_three_steps(one: Training) -> None:
    """Let evaluations answer right after step 3 and wrong at any other point."""

    def answer(request: Request) -> str:
        if request.sampling.temperature == one.config.train.temperature:
            return half_right(request)
        return RIGHT if one.machines.learner.step == 3 else WRONG

    one.machines.sampler.answer = answer  # type: ignore[attr-defined]


@pytest.mark.parametrize(("choice", "step"), [("last", 6), ("best", 3)])
def test_the_pair_is_the_last_or_the_best_on_dev_with_its_direction(tmp_path: Path, choice: str, step: int) -> None:
    settings = config(save__pair=choice)
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    right_after_three_steps(one)
    assert one.go()
    assert [(point.step, point.score) for point in run.points] == [(0, 0.0), (3, 1.0), (6, 0.0)]
    info = read_pair(run.path).info
    assert (info.step, info.dev_score) == (step, float(step == 3))
    assert info.direction is not None
    assert info.versions == run.saved_state(step).run.versions
    assert info.versions != run.saved_state(0).run.versions


def test_a_run_that_ended_puts_a_different_pair_into_its_folder_when_it_is_resumed(tmp_path: Path) -> None:
    settings = config()
    run = directory(tmp_path, "x", settings)
    one = training(run, settings)
    right_after_three_steps(one)
    assert one.go()
    assert read_pair(run.path).info.step == 6
    changed = config(save__pair="best")
    assert [change.key for change in run.change_config(changed)] == ["save.pair"]
    assert training(RunDir.open(run.path), changed).go()
    assert read_pair(run.path).info.step == 3


def test_held_out_is_asked_for_the_curve_alone_and_only_if_the_config_says_so(tmp_path: Path) -> None:
    held_out, dev = {"p16", "p17", "p18", "p19"}, {"p12", "p13", "p14", "p15"}
    for curve, expected in (("dev", dev), ("held_out", dev | held_out)):
        settings = config(eval__curve=curve)
        run = directory(tmp_path, curve, settings)
        one = training(run, settings)
        assert one.go()
        events = one.machines.sampler.events  # type: ignore[attr-defined]
        texts = [event.request.prompt.messages[0].text for event in events if event.kind == "start"]
        asked = {f"p{k}" for k in range(12, 20) for text in texts if f"question number {k}\n" in text}
        assert asked == expected
        names = [set(point.held_out or ()) for point in run.points]
        assert names == [{"a", "b", "ab", "ba"} if curve == "held_out" else set()] * 3


def test_held_out_chooses_no_direction(tmp_path: Path) -> None:
    settings = config(eval__curve="held_out")
    run = directory(tmp_path, "x", settings)

    def answer(request: Request) -> str:
        text = request.prompt.messages[0].text
        if request.sampling.temperature == settings.train.temperature or "attempt" not in text:
            return half_right(request)
        on_held_out = any(f"question number {k}\n" in text for k in range(16, 20))
        return RIGHT if (request.seat.policy is Policy.A) is on_held_out else WRONG

    assert training(run, settings, answer=answer).go()
    for point in run.points:
        assert point.direction is Direction.AB, "B answers right on dev, A on held-out"
        assert point.held_out is not None
        assert (point.held_out["ab"].pass_rate, point.held_out["ba"].pass_rate) == (0.0, 1.0)


def test_a_better_pair_replaces_the_deployed_one_and_an_equal_one_does_not(tmp_path: Path) -> None:
    settings = config(save__pair="best")
    run = directory(tmp_path, "x", settings)
    one = training(
        run, settings, answer=lambda request: RIGHT if one.machines.learner.step >= 3 else half_right(request)
    )
    assert one.go()
    first, second, last = run.points
    assert first.score < second.score == last.score == 1.0
    assert read_pair(run.path).info.step == 3


def test_without_evaluation_points_the_newest_pair_is_deployed(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    run = directory(tmp_path, "x", settings)
    assert training(run, settings).go()
    assert read_pair(run.path).info.step == 6
    assert not (run.path / "points.json").exists()


def test_the_schedule_evaluates_at_the_start_and_at_the_end() -> None:
    schedule = Schedule.of(config(eval__points=3), 31)
    assert schedule.total == 15, "a last batch that is not full is left out"
    assert sorted(schedule.points) == [0, 5, 10, 15]
    assert [done for done in range(1, 16) if schedule.saves(done)] == [2, 4, 5, 6, 8, 10, 12, 14, 15]


def test_the_last_step_is_saved_whatever_the_interval_and_max_steps_ends_a_run() -> None:
    schedule = Schedule.of(config(eval__points=0, save__every=4, train__max_steps=7), 31)
    assert (schedule.steps_per_epoch, schedule.total) == (15, 7)
    assert [done for done in range(1, 8) if schedule.saves(done)] == [4, 7]
    assert Schedule.of(config(train__max_steps=99), 31).total == 15


# -- sick runs --------------------------------------------------------------------------------------------------------


def test_a_failing_verifier_stops_the_run_and_saves_it(tmp_path: Path) -> None:
    settings = config(train__epochs=30, eval__points=0)
    run = directory(tmp_path, "x", settings)
    calls = count()
    one = training(run, settings, verify=Verifier(lambda completion: next(calls) % 10 == 0))
    with pytest.raises(RunError, match="verifier is failing") as caught:
        one.go()
    assert "--resume" in caught.value.fix
    assert len(run.steps.records()) == 100
    assert (run.checkpoints / "step_000100").is_dir()


def test_a_run_whose_verifier_was_repaired_goes_on(tmp_path: Path) -> None:
    settings = config(train__max_steps=102, train__epochs=17, eval__points=0)
    run = directory(tmp_path, "x", settings)
    calls = count()
    with pytest.raises(RunError, match="verifier is failing"):
        training(run, settings, verify=Verifier(lambda completion: next(calls) % 10 == 0)).go()
    assert len(run.steps.records()) == 100
    assert training(RunDir.open(run.path), settings).go()
    assert len(run.steps.records()) == 102


def test_an_evaluation_without_verdicts_chooses_nothing_and_is_made_again(tmp_path: Path) -> None:
    settings = config()
    run, whole = directory(tmp_path, "x", settings), directory(tmp_path, "whole", settings)
    one = training(run, settings, verify=Verifier(lambda completion: one.machines.learner.step == 6))
    said = "24 of 24 answers of this evaluation have no verdict, most often: KeyError: 'x'"
    with pytest.raises(VerifierError, match=said) as caught:
        one.go()
    assert f"`agon data check {run.path}/config.yaml`" in caught.value.fix
    assert [point.step for point in run.points] == [0, 3]
    assert training(RunDir.open(run.path), settings).go()
    assert training(whole, settings).go()
    assert run.points == whole.points
    assert read_pair(run.path).info == read_pair(whole.path).info


def test_a_step_without_verdicts_stops_the_run_before_it_learns_and_is_played_again(tmp_path: Path) -> None:
    settings = config(eval__points=0)
    run, whole = directory(tmp_path, "x", settings), directory(tmp_path, "whole", settings)
    calls = count()
    one = training(run, settings, verify=Verifier(lambda completion: 16 <= next(calls) < 24))
    with pytest.raises(VerifierError, match="failed on 8 of 8 rollouts of this step: KeyError: 'x'") as caught:
        one.go()
    assert f"`agon data check {run.path}/config.yaml`" in caught.value.fix
    assert caught.value.fix.endswith(f"agon train {run.path} --resume")
    assert [record.step for record in run.steps.records()] == [0, 1]
    assert training(run, settings).go()
    assert training(whole, settings).go()
    assert run.steps.records() == whole.steps.records()


def test_one_row_in_a_hundred_without_a_verdict_is_survived() -> None:
    one, two = (record(0, standalone=stream(0.4, n=50), competitive=stream(0.4, n=50), ungraded=n) for n in (1, 2))
    assert verifier_failing([one] * 100) is None
    assert verifier_failing([two] * 99) is None, "too early to tell"
    assert "200 of 10000" in str(verifier_failing([two] * 100))


@pytest.mark.parametrize(("engines", "warned"), [(0, False), (2, False), (3, True)])
def test_more_engines_than_problems_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: int, warned: bool
) -> None:
    monkeypatch.setattr(Machines, "engines", engines)
    settings = config(eval__points=0)
    one = training(directory(tmp_path, "x", settings), settings)
    assert one.go()
    assert any("problems per step" in note for note in one.display.notes) is warned  # type: ignore[attr-defined]
