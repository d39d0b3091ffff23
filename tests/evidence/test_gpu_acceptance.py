"""`scripts/gpu-acceptance`: one command, one report that names no machine, an exit code that tells."""

from __future__ import annotations

import json
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.architecture import tree


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    loader = SourceFileLoader("gpu_acceptance", str(tree.ROOT / "scripts" / "gpu-acceptance"))
    spec = spec_from_loader("gpu_acceptance", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
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


@pytest.mark.parametrize("code", [0, 1])
def test_a_part_that_fails_is_in_the_report_and_in_the_exit_code(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    def evidence(name: str, quick: list[str]) -> Any:
        return kit.outcome(code, verdict={"claim": name, "log": f"/{'home'}/someone/secret/run"})

    monkeypatch.setattr(kit, "evidence", evidence)
    report = tmp_path / "report.json"
    assert run(kit, monkeypatch, "--on-cpu", "--only", "bases", "tests", "--report", str(report)) == code
    written = json.loads(report.read_text())
    assert written["parts"]["bases"]["outcome"] == ("failed" if code else "passed")
    assert written["parts"]["tests"]["outcome"] == "skipped"
    assert "someone" not in report.read_text()
    assert {"commit", "versions", "hardware"} <= written.keys()


def test_a_script_without_a_verdict_has_failed(
    kit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "broken.py").write_text("print('no verdict')")
    (tmp_path / "evidence" / "fine.py").write_text("print('{\"holds\": true}')")
    monkeypatch.setattr(kit, "ROOT", tmp_path)
    assert kit.evidence("broken", [])["outcome"] == "failed"
    assert kit.evidence("fine", []) == {"outcome": "passed", "verdict": {"holds": True}}


def test_every_part_is_described_and_every_script_exists(kit: ModuleType) -> None:
    described = kit.__doc__.split("Parts:")[1]
    for part, script in {"bases": "all_bases", "canary": "stale_adapter", "processes": "process_faults"}.items():
        assert f"{part} " in described
        assert (tree.ROOT / "evidence" / f"{script}.py").exists()
