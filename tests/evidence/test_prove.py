"""`scripts/prove` keeps verdicts, and knows when a kept one no longer describes the sources."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture import tree

sys.path.insert(0, str(tree.ROOT / "evidence"))
import _lib
import _sources

ROOT = tree.ROOT
SCRIPT = """
from _helper import x
from agon import go
EXTRA_SOURCES = ("configs",)
print('{"claim": "a", "value": 1, "goal": 1, "holds": true}')
"""
FILES = {
    "evidence/claim.py": SCRIPT,
    "evidence/_helper.py": "from tests.helpers import y",
    "tests/__init__.py": "",
    "tests/helpers.py": "from agon.game import rules",
    "configs/agon.yaml": "arm: agon",
    "src/agon/__init__.py": "if TYPE_CHECKING:\n    from agon.training import go",
    "src/agon/assets/tiny.bin": "weights",
    "src/agon/training.py": "def go():\n    import agon.errors",
    "src/agon/errors.py": "",
    "src/agon/unrelated.py": "",
    "src/agon/game/__init__.py": "",
    "src/agon/game/rules.py": "from agon.game import reward",
    "src/agon/game/reward.py": "",
    "src/agon/game/peek.py": "",
}


@pytest.fixture
def prove() -> ModuleType:
    return tree.script("prove")


@pytest.fixture
def repository(tmp_path: Path, prove: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one evidence script whose result is kept."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    monkeypatch.setattr(tree, "SOURCE", tmp_path / "src" / "agon")
    monkeypatch.setattr(prove, "ROOT", tmp_path)
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    keep(prove, tmp_path)
    return tmp_path


def keep(prove: ModuleType, root: Path) -> None:
    """Keep a verdict of the script, with the sources as they are."""
    sources = _sources.fingerprint(_sources.sources(root / "evidence" / "claim.py"))
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
    prove.keep("claim", {"claim": "a", "holds": True}, 1.0, {"commit": head.strip(), "sources": sources})


def reason(root: Path) -> str | None:
    return _sources.why_changed(root / "evidence" / "claim.py")


def test_a_result_is_current_once_it_is_kept(repository: Path) -> None:
    assert reason(repository) is None


@pytest.mark.parametrize(
    "name",
    [
        "evidence/claim.py",
        "evidence/_helper.py",
        "tests/helpers.py",
        "configs/agon.yaml",
        "src/agon/training.py",
        "src/agon/errors.py",
        "src/agon/game/rules.py",
        "src/agon/game/reward.py",
        "src/agon/assets/tiny.bin",
    ],
)
def test_a_change_to_what_the_script_uses_makes_its_result_stale(
    prove: ModuleType, repository: Path, name: str
) -> None:
    with (repository / name).open("a") as file:
        file.write("\nchanged = 1\n")
    assert f"source files changed: {name}" in (reason(repository) or "")
    keep(prove, repository)
    assert reason(repository) is None


@pytest.mark.parametrize("name", ["src/agon/unrelated.py", "src/agon/game/peek.py", "evidence/other.py", "README.md"])
def test_a_change_to_anything_else_does_not(repository: Path, name: str) -> None:
    (repository / name).write_text("changed = True\n")
    assert reason(repository) is None


def test_words_about_the_code_are_no_change_of_it(repository: Path) -> None:
    for name in ("evidence/claim.py", "src/agon/training.py"):
        text = (repository / name).read_text()
        (repository / name).write_text(f'"""A docstring."""\n\n# a comment\n{text}\n\n    # more\n')
    (repository / "src/agon/assets/page.md").write_text("a page")
    assert reason(repository) is None


def test_tables_that_are_written_into_a_page_are_no_change_of_it(prove: ModuleType, repository: Path) -> None:
    page = "<!-- results: written by scripts/docs --write -->\n{}\n<!-- end of results -->\nsay agon demo\n"
    (repository / "configs" / "README.md").write_text(page.format("one"))
    keep(prove, repository)
    (repository / "configs" / "README.md").write_text(page.format("two"))
    assert reason(repository) is None
    (repository / "configs" / "README.md").write_text(page.format("two").replace("demo", "train"))
    assert reason(repository)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('"""A module."""\nx = "# no"  # a comment\n\n\nx = 2', 'x = "# no"\nx = 2'),
        ('def f():\n    """One\n    two."""\n    return x', "def f():\n    return x"),
        ('y = """\n# kept\n"""', 'y = """\n# kept\n"""'),
        ('def f(): "kept"', 'def f(): "kept"'),
    ],
)
def test_code_is_what_is_left_without_comments_and_docstrings(text: str, code: str) -> None:
    assert _sources.code_of(text) == code


