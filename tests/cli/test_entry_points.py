"""Commands of other packages: they are listed, parsed and run like ours; one that is broken is a note."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from agon import cli

ROOT = Path(__file__).resolve().parents[2]
GREET = """
HELP = "greet somebody"
GROUP = "deploy"

class Refused(Exception):
    message, fix, exit_code = "nobody is there", "type agon greet NAME", 2

def add_arguments(parser):
    parser.add_argument("name", nargs="?", metavar="NAME")

def run(args):
    if not args.name:
        raise Refused
    print("hello", args.name)
    return 3
"""


@pytest.fixture
def add_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Install a package with these entry points and this module."""

    def make(entry_points: str, text: str = GREET) -> None:
        metadata = tmp_path / "greeting-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[agon.commands]\n{entry_points}\n")
        (tmp_path / f"greeting_of_{tmp_path.name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    return make


@pytest.fixture
def module(tmp_path: Path) -> str:
    return f"greeting_of_{tmp_path.name}"


def test_a_command_of_another_package_is_listed_and_run(add_package, module, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package(f"greet = {module}")
    groups, notes = cli.commands()
    assert groups["deploy"]["greet"].help == "greet somebody"
    assert not notes
    assert "  greet     greet somebody\n" in cli.usage()
    assert cli.main(["greet", "Ada"]) == 3
    assert capsys.readouterr().out == "hello Ada\n"
    assert cli.main(["greet", "--help"]) == 0
    assert "usage: agon greet" in capsys.readouterr().out


def test_its_errors_and_bad_arguments_are_answered_in_two_lines(add_package, module, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package(f"greet = {module}")
    assert cli.main(["greet"]) == 2
    assert capsys.readouterr().err == "error: nobody is there\nfix: type agon greet NAME\n"
    assert cli.main(["greet", "--loud"]) == 2
    assert capsys.readouterr().err.startswith("error: agon greet: unrecognized arguments: --loud\nfix: ")


def test_a_name_that_is_nearly_right_is_suggested(add_package, module, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package(f"greet = {module}")
    assert cli.main(["gret"]) == 2
    assert "did you mean `agon greet`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["1 / 0", "raise SystemExit", "HELP = 'x'", "import no_such_package", GREET.replace("def run", "def ran")]
)
def test_a_broken_command_is_a_note_and_harms_no_other(text, add_package, module, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package(f"greet = {module}", text)
    assert cli.main(["--help"]) == 0
    assert "note: the command greet of greeting cannot be loaded: " in capsys.readouterr().out
    assert cli.main(["greet"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("error: the command greet of greeting cannot be loaded: ")
    assert "reinstall greeting" in fix


def test_an_entry_point_whose_module_is_gone_is_a_note(add_package, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package("greet = no_such_module")
    assert "cannot be loaded: ModuleNotFoundError" in cli.usage()


def test_a_command_with_broken_arguments_harms_no_other(add_package, module, capsys) -> None:  # type: ignore[no-untyped-def]
    add_package(f"greet = {module}", GREET.replace("    parser.add_argument", "    1 / 0; parser.add_argument"))
    assert cli.main(["plan", "x.yaml", "--no-such-option"]) == 2
    assert capsys.readouterr().err.startswith("error: agon plan: unrecognized arguments: --no-such-option\nfix: ")


def test_a_command_of_ours_is_never_replaced(add_package, module) -> None:  # type: ignore[no-untyped-def]
    add_package(f"train = {module}")
    assert cli.find("train").module == "train"
    assert "note: greeting names a command train, which is one of ours" in cli.usage()


def test_commands_of_our_other_packages_come_by_entry_point() -> None:
    projects = [tomllib.loads(path.read_text())["project"] for path in (ROOT / "packages").glob("*/pyproject.toml")]
    declared = {name: place for project in projects for name, place in project["entry-points"]["agon.commands"].items()}
    assert set(declared) == {"audit", "diagnose"}
    groups, notes = cli.commands()
    assert not notes
    found = {name: command for group in groups.values() for name, command in group.items()}
    for name, place in declared.items():
        assert name in found, "run scripts/setup: it installs the packages with their entry points"
        assert found[name].package + found[name].module == place


def test_an_error_of_the_judge_is_answered_in_two_lines(capsys) -> None:  # type: ignore[no-untyped-def]
    assert cli.main(["audit", "no_such_file.py:reward"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert "no_such_file.py" in error
    assert fix.startswith("fix: ")
