"""`agon diagnose` is the command of agon-lens: it reads runs of ours, and its errors are answered as ours are."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.cli import main
from tests.report.helpers import make_match

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["diagnose", "examples/grpo_log.jsonl"]) == 0
    page = (ROOT / "docs" / "diagnose.md").read_text()
    assert capsys.readouterr().out in page, "paste the output of `agon-lens diagnose examples/grpo_log.jsonl`"


def test_a_run_is_diagnosed_stream_by_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(make_match(tmp_path).path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("standalone: 2 groups of 8, 16 rows")
    assert "\n\ncompetitive: 2 groups of 8, 16 rows" in told
    assert "challenge_reward_conversion" in told


def test_an_error_of_the_lens_is_answered_in_two_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(ROOT / "examples" / "grpo_log.jsonl")
    assert main(["diagnose", log, "--html", str(tmp_path / "none" / "x.html")]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert fix.startswith("fix: ")
