"""What a person, a log file and another program see of a run."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from agon.rundir import RunDir
from agon.rundir.health import Symptom
from agon.training import display as module
from agon.training.display import Board, JsonLines, Lines, open_display, spark, step_line
from agon.types import Policy
from tests.rundir.helpers import runs
from tests.training.helpers.records import POINT, counts, record, stream, timing


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return runs.new_run(tmp_path)


def board(width: int = 100, encoding: str = "utf-8") -> tuple[Board, io.TextIOWrapper]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    return Board(375, "agon-tiny-s0", Console(file=file, force_terminal=True, width=width, color_system=None)), file


def shown(file: io.TextIOWrapper) -> str:
    file.flush()
    buffer = file.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode(file.encoding)


def test_a_line_says_who_did_what_and_what_came_of_it() -> None:
    assert step_line(record(11), 375) == (
        "step 12/375  B drafts 0.40  A challenges 0.40  reward 1.20/1.20  live groups 4/8 4/8  tokens 1,234/1,234"
        "  truncated 5%/5%  kept 20/24  converted 9/40  echoed 11/40  empty peeks 1/64"
    )


def test_a_line_and_the_board_say_where_the_bonus_bites() -> None:
    assert step_line(record(11, bonus_groups=3), 375).endswith("empty peeks 1/64  bonus acts 3/8")
    panel, file = board()
    panel.step(record(11, bonus_groups=3), timing(11))
    panel.close()
    assert "bonus acts       3 of 8     38%  groups whose advantages it changes" in shown(file)


def test_a_line_and_the_board_say_how_old_samples_were() -> None:
    assert step_line(record(11, staleness=2), 375).endswith("empty peeks 1/64  staleness 2")
    panel, file = board()
    panel.step(record(11), timing(11))
    assert "staleness" not in shown(file)
    panel.step(record(12, staleness=2), timing(12))
    panel.close()
    assert "staleness        2           updates since they were drawn" in shown(file)


def test_plain_lines_go_to_stderr_one_per_step(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(12)
    for step in range(3):
        lines.step(record(step), timing(step))
    lines.point(POINT)
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 4
    assert err.splitlines()[2].endswith("6,712 tokens/s  2 min left")
    assert err.splitlines()[3] == "dev at step 6: A alone 0.20  A then B -"


def test_a_point_on_held_out_is_shown_beside_dev(capsys: pytest.CaptureFixture[str]) -> None:
    Lines(12).point(POINT.model_copy(update={"held_out": {"ab": counts(10, 4), "a": counts(10, 3)}}))
    assert capsys.readouterr().err == "dev at step 6: A alone 0.20  A then B -  held-out: A alone 0.30  A then B 0.40\n"


def test_json_lines_on_stdout_are_records_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    lines = JsonLines(12)
    lines.note("resumed at step 3")
    lines.step(record(0, update={Policy.A: {"loss": float("nan")}}), timing(0))
    lines.point(POINT)
    out, err = capsys.readouterr()
    first, second = map(json.loads, out.splitlines())
    assert first["step"]["exchange"]["conversions"] == 9
    assert first["step"]["update"]["a"]["loss"] is None
    assert first["timing"]["tokens_per_second"] == 6712.4
    assert second == {"point": POINT.model_dump(mode="json")}
    assert err == "resumed at step 3\n"


def test_the_board_shows_all_that_matters() -> None:
    view, file = board()
    view.point(POINT)
    for step in range(12):
        view.step(record(step, 0.2 + step / 50), timing(step))
    view.note("Every group of drafts [was] dead")
    view.close()
    last = shown(file).rsplit("╭─", 1)[1]
    for words in ("step 12 of 375", "3%", "1 h 1 min left", "6,712 tokens/s", "play 6.0 s", "dev at step 6"):
        assert words in last
    table = [line.split()[1:-1] for line in last.splitlines()[2:4]]
    assert table[0] == ["A", "challenges", "0.42", "1.24", "4/8", "1,234", "5%", "90%"]
    assert table[1][:2] == ["B", "drafts"]
    assert "9 of 40    22%  B wrong, A right" in last
    assert "drafts     ▁▂▂▃▄▄▅▅▆▇▇█" in last
    assert "Every group of drafts [was] dead" in shown(file)


def test_the_board_explains_its_words_once_and_keeps_findings_while_they_last() -> None:
    view, file = board()
    symptom = Symptom("truncated", "80% of the completions are truncated.", "Raise train.max_completion_tokens.")
    for step in range(2):
        view.step(record(step), timing(step))
        view.health([symptom])
    assert shown(file).count("live groups: those with two different rewards") == 1
    assert (
        "! 80% of the completions are truncated. Raise train.max_completion_tokens." in shown(file).rsplit("╭─", 1)[1]
    )
    view.health([])
    view.close()
    assert "!" not in shown(file).rsplit("╭─", 1)[1]


def test_the_bars_of_a_resumed_run_go_on_from_the_steps_before() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    console = Console(file=file, force_terminal=True, width=100, color_system=None)
    before = [record(step, 0.1 * step) for step in range(5)]
    view = Board(375, "x", console, past=lambda: before)
    view.step(record(4, 0.9), timing(4))
    view.close()
    assert re.search(r"drafts     ▁▂▃▃█ ", shown(file).rsplit("╭─", 1)[1])


def test_the_last_panel_shows_the_last_point() -> None:
    view, file = board()
    view.step(record(374), timing(374))
    view.point(POINT.model_copy(update={"step": 375, "systems": {"a": counts(2, 1)}}))
    view.close()
    last = shown(file).rsplit("╭─", 1)[1]
    assert "dev at step 375: A alone 0.50" in last
    assert "step 375 of 375" in last


@pytest.mark.parametrize("width", [20, 60, 250])
def test_the_board_fits_any_terminal(width: int) -> None:
    view, file = board(width)
    view.step(record(0), timing(0))
    view.close()
    assert "pass" in shown(file) or width == 20


def test_nothing_wraps_on_eighty_columns() -> None:
    view, file = board(80)
    names = ("a", "ab", "b", "ba", "first-ab", "first-ba")
    view.point(POINT.model_copy(update={"step": 300, "systems": {name: counts(4, 1) for name in names}}))
    for step in range(60):
        view.step(record(step), timing(step))
    view.close()
    last = shown(file).rsplit("╭─", 1)[1]
    assert re.search(r"│ dev at step 300: A alone 0.25  B alone 0.25  A then B 0.25  B then A 0.25 +│", last)
    assert re.search(r"│ reward        challenges .{40} +│", last)


def test_a_terminal_without_unicode_gets_ascii() -> None:
    view, file = board(encoding="ascii")
    view.step(record(0), timing(0))
    view.step(record(1, 0.9), timing(1))
    view.close()
    assert shown(file).isascii()


def test_one_stage_and_unknown_rates_are_shown() -> None:
    unknown = stream(0.4, pass_rate=None, reward_mean=None, tokens_mean=None)
    alone = record(0, competitive=None, exchange=None, standalone=unknown)
    view, file = board()
    view.step(alone, timing(0).model_copy(update={"tokens_per_second": None}))
    view.close()
    assert "challenges" not in shown(file)
    assert "conversions" not in shown(file)
    assert step_line(alone, 5).startswith("step 1/5  A drafts -  reward -  live groups 4/8  tokens -")


def test_the_terminal_is_given_back_after_a_board() -> None:
    view, file = board()
    view.step(record(0), timing(0))
    view.close()
    assert shown(file).rindex("\x1b[?25h") > shown(file).rindex("\x1b[?25l")


def test_a_board_that_never_played_leaves_the_terminal_alone() -> None:
    view, file = board()
    view.close()
    assert "\x1b" not in shown(file)


@pytest.mark.parametrize(
    ("json", "tty", "term", "kind"),
    [
        (False, True, "xterm", Board),
        (False, True, "dumb", Lines),
        (False, False, "xterm", Lines),
        (True, True, "xterm", JsonLines),
    ],
)
def test_the_view_fits_where_it_is_shown(
    json: bool, tty: bool, term: str, kind: type, run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    monkeypatch.setenv("TERM", term)
    assert type(open_display(10, json=json, trackers=[], run=run).display) is kind  # type: ignore[attr-defined]


def test_no_color_is_honoured() -> None:
    code = (
        "from agon.training.display import Board; from rich.console import Console;"
        "from tests.training.helpers.records import *;"
        "board = Board(9, 'x', Console(stderr=True, force_terminal=True));"
        "board.step(record(0), timing(0)); board.close()"
    )
    coloured, plain = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TERM": "xterm-256color", **extra},
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(module.__file__).parents[3],
        ).stderr
        for extra in ({}, {"NO_COLOR": "1"})
    )
    assert "\x1b[30;46m" in coloured
    assert not re.search(r"\x1b\[[\d;]*[34][0-7]m", plain)


def test_a_spark_runs_from_the_least_to_the_greatest() -> None:
    assert spark([0.0, 0.5, None, 1.0]) == "▁▅ █"
    assert spark([0.3, 0.3]) == "▁▁"
    assert spark([]) == ""
    assert spark([None, None]) == "  "


@given(st.lists(st.none() | st.floats(-1e300, 1e300), max_size=60))
@example([0.0, 5e-324])
def test_a_spark_has_one_bar_per_value(values: list[float | None]) -> None:
    assert len(spark(values)) == len(values)
