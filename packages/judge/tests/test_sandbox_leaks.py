from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest

from agon_judge.errors import InputError
from agon_judge.sandbox import Ending, Execution, HostSandbox, ProgramLimits, SandboxDown, SandboxSettings, leaks, run
from agon_judge.sandbox.bwrap import find_interpreter
from agon_judge.sandbox.execution import Memory
from agon_judge.sandbox.leak_programs import LeakProbe
from agon_judge.sandbox.leaks import PROBES, check, checked_sandbox


class Leaky:
    """A fake sandbox in which every program does what it likes."""

    closed = False

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        yield Execution(Ending.EXITED, stdout=b"\nLEAK everything\n")

    def describe(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        self.closed = True


def test_no_probe_leaks_from_bwrap(sandbox: HostSandbox) -> None:
    assert [result for result in check(sandbox, sandbox.memory) if result.leaks and not result.accepted] == []


class Open(Leaky):
    """Runs programs as plain processes, as root with the uid of nobody."""

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        uid: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
        command = [find_interpreter(), "-c", program]
        done = subprocess.run(command, input=inputs[0], capture_output=True, cwd="/", timeout=60, check=False, **uid)
        yield Execution(Ending.EXITED, done.returncode, done.stdout, done.stderr)


def test_probes_find_the_leaks_of_a_sandbox_that_stops_nothing() -> None:
    wanted = ("environment", "files", "writing", "network", "sockets", "abstract sockets", "locks", "privileges")
    probes = [probe for probe in PROBES if probe.name in wanted]
    assert tuple(result.name for result in check(Open(), "cgroup", probes) if result.leaks) == wanted


def test_a_sandbox_that_leaks_is_refused_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Leaky()
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: room)
    monkeypatch.setattr(leaks, "_held", set())
    with pytest.raises(InputError, match="the sandbox leaks: environment: everything"):
        checked_sandbox(SandboxSettings())
    assert room.closed


def test_a_leak_is_accepted_only_where_it_was_asked_for() -> None:
    found = {memory: [one.name for one in check(Leaky(), memory) if one.accepted] for memory in get_args(Memory)}
    assert found == {"cgroup": [], "per_process": ["memory of many processes"]}


def test_a_limit_that_does_not_end_a_probe_is_a_leak() -> None:
    limited = [probe for probe in PROBES if probe.ending]
    assert len(limited) >= 5
    assert all(result.leaks[-1].startswith("no ") for result in check(Leaky(), probes=limited))


@pytest.mark.parametrize("ending", [Ending.WALL, Ending.CPU])
def test_a_probe_that_was_stopped_before_it_found_anything_proves_nothing(ending: Ending) -> None:
    class Busy(Leaky):
        def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
            yield Execution(ending)

    with pytest.raises(SandboxDown, match=f"the probe of environment met the {ending} limit"):
        check(Busy(), probes=PROBES[:1])
    timed = [probe for probe in PROBES if probe.ending is ending]
    assert not any(result.leaks for result in check(Busy(), probes=timed))


@pytest.mark.parametrize("probe", PROBES, ids=[probe.name for probe in PROBES])
def test_a_box_in_which_no_program_runs_proves_nothing(probe: LeakProbe) -> None:
    class Broken(Leaky):
        def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
            yield Execution(Ending.EXITED, 2, stderr=b"python3: cannot open shared object file")

    with pytest.raises(SandboxDown, match=f"the probe of {probe.name} did not run to its end"):
        check(Broken(), probes=[probe])


def test_a_leak_that_was_found_before_a_limit_is_reported() -> None:
    class Slow(Leaky):
        def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
            yield Execution(Ending.CPU, stdout=b"LEAK everything\n")

    assert [result.leaks for result in check(Slow(), probes=PROBES[:1])] == [("everything",)]


def test_nothing_is_graded_in_a_sandbox_that_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[SandboxSettings] = []
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: opened.append(settings) or Leaky())
    monkeypatch.setattr(leaks, "_held", set())
    monkeypatch.setattr("agon_judge.sandbox.grade._shared", [])
    with pytest.raises(InputError, match="the sandbox leaks"):
        run("print(1)", [("", "1")])
    assert opened == [SandboxSettings()]


def test_a_sandbox_is_probed_once_and_then_grades(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[object] = []
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: sandbox)
    monkeypatch.setattr(leaks, "check", lambda *given: probed.append(given) or [])
    monkeypatch.setattr(leaks, "_held", set())
    monkeypatch.setattr("agon_judge.sandbox.grade._shared", [])
    monkeypatch.setattr("agon_judge.sandbox.grade.atexit.register", lambda close: None)
    assert [run("print(1)", [("", "1")]).correct for _ in range(3)] == [True] * 3
    assert len(probed) == 1
