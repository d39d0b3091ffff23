"""`agon view`: bouts of a run are shown by Agon, logs of other trainers by agon-lens."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agon.cli import main
from tests.report.helpers import make_match

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "grpo_log.jsonl"


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (["verl"], "rollouts.html"),
        (["verl/9.jsonl"], "9.html"),
        (["verl/9.jsonl", "verl/10.jsonl"], "rollouts.html"),
        (["verl", "--steps", "10"], "rollouts-step-10.html"),
        (["verl", "-o", "page.html", "--gold", "gts", "--scale", "none"], "page.html"),
        (["match"], "match/match.html"),
        (["match", "--steps", "1:"], "match/match-steps-1-.html"),
    ],
)
def test_a_page_is_written_where_it_says(
    words: list[str], written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_match(tmp_path)
    (tmp_path / "verl").mkdir()
    for step in (9, 10):
        rows = [{"input": "p", "output": "a", "gts": "2", "score": float(k), "step": step} for k in range(2)]
        (tmp_path / "verl" / f"{step}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    assert main(["view", *words]) == 0
    assert capsys.readouterr().out.startswith(f"{written}  (")
    assert (tmp_path / written).is_file()
    assert len(list((tmp_path / "verl").iterdir())) == 2, "others read the folder of a log"


def test_bouts_of_several_runs_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path), str(tmp_path)]) == 2
    assert "agon report RUN..." in capsys.readouterr().err


def test_bouts_are_not_mixed_with_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_match(tmp_path).path
    assert main(["view", str(EXAMPLE), str(run)]) == 2
    assert capsys.readouterr().err.splitlines()[1] == f"fix: agon view {run}"


def test_it_works_with_the_light_install(tmp_path: Path) -> None:
    heavy = ("torch", "transformers", "peft", "trl", "accelerate", "numpy", "scipy", "safetensors", "matplotlib")
    code = f"import sys\nfor name in {heavy}: sys.modules[name] = None\n"
    code += "from agon.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["view", str(EXAMPLE), "-o", str(tmp_path / "page.html")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").is_file()
