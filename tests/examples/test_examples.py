"""Every example runs as it is, from a shell, without a main guard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(name: str, *words: str) -> str:
    quiet = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, f"examples/{name}.py", *words]
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_game_is_played_without_a_model_in_a_few_lines() -> None:
    printed = run("play_without_a_model")
    assert len(printed.splitlines()) == 8
    assert "paid 3.5  (conversion: the rival was wrong)" in printed


def test_an_audit_finds_what_a_reward_pays_for_and_passes_the_mended_one() -> None:
    sloppy, mended = run("audit_reward").split("mended: ")
    assert sloppy.startswith("sloppy: failed")
    assert "pays several answers at once" in sloppy
    assert re.fullmatch(r"passed after \d+ calls\n", mended)


def test_an_environment_scores_answers_and_leaks_are_counted() -> None:
    pytest.importorskip("reasoning_gym")
    *rollouts, leaks = run("environment_problems").splitlines()
    assert len(rollouts) == 8
    assert {line.split()[1] for line in rollouts} <= {"correct", "wrong", "no_answer"}
    assert re.fullmatch(r"[1-4] of 4 peeks state the answer", leaks)


def test_the_docs_diagnose_a_log_from_python() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "diagnose.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("grpo_log.jsonl: 40 groups of 8, 320 rows")
    assert "\necho {'term': 'boxed_reward'" in done.stdout


@pytest.mark.slow
def test_the_method_on_one_page_plays_learns_and_publishes() -> None:
    lines = [line for line in run("minimal_loop").splitlines() if line.startswith("step")]
    assert [line.split(" mean")[0].split() for line in lines[:4]] == [
        ["step", "0:", "A", "standalone"],
        ["step", "0:", "B", "competitive"],
        ["step", "1:", "B", "standalone"],
        ["step", "1:", "A", "competitive"],
    ]


@pytest.mark.slow
def test_fifteen_lines_train_evaluate_and_compare_a_pair_once_each(tmp_path: Path) -> None:
    printed = run("train_evaluate_compare", str(tmp_path))
    assert printed.count("agon cascade against grpo a:") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone", "pair"]
    code = [
        line
        for line in (ROOT / "examples" / "train_evaluate_compare.py").read_text().split('"""')[2].splitlines()
        if line
    ]
    assert len(code) <= 15


def test_the_docs_show_the_game_without_a_model() -> None:
    _, _, code = (ROOT / "examples" / "play_without_a_model.py").read_text().partition('"""\n\n')
    assert f"```python\n{code}```" in (ROOT / "docs" / "algorithm.md").read_text()
