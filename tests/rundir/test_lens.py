"""agon-lens reads the bouts that a run writes, and counts as the game does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agon.game.rules import Game
from agon.rundir import bouts
from agon.rundir.bouts import COLUMNS
from agon.rundir.log import BoutLog
from agon.types import Bout, Policy, Version
from agon_lens import Diagnoses, Diagnosis, LensError, diagnose
from agon_lens.files import is_agons, is_foreign
from agon_lens.formats import AGON
from tests.game import helpers as world
from tests.report.helpers import BOUTS, HOSTILE, make_match, make_study, play_bouts


def test_bouts_are_known_by_columns_that_they_have() -> None:
    assert COLUMNS.keys() > AGON


def played(folder: Path, game: Game, steps: int = 6) -> Diagnoses:
    folder.mkdir(exist_ok=True)
    for step in range(steps):
        bouts.write(folder / "bouts", step, world.run(world.problems(8), step, game)[0].bouts, "an arm")
    return diagnose(folder)


def kinds(found: Diagnosis) -> dict[str, str]:
    return {term.name.removeprefix("challenge_reward_"): term.kind for term in found.terms}


def test_a_run_directory_gives_both_streams(tmp_path: Path) -> None:
    standalone, competitive = played(tmp_path, Game(group_size=8))
    assert (standalone.name, competitive.name) == ("standalone", "competitive")
    assert standalone.rows == competitive.rows == 6 * 8 * 8
    assert standalone.advantages_agree
    assert competitive.advantages_agree
    assert kinds(competitive) == {"correctness": "signal", "format": "signal", "conversion": "signal"}


def test_a_rival_that_does_not_learn_is_named_and_left_out(tmp_path: Path) -> None:
    elsewhere = Version("a@000000-5f3c9a1e")

    def guest(bout: Bout) -> Bout:
        sides = {side: getattr(bout, side) for side in ("draft", "challenge")}
        return replace(
            bout,
            **{
                side: replace(row, completion=replace(row.completion, version=elsewhere))
                for side, row in sides.items()
                if row.policy is Policy.B
            },
        )

    for step in range(6):
        drawn = world.run(world.problems(8), step, Game(group_size=8))[0].bouts
        bouts.write(tmp_path / "bouts", step, list(map(guest, drawn)), "an arm")
    standalone, competitive = diagnose(tmp_path)
    assert standalone.name == "standalone of A against a@000000-5f3c9a1e"
    assert competitive.name == "competitive of A against a@000000-5f3c9a1e"
    assert standalone.rows == competitive.rows == 3 * 8 * 8, "A drafts in half of the steps, challenges in half"


def test_the_shared_opponent_is_inert_only_while_format_is_constant(tmp_path: Path) -> None:
    shared = Game(group_size=8, show_draft=False, pairing="shared", format_weight=0.0)
    _, competitive = played(tmp_path / "constant", shared)
    assert kinds(competitive)["conversion"] == "rescaling"
    _, varying = played(tmp_path / "varying", Game(group_size=8, show_draft=False, pairing="shared"))
    assert kinds(varying)["conversion"] == "signal"


def test_the_margin_stack_echoes_correctness(tmp_path: Path) -> None:
    _, competitive = played(tmp_path, Game(group_size=8, stack="margin"))
    assert kinds(competitive)["margin"] == "echo"


def test_a_run_with_one_stage_gives_one_stream(tmp_path: Path) -> None:
    (standalone,) = played(tmp_path, Game(group_size=4, opponent="none", stack="coop"))
    assert standalone.group_sizes == (8, 8)


def test_runs_bouts_and_results_are_told_from_logs_of_others(tmp_path: Path) -> None:
    run, study = make_match(tmp_path).path, make_study(tmp_path / "study", {"agon": 1})[0]
    BoutLog(tmp_path / "ab.jsonl").append(play_bouts(0, BOUTS, HOSTILE), "ab")
    result = study / "evals" / "held_out" / "cascade.json"
    ours = [run, run / "bouts", next((run / "bouts").glob("*.parquet")), tmp_path / "ab.jsonl", result]
    assert all(map(is_agons, ours))
    assert not any(map(is_foreign, ours))


def test_bouts_are_diagnosed_from_json_too_and_an_evaluation_is_refused(tmp_path: Path) -> None:
    standalone, competitive = played(tmp_path, Game(group_size=8))
    rows = bouts.read(sorted((tmp_path / "bouts").iterdir())).to_pylist()
    log = tmp_path / "bouts.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert diagnose(log) == [standalone, competitive]
    BoutLog(tmp_path / "ab.jsonl").append(play_bouts(0, BOUTS, HOSTILE), "ab")
    with pytest.raises(LensError, match=r"they lack .*step"):
        diagnose(tmp_path / "ab.jsonl")
