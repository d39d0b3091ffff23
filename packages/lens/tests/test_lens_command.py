"""`agon-lens` works without agon and torch: good input, bad input, and what is printed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import agon_lens
from agon_lens.cli import main
from lens_logs import EXAMPLE, trl, verl

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
ALONE = """
import sys
for name in ("agon", "agon_judge", "torch", "numpy", "scipy", "pandas", "transformers"):
    sys.modules[name] = None
from agon_lens.cli import main
sys.exit(main(sys.argv[1:]))
"""


def alone(*words: object) -> subprocess.CompletedProcess[str]:
    """The command where nothing of agon, and nothing heavy, can be imported."""
    return subprocess.run([sys.executable, "-c", ALONE, *map(str, words)], capture_output=True, text=True)


def test_it_diagnoses_and_draws_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = alone("diagnose", EXAMPLE, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "12 of 40 groups (30%) are dead" in done.stdout
    assert "12 of 40 groups (30%) are dead" in page.read_text()
    assert page.read_text().count("<figure>") == 3
    assert "<script" not in page.read_text()
    shown = alone("view", EXAMPLE, "-o", tmp_path / "log.html")
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "log.html").is_file()


def test_importing_it_is_light() -> None:
    code = "import sys, agon_lens, agon_lens.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"agon", "torch", "pyarrow", "statistics"} & set(done.stdout.split())


@pytest.mark.parametrize("name", agon_lens.__all__)
def test_a_public_name_is_there(name: str) -> None:
    assert getattr(agon_lens, name) is not None


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agon-lens {PROJECT['version']}\n"


def test_the_help_names_every_command_and_every_command_has_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    screen = capsys.readouterr().out
    for name in ("diagnose", "view", "watch", "canary"):
        assert f"\n  {name} " in screen
        assert main([name, "--help"]) == 0
        assert f"usage: agon-lens {name} " in capsys.readouterr().out


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
        (["bogus"], "agon-lens diagnose"),
        (["view"], "agon-lens view --help"),
        (["diagnose", str(EXAMPLE), "--tems", "x"], "did you mean --terms?"),
        (["diagnose", str(EXAMPLE), "--terms", "x"], "accuracy_reward"),
        (["diagnose", str(EXAMPLE), "--weights", "x"], "--weights format=0.5"),
        (["diagnose", "nope.jsonl"], "name a parquet, JSONL"),
        (["diagnose", str(EXAMPLE), "--html", "none/page.html"], "make that folder first"),
        (["view", str(EXAMPLE), "--steps", "900"], "--steps 0:4"),
        (["view", str(EXAMPLE), "--steps", "x"], "--steps 0:99"),
        (["view", str(EXAMPLE), "-o", "notes.md"], "name a new file"),
    ],
)
def test_bad_input_is_answered_in_two_lines(
    words: list[str],
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("# notes")
    assert main(words) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert fix.startswith("fix: ")
    assert advice in fix
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]


def test_json_holds_everything_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(EXAMPLE), "--json", "--terms", "accuracy_reward,format_reward"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert [term["name"] for term in found["terms"]] == ["accuracy_reward", "format_reward"]
    assert found["terms"][1]["inert"] is True
    assert found["dead_groups"] == sum(found["dead"].values()) > 0
    assert found["findings"]


@pytest.mark.parametrize(
    ("make", "words", "written"),
    [
        (trl, ["trl"], "rollouts.html"),
        (trl, ["trl/completions"], "rollouts.html"),
        (trl, ["trl/completions/completions_00001.parquet"], "completions_00001.html"),
        (
            trl,
            ["trl/completions/completions_00001.parquet", "trl/completions/completions_00002.parquet"],
            "rollouts.html",
        ),
        (verl, ["verl", "--steps", "10"], "rollouts-step-10.html"),
        (verl, ["verl", "-o", "page.html", "--gold", "gts", "--scale", "none"], "page.html"),
    ],
)
def test_files_and_folders_are_shown(
    make, words: list[str], written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:  # type: ignore[no-untyped-def]
    make(tmp_path / make.__name__)
    monkeypatch.chdir(tmp_path)
    logs = sorted((tmp_path / make.__name__).rglob("*"))
    assert main(["view", *words]) == 0
    assert re.match(rf"{re.escape(written)}  \(\d+\.\d MB; ", capsys.readouterr().out)
    assert (tmp_path / written).is_file()
    assert sorted((tmp_path / make.__name__).rglob("*")) == logs, "others read the folder of a log"


def test_a_reader_that_stops_early_is_no_error() -> None:
    command = f'"{sys.executable}" -m agon_lens diagnose "{EXAMPLE}" | head -c 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


def test_a_disk_that_fails_is_no_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    assert main(["view", str(EXAMPLE), "-o", str(tmp_path / "page.html")]) == 1
    assert "No space left" in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing half written is left"
