"""`agon demo`: its table and its sentence follow from the files of its runs; the commands it names exist."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from agon.cli import demo, find, main
from agon.matrix import demo as arms
from agon.report.demo_table import ALONE, GRPO, READING, DemoResults, conclusion, demo_table, sign
from agon.rundir.records import Point, SystemCounts
from agon.rundir.results import EvalResult, Interval, RunFacts, TokenCounts
from tests.report.helpers import result


def made(system: str, rate: float) -> EvalResult:
    """A system that solves the first problems, at some rate."""
    outcomes = {f"p{k:03d}": [k < round(100 * rate)] for k in range(100)}
    two = system in ("ab", "ba")
    facts = RunFacts(name="demo", seed=0, arm="agon", step=1)
    one = result(facts, "agon:tiny", system, outcomes, [k % 2 == 0 for k in range(100)] if two else None)
    total = TokenCounts(generated=100.0 * (66 if two else 33), prefilled=1.0)
    tokens = one.measured.tokens.model_copy(update={"draft": total if two else None, "total": total})
    return one.model_copy(update={"measures": one.measured.model_copy(update={"tokens": tokens})})


def measured(grpo: float, reading: float) -> DemoResults:
    """Everything is 20% right before training, and so is a policy of the pair alone after it."""

    def rates(grpo: float, reading: float) -> dict[str, dict[str, EvalResult]]:
        pair = {"a": 0.2, "b": 0.2, "ab": reading, "ba": reading}
        return {"grpo": {"a": made("a", grpo)}, "pair": {name: made(name, rate) for name, rate in pair.items()}}

    return DemoResults(rates(0.2, 0.2), rates(grpo, reading))


@pytest.mark.parametrize(
    ("grpo", "reading", "told"),
    [
        (0.5, 0.8, ("GRPO rose (+30.0 points", "the pair rose (+60.0 points", "is ahead of GRPO", "(+30.0 points")),
        (0.5, 0.2, ("GRPO rose", "the pair is not shown to have moved (+0.0", "is behind GRPO", "(-30.0 points")),
        (0.1, 0.1, ("GRPO fell (-10.0 points", "the pair fell", "is not shown to differ from GRPO", "(+0.0 points")),
    ],
)
def test_the_conclusion_follows_from_the_numbers(grpo: float, reading: float, told: tuple[str, ...]) -> None:
    said = conclusion(measured(grpo, reading))
    assert all(words in said for words in told)
    assert said.count(". ") == 0


def test_the_table_has_passes_and_tokens_beside_the_rates() -> None:
    _, *lines = demo_table(measured(0.5, 0.8)).splitlines()
    for line, way, numbers in zip(
        lines, (GRPO, ALONE, READING), ("20.0% 50.0%", "20.0% 20.0%", "20.0% 80.0%"), strict=True
    ):
        assert line.startswith(way.title)
        assert " ".join(line.removeprefix(way.title).split()[:2]) == numbers
        assert line.split()[-2:] == (["2", "66"] if way is READING else ["1", "33"])


def test_a_difference_needs_an_interval_on_one_side() -> None:
    assert [sign(Interval(0.1, *limits)) for limits in ((0.01, 0.2), (-0.1, 0.2), (None, None))] == [1, 0, 0]
    assert sign(Interval(-0.1, -0.2, -0.01)) == -1


def test_every_arm_draws_as_many_rollouts_per_problem() -> None:
    from agon.config.arms import resolve
    from agon.game.rules import Game

    games = [Game(**resolve(arm.arm)) for arm in arms.ARMS]
    drawn = {game.drafts_per_problem + (game.group_size if game.two_stages else 0) for game in games}
    assert len(drawn) == 1


def test_every_command_named_next_exists(tmp_path: Path) -> None:
    words = [shlex.split(line, comments=True) for line in demo.commands(tmp_path / "my runs" / "demo").splitlines()]
    assert all(word[0] == "agon" and find(word[1]) for word in words)


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert demo._free(tmp_path / "demo").name == "demo"
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo-2-grpo").mkdir()
    assert demo._free(tmp_path / "demo").name == "demo-3"


def test_a_second_demo_says_that_it_trains_again_under_a_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(arms, "run_arms", lambda path, seed, show: path.mkdir())
    monkeypatch.setattr(demo, "closing", lambda path: [f"trained {path}"])
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "exists" not in capsys.readouterr().out
    assert main(["demo", "--out", str(tmp_path)]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == f"{tmp_path}/demo already exists: training again, as {tmp_path}/demo-2"
    assert last == f"trained {tmp_path}/demo-2"


def test_without_the_training_packages_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "NEEDED", ("a_package_that_nobody_has",))
    assert main(["demo"]) == 2
    assert "pip install" in capsys.readouterr().err


def test_an_arm_that_fails_is_named_with_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agon.errors import RunError

    monkeypatch.setattr(arms, "ARMS", (arms.DemoArm("no-such-arm", "Broken", "", systems=("a",)),))
    with pytest.raises(RunError, match="Broken of the demo failed: error: ") as failed:
        arms.run_arms(tmp_path / "demo", 0, lambda methods: None)
    assert "demo.log" in failed.value.fix


def point(step: int, **correct: int) -> Point:
    counts = SystemCounts(n=10, correct=0, ungraded=0, well_formed=10, tokens_final=1, tokens_all=1, exchange=None)
    systems = {name: counts.model_copy(update={"correct": right}) for name, right in correct.items()}
    return Point(step=step, direction=None, score=0.0, systems=systems)


def test_progress_is_read_from_the_files_of_a_run(tmp_path: Path) -> None:
    pair, root = arms.ARMS[1], tmp_path / "demo"
    assert pair.progress(root) == arms.Progress("pair", 0, (), 0)
    (root / "evals" / "held_out").mkdir(parents=True)
    (root / "steps.jsonl").write_text("{}\n{}\n")
    (root / "points.json").write_text(f"[{point(0, ab=1, ba=2).model_dump_json()}]")
    (root / "evals" / "held_out" / "a.jsonl").write_text("{}\n" * 120)
    assert pair.progress(root) == arms.Progress("pair", 2, (point(0, ab=1, ba=2),), 120)


def test_a_curve_is_redrawn_in_place_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    points = [point(step, ab=right, ba=right) for step, right in ((0, 0), (10, 5), (20, 10))]
    curves = arms.Curves()
    curves([arms.Progress("GRPO", 1, points[:1], 0), arms.Progress("pair", 20, points, 0)])
    first = capsys.readouterr().err
    assert [len(line) <= 60 for line in first.splitlines()] == [True] * 3
    assert "▁▅█" in first
    assert arms.UP not in first
    curves([arms.Progress("GRPO", 2, points[:1], 0), arms.Progress("pair", 20, points, 0)])
    assert capsys.readouterr().err.startswith(arms.UP * 3)


def test_without_a_terminal_every_point_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    curves = arms.Curves()
    for points in ([point(0, a=2)], [point(0, a=2)], [point(0, a=2), point(10, a=5)]):
        curves([arms.Progress("GRPO", 10, points, 0)])
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("GRPO after 0 steps: 20.0% right on dev")
    assert second.endswith("GRPO after 10 steps: 50.0% right on dev")
