"""What `agon train` prints at its end, and what it asks before it resumes a run that may be a stranger's."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from agon.cli import main
from agon.config import Config, resolved
from agon.errors import ConfigError, InputError
from agon.rundir import RunDir
from agon.training import run as module
from tests.rundir.helpers import runs
from tests.rundir.helpers.runs import CONFIG
from tests.training.helpers.records import POINT


@pytest.mark.parametrize(
    ("choice", "points", "which"),
    [("best", [], "last pair"), ("best", [POINT], "best pair on dev"), ("last", [POINT], "last pair")],
)
def test_the_end_says_which_pair_is_in_the_folder(
    choice: str,
    points: list,
    which: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = runs.new_run(tmp_path)
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("pair: last", f"pair: {choice}"))
    if points:
        run.write_points(points)
    monkeypatch.setattr(module, "train", lambda *words, **more: RunDir(run.path))
    assert main(["train", "some.yaml"]) == 0
    printed = capsys.readouterr().err
    assert which in printed
    assert f"agon eval {run.path}" in printed


def test_an_interrupted_run_says_how_to_resume_and_leaves_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*words: object, **more: object) -> RunDir:
        raise KeyboardInterrupt("stopped and saved; resume with: agon train X --resume")

    monkeypatch.setattr(module, "train", interrupted)
    assert main(["train", "some.yaml"]) == 130
    assert capsys.readouterr().err == "stopped and saved; resume with: agon train X --resume\n"


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose config names code and a server, on a machine where nothing was ever started."""
    sampler = {"engine": "vllm", "urls": ["http://203.0.113.5:8000"], "network": "0.0.0.0/0"}
    raw = resolved(CONFIG) | {"verifier": "evil_module:judge", "sampler": sampler}
    return RunDir.create(tmp_path, "theirs", Config.model_validate(raw)).path


def test_a_strangers_run_is_resumed_only_with_what_it_names_named_again(
    stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = list[str]()

    def check_verifier(name: str, sandbox: object) -> None:
        checked.append(name)
        raise ConfigError("no further")

    monkeypatch.setattr(module, "check_verifier", check_verifier)
    with pytest.raises(InputError, match="evil_module:judge: it is code") as refused:
        module.train(stranger, resume=True)
    assert checked == []
    command, _, repeated = refused.value.fix.partition("--resume ")
    assert command.endswith(f"agon train {stranger} ")
    assert shlex.split(repeated)[:2] == ["verifier=evil_module:judge", "sampler.urls=[http://203.0.113.5:8000]"]
    with pytest.raises(ConfigError, match="no further"):
        module.train(stranger, *shlex.split(repeated), resume=True)
    assert checked == ["evil_module:judge"]


def test_a_strangers_run_reads_no_other_config(stranger: Path) -> None:
    file = stranger / "config.yaml"
    file.write_text(file.read_text() + "extends: ../secret.yaml\n")
    with pytest.raises(InputError, match="extends"):
        module.train(stranger, resume=True)


def test_the_last_lines_say_whether_dev_moved_and_what_looks_wrong(tmp_path: Path) -> None:
    from agon.cli.train import closing
    from tests.training.helpers.records import counts, record

    def points(first: float, last: float) -> list:
        facts = [{"step": 0, "score": first}, {"step": 9, "score": last}]
        return [POINT.model_copy(update={**each, "systems": {"ab": counts(200, 100)}}) for each in facts]

    run = runs.new_run(tmp_path)
    run.write_points(points(0.3, 0.6))
    done, *more = closing(run)
    assert done.endswith("holds the last pair; dev rose: 0.30 -> 0.60 (200 answers)")
    assert [line.split(":")[0] for line in more] == ["next"]
    run.write_points([])
    run.steps.append(record(0, 0.0))
    assert [line for line in closing(run) if line.startswith("warning: 0 of 128 answers right")], "without points too"
    run.write_points(points(0.3, 0.31))
    for step in range(1, 4):
        run.steps.append(record(step, 0.0))
    done, *warnings, last = closing(run)
    assert "dev" not in done.rpartition("/pair")[2]
    told = [line.split(":")[1].strip() for line in warnings]
    assert told == ["0 of 512 answers right since the start", "dev shows no change beyond noise"]
    assert last.startswith(f"next: agon eval {run.path}")
