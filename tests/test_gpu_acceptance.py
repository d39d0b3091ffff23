"""`scripts/gpu-acceptance`: one command, one report that names no machine, an exit code that tells."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.architecture import tree


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = tree.script("gpu-acceptance")
    monkeypatch.setattr(module, "gpu_count", lambda: 0)
    return module


def run(kit: ModuleType, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["gpu-acceptance", *words])
    code: int = kit.main()
    return code


def test_without_a_gpu_nothing_is_tried(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(kit, monkeypatch, "--report", str(tmp_path / "report.json")) == 2
    assert "--on-cpu" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize(("capability", "code", "says"), [((7, 0), 2, "use a T4"), ((7, 5), 0, "model.dtype=float16")])
def test_a_card_without_bfloat16_is_told_first_what_works(
    kit: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    capability: tuple[int, int],
    code: int,
    says: str,
) -> None:
    import torch

    monkeypatch.setattr(kit, "gpu_count", lambda: 1)
    monkeypatch.setattr(kit, "cuda_works", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "an old card")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number: capability)
    monkeypatch.setattr(kit, "evidence", lambda name, until: kit.outcome(0))
    monkeypatch.setenv("PATH", "/bin")
    assert run(kit, monkeypatch, "--only", "bases", "--report", str(tmp_path / "report.json")) == code
    first = capsys.readouterr().out.splitlines()[0]
    assert "an old card" in first
    assert says in first
    assert (os.environ["PATH"] == "/bin") is (code == 2), "programs of this Python's environment are found by name"


def test_a_driver_that_is_too_old_ends_it_before_the_first_part(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from agon.engine import probe

    monkeypatch.setattr(probe, "driver_version", lambda: "550.54.15")
    monkeypatch.setattr(probe, "cuda_of_torch", lambda: 13)
    assert run(kit, monkeypatch, "--report", str(tmp_path / "report.json")) == 2
    assert "driver 550.54.15 is older than CUDA 13 needs" in capsys.readouterr().err
    assert not (tmp_path / "report.json").exists()


def test_outside_an_activated_environment_the_clones_own_is_taken(tmp_path: Path) -> None:
    script = tmp_path / "scripts" / "gpu-acceptance"
    script.parent.mkdir()
    shutil.copy(tree.ROOT / "scripts" / "gpu-acceptance", script)

    def start() -> subprocess.CompletedProcess[str]:
        bare = [sys.executable, "-I", "-S", str(script), "--on-cpu"]  # sees no installed package
        return subprocess.run(bare, capture_output=True, text=True)

    assert "has no torch; install as docs/reproduce.md says" in start().stderr
    own = tmp_path / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text('#!/bin/sh\necho "$@"\n')
    own.chmod(0o755)
    assert start().stdout == f"{script} --on-cpu\n"


@pytest.mark.parametrize("code", [0, 1])
def test_a_part_that_fails_is_in_the_report_and_in_the_exit_code(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    def evidence(name: str, until: float) -> Any:
        told = {"claim": name, "log": f"/{'home'}/someone/secret/run", "by": "secretuser at secrethost"}
        return kit.outcome(code, verdict=told)

    monkeypatch.setattr("getpass.getuser", lambda: "secretuser")
    monkeypatch.setattr("socket.gethostname", lambda: "secrethost")

    monkeypatch.setattr(kit, "evidence", evidence)
    report = tmp_path / "report.json"
    assert run(kit, monkeypatch, "--on-cpu", "--only", "bases", "tests", "--report", str(report)) == code
    written = json.loads(report.read_text())
    assert written["parts"]["bases"]["outcome"] == ("failed" if code else "passed")
    assert written["parts"]["tests"]["outcome"] == "skipped"
    assert "someone" not in report.read_text()
    assert "secret" not in report.read_text()
    assert {"commit", "versions", "hardware"} <= written.keys()


def test_a_script_without_a_verdict_has_failed(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "broken.py").write_text("print('no verdict')")
    (tmp_path / "evidence" / "fine.py").write_text("print('{\"holds\": true}')")
    monkeypatch.setattr(kit, "ROOT", tmp_path)
    until = time.monotonic() + 60
    assert kit.evidence("broken", until)["outcome"] == "failed"
    assert kit.evidence("fine", until) == {"outcome": "passed", "verdict": {"holds": True}}


def test_a_part_that_takes_too_long_is_ended_with_all_that_it_started(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "evidence").mkdir()
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    (tmp_path / "evidence" / "endless.py").write_text(f"print('began', flush=True)\n{child}")
    monkeypatch.setattr(kit, "ROOT", tmp_path)
    monkeypatch.setattr(kit, "GRACE", 5)
    result = kit.tried("endless", kit.Part(2, lambda until: kit.evidence("endless", until)), 0)
    assert (result["outcome"], result["limit"]) == ("out of time", 2)
    assert result["seconds"] < 60


def test_the_limits_add_up_to_half_an_hour(kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["gpu-acceptance"])
    parts = kit.parts_of(kit.arguments(), 2, tmp_path)
    assert sum(part.limit for part in parts.values()) <= 30 * 60
    assert next(iter(parts)) == "start"
    assert parts["start"].limit <= 3 * 60
    for name, part in parts.items():
        assert f"{name:<11} {part.limit // 60} " in kit.__doc__


@pytest.mark.parametrize(("start", "fits"), [(20.0, True), (900.0, False)])
def test_after_the_first_part_it_says_whether_the_rest_fits(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: float, fits: bool
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu-acceptance"])
    _, *rest = kit.parts_of(kit.arguments(), 1, tmp_path).values()
    told = kit.forecast({"outcome": "passed", "seconds_to_start": start}, rest, 1)
    assert ("it fits" in told) is fits
    assert ("will not fit" in told) is not fits


@pytest.mark.slow
def test_the_first_part_runs_on_a_cpu_and_reports(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [sys.executable, str(tree.ROOT / "scripts" / "gpu-acceptance")]
    done = subprocess.run([*command, "--on-cpu", "--only", "start", "--report", str(report)], timeout=300)
    assert done.returncode == 0
    (part,) = json.loads(report.read_text())["parts"].values()
    assert part["outcome"] == "passed"
    assert len(part["steps"]) == 2
    assert str(tmp_path) not in report.read_text()


def test_every_part_is_described_and_every_script_exists(kit: ModuleType) -> None:
    described = kit.__doc__.split("Parts")[1]
    scripts = {"bases": "all_bases", "canary": "stale_adapter"}
    for part, script in scripts.items():
        assert f"{part} " in described
        assert (tree.ROOT / "evidence" / f"{script}.py").exists()
