from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest

from agon.errors import InputError
from agon.sandbox import Ending, Execution, HostSandbox, ProgramLimits, SandboxDown, SandboxSettings, leaks, run
from agon.sandbox.leaks import PROBES, check, checked_sandbox, waivers_of


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
    waivers = () if sandbox.memory == "cgroup" else ("per_process",)
    assert [result for result in check(sandbox, waivers) if result.leaks and not result.waived] == []


def test_probes_find_the_leaks_of_a_sandbox_that_stops_nothing(sandbox: HostSandbox) -> None:
    if os.getuid():
        pytest.skip("an unprivileged unsafe sandbox would signal the user's own processes")
    room = HostSandbox("unsafe", workers=2, memory=sandbox.memory)
    try:
        leaking = {result.name for result in check(room, ("unsafe",)) if result.leaks}
    finally:
        room.close()
    assert {"files", "writing", "network", "sockets", "abstract sockets", "locks"} <= leaking


def test_a_sandbox_that_leaks_is_refused_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Leaky()
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: room)
    monkeypatch.setattr(leaks, "_held", set())
    with pytest.raises(InputError, match="the sandbox leaks: environment: everything"):
        checked_sandbox(SandboxSettings())
    assert room.closed


def test_a_leak_is_accepted_only_where_it_was_asked_for() -> None:
    found = {result.name: result.waived for result in check(Leaky(), waivers_of(SandboxSettings(memory="per_process")))}
    assert [name for name, waived in found.items() if waived] == ["memory of many processes"]
    found = {result.name: result.waived for result in check(Leaky(), waivers_of(SandboxSettings("unsafe")))}
    assert not found["CPU time"]
    assert found["files"]


def test_a_limit_that_does_not_end_a_probe_is_a_leak() -> None:
    limited = [probe for probe in PROBES if probe.ending]
    assert len(limited) >= 5
    assert all(result.leaks[-1].startswith("no ") for result in check(Leaky(), (), limited))


@pytest.mark.parametrize("ending", [Ending.WALL, Ending.CPU])
def test_a_probe_that_was_stopped_before_it_found_anything_proves_nothing(ending: Ending) -> None:
    class Busy(Leaky):
        def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
            yield Execution(ending)

    with pytest.raises(SandboxDown, match=f"the probe of environment met the {ending} limit"):
        check(Busy(), (), PROBES[:1])
    timed = [probe for probe in PROBES if probe.ending in (Ending.CPU, Ending.WALL)]
    assert not any(result.leaks for result in check(Busy(), (), timed))


def test_a_leak_that_was_found_before_a_limit_is_reported() -> None:
    class Slow(Leaky):
        def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
            yield Execution(Ending.CPU, stdout=b"LEAK everything\n")

    assert [result.leaks for result in check(Slow(), (), PROBES[:1])] == [("everything",)]


def test_nothing_is_graded_in_a_sandbox_that_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[SandboxSettings] = []
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: opened.append(settings) or Leaky())
    monkeypatch.setattr(leaks, "_held", set())
    monkeypatch.setattr("agon.sandbox.grade._shared", [])
    with pytest.raises(InputError, match="the sandbox leaks"):
        run("print(1)", [("", "1")])
    assert opened == [SandboxSettings()]


def test_a_sandbox_is_probed_once_and_then_grades(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[object] = []
    monkeypatch.setattr(leaks, "open_sandbox", lambda settings: sandbox)
    monkeypatch.setattr(leaks, "check", lambda *given: probed.append(given) or [])
    monkeypatch.setattr(leaks, "_held", set())
    monkeypatch.setattr("agon.sandbox.grade._shared", [])
    monkeypatch.setattr("agon.sandbox.grade.atexit.register", lambda close: None)
    assert [run("print(1)", [("", "1")]).correct for _ in range(3)] == [True] * 3
    assert len(probed) == 1
