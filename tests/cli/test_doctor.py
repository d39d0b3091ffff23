"""`agon doctor` says how the machine stands, also when it stands badly."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agon.cli import doctor
from agon.cli.doctor import PINNED, Check
from agon.errors import VerifierError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_the_pinned_versions_are_those_of_the_constraint_files(name: str) -> None:
    text = (ROOT / "constraints" / f"{name}.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)$", text, flags=re.MULTILINE))
    used = {
        package: version
        for package, version in pinned.items()
        if package not in {"pip", "setuptools", *doctor.OPTIONAL}
    }
    assert {package.removesuffix("-cpu"): version for package, version in used.items()} == PINNED[name]


def test_every_pinned_package_says_what_it_is_for() -> None:
    assert set(doctor.NEEDED_FOR) == set(PINNED["cpu"]) | set(PINNED["gpu"])


@pytest.mark.parametrize(
    ("found", "status"), [(None, "missing"), ("1.16.0", "ok"), ("1.16.0+cpu", "ok"), ("1.15.0", "untested")]
)
def test_a_package_is_compared_with_the_tested_version(
    monkeypatch: pytest.MonkeyPatch, found: str | None, status: str
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: found)
    check = doctor.package("trl", "cpu")
    assert check.status == status
    assert check.fix == ("" if status == "ok" else "pip install 'trl==1.16.0'")


@pytest.mark.parametrize(("found", "fix"), [("1.16.0", ""), ("1.15.0", "pip install 'trl==1.16.0'")])
def test_no_version_is_called_tested_on_a_gpu(monkeypatch: pytest.MonkeyPatch, found: str, fix: str) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: found)
    check = doctor.package("trl", "gpu")
    assert (check.status, check.fix) == ("untested", fix)
    assert "not run on a GPU yet" in check.detail


def test_a_missing_optional_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: None)
    assert [doctor.optional(name).fix for name in ("scipy", "matplotlib", "datasets")] == [
        f"pip install -e '.[{extra}]'" for extra in ("eval", "plot", "data")
    ]
    assert {doctor.optional(name).status for name in doctor.OPTIONAL} == {"missing"}


def test_vllm_on_a_cpu_is_never_installed_by_its_plain_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: None)
    assert "pip install" not in doctor.package("vllm", "cpu").fix
    assert doctor.package("vllm", "gpu").fix == "pip install 'vllm==0.32.0'"


def test_a_broken_machine_is_a_finding_and_not_a_traceback() -> None:
    def broken(error: Exception) -> Iterator[Check]:
        def look() -> Check:
            raise error

        yield doctor.guarded("it", look)

    assert next(broken(OSError("libcuda"))).status == "failed"
    assert next(broken(ModuleNotFoundError(name="torch"))).detail == "torch is not installed"
    assert next(broken(VerifierError("no", fix="do this"))) == Check("it", "failed", "no", "do this")


def test_little_room_fails(tmp_path: Path) -> None:
    assert doctor.room(tmp_path, 10**9).status == "failed"


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("missing", 0), ("untested", 0), ("failed", 1)])
def test_only_a_failure_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: doctor.Status, code: int
) -> None:
    monkeypatch.setattr(doctor, "checks", lambda *where: iter([Check("it", status, "so", "do this")]))
    assert doctor.run(argparse.Namespace(json=False, address=None, network=None)) == code
    assert capsys.readouterr().out.split() == [status, "it", "so", "do", "this"]
    assert doctor.run(argparse.Namespace(json=True, address=None, network=None)) == code
    assert json.loads(capsys.readouterr().out) == [{"name": "it", "status": status, "detail": "so", "fix": "do this"}]


def test_a_check_is_printed_before_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slow() -> Iterator[Check]:
        yield Check("first", "ok", "here")
        assert "first" in capsys.readouterr().out
        yield Check("second", "ok", "here")

    monkeypatch.setattr(doctor, "checks", lambda *where: slow())
    assert doctor.run(argparse.Namespace(json=False, address=None, network=None)) == 0


@pytest.mark.slow
def test_this_environment_is_sound() -> None:
    found = {check.name: check for check in doctor.checks()}
    assert {"python", "disk", "devices", "torch", "trl", "scipy", "verifier math"} <= found.keys()
    assert [check for check in found.values() if check.status == "failed"] == []
