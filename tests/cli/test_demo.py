"""`agon demo`: its table and its sentence follow from the files of its runs; the commands it names exist."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from agon.cli import demo, find, main
from agon.matrix import demo as arms
from agon.report.demo_table import DemoResults, bonus_note, conclusion, demo_table, sign
from agon.rundir.results import EvalResult, Interval, RunFacts, TokenCounts
from tests.report.helpers import result


def made(system: str, rate: float) -> EvalResult:
    """A system that solves the first problems, at some rate."""
    outcomes = {f"p{k:03d}": [k < round(100 * rate)] for k in range(100)}
    two = system not in ("a", "b", "base")
    facts = RunFacts(name="demo", seed=0, arm="agon", step=1)
    one = result(facts, "agon:halves", system, outcomes, [k % 2 == 0 for k in range(100)] if two else None)
    total = TokenCounts(generated=100.0 * (66 if two else 33), prefilled=1.0)
    tokens = one.measured.tokens.model_copy(update={"draft": total if two else None, "total": total})
    return one.model_copy(update={"measures": one.measured.model_copy(update={"tokens": tokens})})


def columns(rival: float, itself: float, grpo: float, apart: float) -> DemoResults:
    def pair(reading: float, alone: float) -> dict[str, EvalResult]:
        names = {"a": alone, "b": alone, "self-cascade": alone, "self-cascade-b": alone, "ab": reading, "ba": reading}
        return {name: made(name, rate) for name, rate in names.items()}

    base = {"base": made("base", 0.1)}
    grpo_ = {"a": made("a", grpo), "self-cascade": made("self-cascade", grpo)}
    held = pair(rival, itself) | base
    return DemoResults(
        {"before": pair(0.3, 0.2) | base, "agon": held, "plain pair": pair(apart, itself), "GRPO": grpo_}
    )


@pytest.mark.parametrize(
    ("numbers", "reading", "against"),
    [
        ((0.5, 0.3, 0.3, 0.4), "gain from reading each other", "and beat GRPO"),
        ((0.3, 0.3, 0.3, 0.4), "are not shown to gain", "and are not shown to differ from GRPO"),
        ((0.2, 0.4, 0.5, 0.4), "lose by reading each other", "and fall behind GRPO"),
    ],
)
def test_the_conclusion_follows_from_the_numbers(
    numbers: tuple[float, float, float, float], reading: str, against: str
) -> None:
    told = conclusion(columns(*numbers))
    assert reading in told
    assert against in told
    assert f"they answer {100 * numbers[0]:.1f}% right after reading their rival" in told
    assert f"which was 30.0% before any training ({100 * (numbers[0] - 0.3):+.1f} points" in told
    assert f"answers {100 * numbers[2]:.1f}% in as many passes" in told
    assert told.endswith("answers 40.0%.")
    assert told.count(". ") == 0


def test_the_table_has_passes_and_tokens_beside_the_rates() -> None:
    lines = {line.split("  ")[0]: line.split() for line in demo_table(columns(0.5, 0.3, 0.3, 0.4)).splitlines()}
    assert lines["A alone"][-2:] == ["1", "33"]
    assert lines["B reads A's draft"][-2:] == ["2", "66"]
    assert lines["base, taught neither half"][-6:-2] == ["10%", "-", "-", "-"]
    assert lines["right answers"][2:6] == ["before", "agon", "plain", "pair"]


def test_a_difference_needs_an_interval_on_one_side() -> None:
    assert [sign(Interval(0.1, *limits)) for limits in ((0.01, 0.2), (-0.1, 0.2), (None, None))] == [1, 0, 0]
    assert sign(Interval(-0.1, -0.2, -0.01)) == -1


def test_every_arm_draws_as_many_rollouts_per_problem() -> None:
    from agon.config.arms import resolve
    from agon.game.rules import Game

    games = [Game(**resolve(arm.name)) for arm in arms.ARMS]
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

    monkeypatch.setattr(arms, "ARMS", (arms.DemoArm("no-such-arm", "", after=("a",)),))
    with pytest.raises(RunError, match="no-such-arm of the demo failed") as failed:
        arms.run_arms(tmp_path / "demo", 0, lambda line: None)
    assert "demo.log" in failed.value.fix


def test_the_progress_says_what_an_arm_does_and_how_much_is_left(tmp_path: Path) -> None:
    pair, root = arms.ARMS[0], tmp_path / "demo"
    assert pair.progress(root) == "loading"
    (root / "evals" / "held_out").mkdir(parents=True)
    (root / "steps.jsonl").write_text("{}\n")
    assert pair.progress(root) == "step 1/16"
    (root / "steps.jsonl").write_text("{}\n" * 16)
    (root / "evals" / "held_out" / "a.jsonl").write_text("{}\n" * 120)
    assert pair.progress(root) == "answer 120/1560"
    assert [arm.answers for arm in arms.ARMS] == [1560, 240, 720]


def test_the_line_of_progress_fits_a_terminal_and_is_erased(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    longest = "  ".join(f"{arm.name} answer {arm.answers}/{arm.answers}" for arm in arms.ARMS)
    with demo.Ticker() as ticker:
        ticker(longest)
        ticker("x" * 200)
    drawn = capsys.readouterr().err.split(demo.ERASE)
    assert drawn[1].endswith(longest)
    assert len(drawn[2]) == 79
    assert drawn[3] == ""


@pytest.mark.parametrize(("share", "acts"), [(0.023, False), (0.4, True)])
def test_the_demo_says_where_the_bonus_does_not_act(share: float, acts: bool) -> None:
    told = bonus_note(share)
    assert ("hardly acts" not in told) == acts
    assert ("2.3% of the groups" in told) != acts
