"""`agon-judge` works without agon and torch: good input, bad input, and what is printed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import agon_judge
from agon_judge.cli import main
from agon_judge.sandbox import bwrap
from judge_helpers import HERE

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
ALONE = """
import sys
for name in ("agon", "agon_lens", "torch", "numpy", "transformers", "pydantic", "httpx2"):
    sys.modules[name] = None
from agon_judge.cli import main
sys.exit(main(sys.argv[1:]))
"""
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def alone(*words: str) -> subprocess.CompletedProcess[str]:
    """The command where neither agon nor anything heavy can be imported."""
    command = [sys.executable, "-c", ALONE, *words]
    return subprocess.run(command, capture_output=True, text=True)


def test_it_judges_mathematics_alone() -> None:
    done = alone("math", "--gold", "x+1", "--answer", "1+x")
    assert (done.returncode, done.stdout, done.stderr) == (0, "right      correct\n", "")


PROGRAM = """
import agon_judge
from agon_judge.sandbox import HostSandbox, run
room = HostSandbox(workers=1, memory={memory!r})
print(run("print(sum(map(int, input().split())))", [("1 2", "3")], sandbox=room).reason)
room.close()
"""


@needs_bwrap
def test_it_judges_programs_alone() -> None:
    blocked = ALONE.partition("from agon_judge")[0]
    command = [sys.executable, "-c", blocked + PROGRAM.format(memory=HERE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "correct\n", "")


def test_importing_it_is_light() -> None:
    code = "import sys, agon_judge, agon_judge.cli, agon_judge.cli.sandbox; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"agon", "torch", "sympy", "math_verify", "pydantic", "httpx2", "asyncio"} & set(done.stdout.split())


@pytest.mark.parametrize("name", agon_judge.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(agon_judge, name) is not None


def test_a_name_that_is_not_there_is_missed() -> None:
    with pytest.raises(AttributeError):
        _ = agon_judge.nothing  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agon-judge {PROJECT['version']}\n"


def test_the_help_names_every_command_and_every_command_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    screen = capsys.readouterr().out
    for name in ("audit", "math", "sandbox"):
        assert f"\n  {name} " in screen
        assert main([name, "--help"]) == 0
        assert f"usage: agon-judge {name} " in capsys.readouterr().out


@pytest.mark.parametrize("place", PROJECT["entry-points"]["agon.commands"].values())
def test_an_entry_point_is_a_command_of_agon(place: str) -> None:
    module = import_module(place)
    assert module.HELP
    assert module.GROUP
    assert callable(module.add_arguments)
    assert callable(module.run)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["bogus"], "agon-judge math"),
        (["math", "--gold", "42"], "agon-judge math --help"),
        (["math", "--gold", "42", "--answer", "42", "--questoin", "x"], "did you mean --question?"),
        (["math", "--gold", "-2x", "--answer", "2x"], "--gold=-x"),
        (["sandbox"], "agon-judge sandbox --help"),
        (["sandbox", "check", "--workers", "0"], "agon-judge sandbox check --help"),
        (["sandbox", "check", "--backend", "docker"], "agon-judge sandbox check --help"),
    ],
)
def test_bad_input_is_answered_in_two_lines(words: list[str], advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert fix.startswith("fix: ")
    assert advice in fix


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--gold", "42", "--answer", r"6\cdot 7"], 1, "unparsable"),
        (["--gold", "42", "--answer", "<think>41?</think> It is <answer>42.0</answer>"], 0, "correct"),
        (["--gold", "42", "--answer", "<answer>41</answer> <answer>42</answer>"], 1, "ambiguous"),
        (["--gold", "x^2+2x+1", "--answer", "(x+1)^2"], 0, "correct"),
        (["--gold", "x^2+2x+1", "--answer", "(x+1)^2", "--question", "Expand $(x+1)^2$."], 1, "unparsable"),
        (["--gold=-2x", "--answer=-2x"], 0, "correct"),
    ],
)
def test_a_verdict_is_printed_as_json(
    words: list[str], code: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["math", *words, "--json"]) == code
    printed = json.loads(capsys.readouterr().out)
    assert (printed["reason"], printed["correct"], printed["graded"]) == (reason, code == 0, True)


def test_a_gold_that_cannot_be_read_gives_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["math", "--gold", r"\aleph_0", "--answer", "3"]) == 1
    assert capsys.readouterr().out.startswith("no verdict bad_gold: ")


@needs_bwrap
def test_check_prints_what_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "check", "--memory", HERE, "--workers", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["holds"]
    assert printed["sandbox"]["backend"] == "bwrap"
    assert len(printed["probes"]) >= 15


def test_a_machine_without_bubblewrap_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bwrap.find_bwrap.cache_clear()
    monkeypatch.setattr(bwrap.shutil, "which", lambda *_, **__: None)
    assert main(["sandbox", "check"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "error: bubblewrap is not installed"
    assert "apt-get install bubblewrap" in fix


def test_a_bubblewrap_that_is_too_old_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bwrap.find_bwrap.cache_clear()
    monkeypatch.setattr(bwrap.shutil, "which", lambda *_, **__: "/usr/bin/bwrap")
    old = subprocess.CompletedProcess([], 0, "bubblewrap 0.6.1\n", "")
    monkeypatch.setattr(bwrap.subprocess, "run", lambda *_, **__: old)
    assert main(["sandbox", "check"]) == 2
    assert "bubblewrap 0.7 or newer is needed, not bubblewrap 0.6.1" in capsys.readouterr().err
    bwrap.find_bwrap.cache_clear()
