from __future__ import annotations

import json
import shutil

import pytest

from agon.cli import main
from agon_judge.sandbox import cgroups

MEMORY = "cgroup" if cgroups.places() else "per_process"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_check_prints_what_is_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "check", "--memory", MEMORY, "--workers", "2", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["holds"]
    assert printed["sandbox"]["backend"] == "bwrap"
    assert len(printed["probes"]) >= 15


def test_a_machine_without_bubblewrap_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from agon_judge.sandbox import bwrap

    bwrap.find_bwrap.cache_clear()
    monkeypatch.setattr(bwrap.shutil, "which", lambda *_, **__: None)
    assert main(["sandbox", "check"]) == 2
    error, fix = capsys.readouterr().err.splitlines()
    assert error == "error: bubblewrap is not installed"
    assert "apt-get install bubblewrap" in fix


def test_http_needs_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox", "check", "--backend", "http"]) == 2
    assert "needs the address of a server" in capsys.readouterr().err


def test_a_bubblewrap_that_is_too_old_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from subprocess import CompletedProcess

    from agon_judge.sandbox import bwrap

    bwrap.find_bwrap.cache_clear()
    monkeypatch.setattr(bwrap.shutil, "which", lambda *_, **__: "/usr/bin/bwrap")
    monkeypatch.setattr(bwrap.subprocess, "run", lambda *_, **__: CompletedProcess([], 0, "bubblewrap 0.6.1\n", ""))
    assert main(["sandbox", "check"]) == 2
    assert "bubblewrap 0.7 or newer is needed, not bubblewrap 0.6.1" in capsys.readouterr().err
    bwrap.find_bwrap.cache_clear()
