"""Drivers that are too old, simulated: `nvidia-smi` names one, and torch counts a card and then raises."""

from __future__ import annotations

from pathlib import Path

import pytest

from agon.cli import doctor, main
from agon.engine import probe
from agon.errors import EngineError

OLD, NEW = "550.54.15", "580.65.06"


@pytest.fixture(autouse=True)
def no_torch_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "cuda_of_torch", lambda: 13)


def card(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_an_old_driver_is_named_with_the_one_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card(tmp_path, monkeypatch, f"echo {OLD}; echo {OLD}")
    with pytest.raises(EngineError, match=rf"driver {OLD} is older than CUDA 13 needs, 580 or newer") as refused:
        probe.cuda_works()
    assert "nvidia-smi" in refused.value.fix


@pytest.mark.parametrize("cuda", [12, None])
def test_what_is_needed_depends_on_the_torch_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: int | None
) -> None:
    card(tmp_path, monkeypatch, f"echo {OLD}")
    monkeypatch.setattr(probe, "cuda_of_torch", lambda: cuda)
    assert probe.old_driver() is None


@pytest.mark.parametrize("says", [f"echo {NEW}", "echo No devices were found; exit 6", "echo nonsense", "exit 9"])
def test_a_new_driver_or_no_card_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    card(tmp_path, monkeypatch, says)
    assert probe.old_driver() is None


def test_a_machine_without_nvidia_smi_is_asked_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.driver_version() is None


@pytest.mark.parametrize(
    ("version", "cuda"), [("'13.0'", 13), ("'12.6'", 12), ("None", None)], ids=["cuda 13", "cuda 12", "cpu"]
)
def test_the_cuda_of_torch_is_read_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, cuda: int | None
) -> None:
    monkeypatch.undo()
    (tmp_path / "version.py").write_text(f"__version__ = '2.13.0'\ncuda: Optional[str] = {version}\nhip = None\n")
    monkeypatch.setattr(probe, "find_spec", lambda name: type("Spec", (), {"origin": str(tmp_path / "__init__.py")}))
    assert probe.cuda_of_torch() == cuda
    monkeypatch.setattr(probe, "find_spec", lambda name: None)
    assert probe.cuda_of_torch() == probe.LOCKED


def test_what_torch_raises_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can ask the driver, a card is counted and then cannot be opened."""
    import torch

    def refuse(number: int) -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 12040).\nPlease update")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", refuse)
    with pytest.raises(EngineError, match=r"driver on your system is too old \(found version 12040\)"):
        probe.cuda_works()


def test_doctor_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card(tmp_path, monkeypatch, f"echo {OLD}")
    check = doctor.machine()
    assert (check.status, check.name) == ("failed", "devices")
    assert OLD in check.detail
    assert check.fix


def test_train_says_so_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    card(tmp_path, monkeypatch, f"echo {OLD}")
    config = Path(__file__).resolve().parents[2] / "configs" / "paper" / "main" / "agon.yaml"
    assert main(["train", str(config), "--out", str(tmp_path / "runs")]) == 1
    assert capsys.readouterr().err.startswith(f"error: driver {OLD} is older than CUDA 13 needs")
    assert not (tmp_path / "runs").exists()
