"""`agon diagnose`: what it prints, and that its page shows the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agon.cli import main
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


LIGHT = """
import sys
for name in ("torch", "numpy", "scipy", "matplotlib", "transformers"):
    sys.modules[name] = None
from agon.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_the_page_has_plots_and_works_in_a_light_install(tmp_path: Path) -> None:
    words = ["diagnose", str(EXAMPLE), "--html", str(tmp_path / "page.html")]
    done = subprocess.run([sys.executable, "-c", LIGHT, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "12 of 40 groups (30%) are dead" in page
    assert page.count("<figure>") == 3
    assert "<script" not in page


def test_a_page_that_cannot_be_written_is_answered_in_two_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(EXAMPLE), "--html", str(tmp_path / "none" / "x.html")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
