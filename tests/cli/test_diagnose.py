"""`agon diagnose`: what it prints, and that its page shows the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agon.cli.diagnose import add_arguments, run
from agon.cli.parser import Parser

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "grpo_log.jsonl"


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    parser = Parser(prog="agon diagnose")
    add_arguments(parser)
    assert run(parser.parse([str(EXAMPLE), *words])) == 0
    return capsys.readouterr().out


def test_the_page_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "diagnose.md").read_text()
    assert command(capsys) in page, "docs/diagnose.md: paste the output of `agon diagnose examples/grpo_log.jsonl`"


def test_json_holds_everything_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = json.loads(command(capsys, "--json", "--terms", "accuracy_reward,format_reward"))
    assert [term["name"] for term in found["terms"]] == ["accuracy_reward", "format_reward"]
    assert found["terms"][1]["inert"] is True
    assert found["dead_groups"] == sum(found["dead"].values()) > 0
    assert found["findings"]