def test_how_the_machine_is_described_makes_no_result_stale() -> None:
    assert ROOT / "src" / "agon" / "rundir" / "provenance.py" not in _sources.sources(
        ROOT / "evidence" / "cli_start.py"
    )


def test_a_new_import_makes_a_result_stale_and_counts_from_then_on(prove: ModuleType, repository: Path) -> None:
    (repository / "src/agon/game/reward.py").write_text("import agon.game.peek")
    assert reason(repository)
    keep(prove, repository)
    (repository / "src/agon/game/peek.py").write_text("changed = True\n")
    assert "src/agon/game/peek.py" in (reason(repository) or "")


def test_a_result_without_sources_and_a_missing_one_are_not_current(repository: Path) -> None:
    kept = repository / "evidence" / "results" / "claim.json"
    kept.write_text(json.dumps({"claim": "a", "holds": True, "commit": "0"}))
    assert reason(repository) == "the kept result does not say what it depends on"
    kept.unlink()
    assert reason(repository) == "no result is kept"


def test_a_revision_that_git_does_not_know_is_no_obstacle(repository: Path) -> None:
    kept = repository / "evidence" / "results" / "claim.json"
    kept.write_text(json.dumps({"commit": "f" * 40, "sources": "0" * 16}))
    assert "differ" in (reason(repository) or "")


def test_extra_sources_that_do_not_exist_are_an_error(repository: Path) -> None:
    (repository / "configs" / "agon.yaml").unlink()
    (repository / "configs").rmdir()
    with pytest.raises(FileNotFoundError, match=r"claim\.py names configs"):
        reason(repository)


def test_only_what_changed_runs_and_listing_runs_nothing(
    prove: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run(script: Path, quick: bool, part: str | None, limit: float | None) -> str:
        ran.append(script.stem)
        return "holds"

    monkeypatch.setattr(prove, "prove", run)
    (repository / "evidence" / "new.py").write_text("")
    monkeypatch.setattr(sys, "argv", ["prove", "--changed", "--list"])
    assert prove.main() == 0
    assert not ran
    assert "new: no result is kept" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["prove", "--changed"])
    assert prove.main() == 0
    assert ran == ["new"]


