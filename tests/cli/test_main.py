"""The front door: help, exit codes, two-line errors, and nothing loaded before it is needed."""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from agon import cli
from agon.errors import ConfigError, InputError, RunError

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name for group in cli.commands()[0].values() for name in group]


def shell(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", **options}
    command = [sys.executable, "-m", "agon", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_help_fits_one_screen_and_names_every_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if line.startswith("  ")] == NAMES


def test_help_of_a_command_is_its_own_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", "train"]) == 0
    assert capsys.readouterr().out.startswith("usage: agon train")


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_fits_one_screen(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"usage: agon {name}")
    assert len(lines) <= 50


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_its_module(name: str) -> None:
    command = cli.find(name).load()
    assert callable(command.add_arguments)
    assert callable(command.run)


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from agon.cli import main; main(['--help']); print(*sys.modules, sep='\\n', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert not loaded & {"pydantic", "rich", "yaml", "asyncio", "pyarrow", "torch", "transformers"}


def test_the_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"agon {version('agon-rl')}\n"


@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("evl", "did you mean `agon eval`? `agon --help` lists all of them"),
        ("resume", "did you mean `agon train RUN --resume`? `agon --help` lists all of them"),
        ("xyzzy", "`agon --help` lists all of them"),
        ("--verbose", "`agon --help` lists all of them"),
    ],
)
def test_an_unknown_command_names_the_nearest(word: str, fix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 2
    assert capsys.readouterr().err == f"error: there is no command {word!r}\nfix: {fix}\n"


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["plan"], "the following arguments are required: CONFIG", "type agon plan CONFIG; "),
        (["plan", "x.yaml", "--jsn"], "unrecognized arguments: --jsn", "did you mean --json? "),
        (["doctor", "extra"], "unrecognized arguments: extra", ""),
        (["data"], "the following arguments are required: ACTION", "type agon data ACTION; "),
        (
            ["train", "x", "--gpus", "2"],
            "unrecognized arguments: --gpus 2",
            "the learner has the first GPU; for the others write sampler.replicas=1; ",
        ),
        (["train", "x", "--gpu", "4090"], "unrecognized arguments: --gpu 4090", "--gpu is an option of agon plan; "),
        (
            ["train", "x", "--learning-rate", "1e-4"],
            "unrecognized arguments: --learning-rate 1e-4",
            "write train.learning_rate=1e-4; ",
        ),
        (["train", "x", "--lr=1e-4"], "unrecognized arguments: --lr=1e-4", "write train.learning_rate=1e-4; "),
        (
            ["train", "x", "--num-generations", "8"],
            "unrecognized arguments: --num-generations 8",
            "write game.group_size=8; ",
        ),
        (["train", "x", "--model", "Q/R"], "unrecognized arguments: --model Q/R", "write model.name=Q/R; "),
        (
            ["eval", "x", "--temperature", "0"],
            "unrecognized arguments: --temperature 0",
            "write eval.temperature=0; ",
        ),
        (["view", "x", "--learning-rate", "1"], "unrecognized arguments: --learning-rate 1", ""),
    ],
)
def test_bad_arguments_are_bad_input(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    told = capsys.readouterr().err.splitlines()
    command = f"agon {words[0]}"
    assert told == [f"error: {command}: {message}", f"fix: {hint}`{command} --help` lists its arguments"]


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Replace a command by one that raises."""

    def run(args: argparse.Namespace) -> int:
        raise error

    module = SimpleNamespace(add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "agon.cli.plan", module)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "code"),
    [(RunError("it broke", fix="mend it"), 1), (InputError("not so", fix="mend it"), 2), (KeyboardInterrupt(), 130)],
)
def test_exit_codes(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, error)
    assert cli.main(["plan"]) == code
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert told.endswith("fix: mend it\n") or code == 130


def test_all_faults_of_a_config_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ConfigError("x.yaml: 2 mistakes", fix="mend them", faults=["x.yaml:1: one", "x.yaml:2: two"]))
    assert cli.main(["plan"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: x.yaml: 2 mistakes",
        "  x.yaml:1: one",
        "  x.yaml:2: two",
        "fix: mend them",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("setting", "coloured"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_that_wants_it(setting: str, coloured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("NO_COLOR", setting)
    cli.tell(InputError("not so", fix="mend it"))
    assert ("\033[" in terminal.getvalue()) is coloured


def test_python_dash_m_is_the_same_command() -> None:
    done = shell("pln")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no command 'pln'\nfix: did you mean `agon plan`?")


def test_a_reader_that_closes_early_is_not_an_error() -> None:
    command = f"{sys.executable} -m agon plan configs/paper/main/agon.yaml --show | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "schema: 1\n", "")


def test_overrides_may_follow_an_option() -> None:
    args = cli.parser_of("plan").parse(["x.yaml", "train.seed=1", "--json", "arm=coop"])
    assert (args.overrides, args.json) == (["train.seed=1", "arm=coop"], True)


@pytest.mark.parametrize("words", [["eval", "agon:tiny"], ["compare", "x.json", "y.json"]])
def test_a_missing_scipy_is_answered_in_two_lines(words: list[str]) -> None:
    code = f"import sys; sys.modules['scipy'] = None; from agon.cli import main; sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    error, fix = done.stderr.splitlines()
    assert error == "error: scipy is not installed"
    assert "eval" in fix