def test_a_result_is_on_disk_before_the_next_script_runs(
    prove: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = repository / "evidence" / "results"
    (results / "claim.json").unlink()
    (repository / "evidence" / "later.py").write_text("")
    seen: list[list[str]] = []

    def run(script: Path, options: list[str], limit: float | None) -> tuple[dict[str, object], float]:
        seen.append([path.name for path in results.iterdir()])
        return {"claim": script.stem, "value": 1, "goal": 1, "holds": True}, 1.0

    monkeypatch.setattr(prove, "run", run)
    monkeypatch.setattr(prove, "measured_on", lambda script: {"commit": "0", "sources": script.stem})
    monkeypatch.setattr(sys, "argv", ["prove"])
    assert prove.main() == 0
    assert seen == [[], ["claim.json"]]


def test_a_guard_runs_by_name_and_keeps_nothing(
    prove: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sources, "GUARDS", {"claim"})
    kept, ran = repository / "evidence" / "results" / "claim.json", list[str]()
    kept.unlink()

    def run(script: Path, options: list[str], limit: float | None) -> tuple[dict[str, object], float]:
        ran.append(script.stem)
        return {"claim": script.stem, "value": 1, "goal": 1, "holds": True}, 1.0

    monkeypatch.setattr(prove, "run", run)
    for words in (["prove"], ["prove", "--changed"], ["prove", "claim"]):
        monkeypatch.setattr(sys, "argv", words)
        assert prove.main() == 0
    assert ran == ["claim"]
    assert not kept.exists()


@pytest.mark.parametrize("line", ["", "done", "[1]", '{"claim": "a", "value": 1, "goal": 1}'])
def test_what_is_not_a_verdict_is_no_verdict(prove: ModuleType, line: str) -> None:
    assert prove.read_verdict(line) is None


@pytest.mark.parametrize("name", ["/ho" + "me/someone/data", socket.gethostname()])
def test_a_result_that_names_the_machine_is_not_kept(prove: ModuleType, name: str) -> None:
    with pytest.raises(SystemExit, match="this machine"):
        prove.keep("nothing", {"claim": f"read {name}"}, 1.0, {})
    assert not (ROOT / "evidence" / "results" / "nothing.json").exists()


def test_a_verdict_with_a_key_that_a_kept_result_adds_is_refused(prove: ModuleType) -> None:
    with pytest.raises(ValueError, match="seconds"):
        _lib.verdict("fast", 1, 1, True, seconds=0.02)
    assert prove.measured_on(ROOT / "evidence" / "peek_fuzz.py").keys() | {"name", "seconds"} == _lib.KEPT


def test_a_script_whose_exit_code_contradicts_its_verdict_gives_none(prove: ModuleType, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""print('{"claim": "a", "value": 1, "goal": 1, "holds": true}')\nraise SystemExit(1)""")
    assert prove.run(script, [])[0] is None


ENDINGS = {
    "crashes": "raise KeyError('AGON_X')",
    "fails": "from _lib import verdict\nverdict('a', 1, 2, False)",
    "hangs": "import time\ntime.sleep(600)",
    "holds": "from _lib import arguments, verdict\nverdict('a', 1, 1, arguments('x').quick)",
    "lacks": "from _lib import cannot_run\ncannot_run('no such machine')",
}


@pytest.fixture
def endings(prove: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scripts that end in every way."""
    monkeypatch.setenv(
        "PYTHONPATH", ":".join(map(str, (ROOT / "evidence", ROOT / "src", *ROOT.glob("packages/*/src"))))
    )
    monkeypatch.setattr(prove, "measured_on", lambda script: {"commit": "0", "sources": ""})
    for helper in ("claim", "_helper"):
        (repository / "evidence" / f"{helper}.py").unlink()
    for name, text in ENDINGS.items():
        (repository / "evidence" / f"{name}.py").write_text(text)
    return repository


def test_a_weekly_run_starts_every_smallest_form_and_names_what_failed(
    prove: ModuleType, endings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prove, "LIMIT", 20.0)
    monkeypatch.setattr(sys, "argv", ["prove", "--weekly"])
    assert prove.main() == 1
    told = capsys.readouterr()
    assert "prove: 1 of 5 hold" in told.out
    assert told.err.splitlines() == [
        "prove: cannot run here: lacks",
        "prove: does NOT hold: fails",
        "prove: gave no verdict: crashes, hangs",
    ]
    assert [path.name for path in (endings / "evidence" / "results").iterdir()] == ["claim.json"], "it keeps nothing"


def test_what_cannot_run_here_fails_no_weekly_run_but_one_that_asked_for_it(
    prove: ModuleType, endings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("crashes", "fails", "hangs"):
        (endings / "evidence" / f"{name}.py").unlink()
    monkeypatch.setattr(sys, "argv", ["prove", "--weekly"])
    assert prove.main() == 0
    monkeypatch.setattr(sys, "argv", ["prove", "--quick", "lacks"])
    assert prove.main() == 1
    monkeypatch.setattr(sys, "argv", ["prove", "--weekly", "lacks"])
    assert prove.main() == 2


def test_a_script_that_lacks_something_says_so_without_a_traceback(endings: Path) -> None:
    script = endings / "evidence" / "lacks.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (_lib.CANNOT_RUN, "cannot run here: no such machine\n")


def test_a_tinker_server_without_its_variables_cannot_run_and_does_not_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    import _tinker_server

    for variable in ("AGON_TINKER_ENV", "AGON_TINKER_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SystemExit) as ended, _tinker_server.tinker_server(Path("base"), Path("scratch")):
        pass
    assert ended.value.code == _lib.CANNOT_RUN


PARTS = """
import sys
from _lib import arguments, verdict_of_parts
args = arguments("Parts.", ("one", "two"))
parts = {"one": (lambda quick: {"n": 1}, bool), "two": (lambda quick: {"n": 2}, bool)}
verdict_of_parts("both", parts, args, quick=("one",))
"""


def test_parts_are_kept_one_by_one_and_the_result_holds_with_the_last(
    prove: ModuleType, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = repository / "evidence" / "results" / "claim.json"
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "evidence"), prepend=os.pathsep)
    (repository / "evidence" / "claim.py").write_text(PARTS)
    monkeypatch.setattr(prove, "measured_on", lambda script: measured)
    measured = {"commit": "1", "dirty": False, "hardware": {}, "sources": "new"}
    monkeypatch.setattr(sys, "argv", ["prove", "claim", "--part", "one"])
    assert prove.main() == 0
    assert json.loads(kept.read_text()).items() >= {"holds": False, "missing": ["two"]}.items()
    monkeypatch.setattr(sys, "argv", ["prove", "claim", "--part", "two"])
    measured = measured | {"commit": "2"}
    assert prove.main() == 0
    result = json.loads(kept.read_text())
    assert result.items() >= {"holds": True, "missing": [], "parts": {"one": {"n": 1}, "two": {"n": 2}}}.items()
    assert {part: run["commit"] for part, run in result["runs"].items()} == {"one": "1", "two": "2"}
    measured = measured | {"sources": "newer"}
    assert prove.main() == 0
    assert json.loads(kept.read_text()).items() >= {"holds": False, "missing": ["one"]}.items()
    monkeypatch.setattr(sys, "argv", ["prove", "--part", "two"])
    assert prove.main() == 2
