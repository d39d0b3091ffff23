"""Probes: small programs that try what a box must stop, so that what is active is shown and not assumed.

A probe prints LEAK and what it could do, and END when it has tried everything: a box in which no program runs proves
nothing. One that is made for a limit must meet it. The machine prepares for them: a secret in the environment and in a
file, a server on this machine, a process with the uid of a box. A sandbox that leaks is refused, except where the leak
is what the user asked for by name: `memory: per_process` cannot bound many processes together.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agon_judge.errors import InputError
from agon_judge.sandbox.execution import MIB, Ending, Execution, Memory, ProgramLimits, Sandbox, SandboxDown
from agon_judge.sandbox.leak_programs import HEAD, PLACES, PROBES, TAIL, LeakProbe
from agon_judge.sandbox.settings import SandboxSettings, open_sandbox

LIMITS = ProgramLimits(cpu=1.0, wall=20.0, memory=128 * MIB)
MEASURED = (Ending.CPU, Ending.WALL)
"""Limits that probes run into on purpose: they are set lower for those."""
_held: set[SandboxSettings] = set()
"""What this process has probed, and found tight."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found; `leaks` is empty when the sandbox held, `accepted` says that the user allowed it."""

    name: str
    leaks: tuple[str, ...]
    accepted: bool = False


def check(sandbox: Sandbox, memory: Memory = "cgroup", probes: Sequence[LeakProbe] = PROBES) -> list[ProbeResult]:
    """Run every probe, several at once; SandboxDown if the machine cannot run them."""
    with outside() as facts, ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda probe: _check(sandbox, probe, facts, memory), probes))


def checked_sandbox(settings: SandboxSettings) -> Sandbox:
    """Open the sandbox of a run and refuse it if a probe leaks. A process probes each kind once."""
    sandbox = open_sandbox(settings)
    if settings in _held:
        return sandbox
    try:
        bad = [result for result in check(sandbox, settings.memory) if result.leaks and not result.accepted]
    except SandboxDown as error:
        sandbox.close()
        raise InputError(f"the sandbox does not work: {error.message}", fix=error.fix) from error
    if bad:
        sandbox.close()
        listed = "; ".join(f"{result.name}: {', '.join(result.leaks)}" for result in bad)
        raise InputError(f"the sandbox leaks: {listed}", fix="agon-judge sandbox check shows all probes")
    _held.add(settings)
    return sandbox


def _check(sandbox: Sandbox, probe: LeakProbe, facts: tuple[object, ...], memory: Memory) -> ProbeResult:
    program = HEAD.format(facts=facts, places=PLACES) + probe.program + TAIL
    limits = replace(LIMITS, cpu=0.4, wall=1.5) if probe.ending in MEASURED else LIMITS
    execution = next(sandbox.execute(program, [b""], limits))
    leaks = leaks_of(probe, execution)
    if not leaks and execution.ending in MEASURED and probe.ending not in MEASURED:
        raise SandboxDown(
            f"the probe of {probe.name} met the {execution.ending} limit before it had found anything",
            fix="run less beside it",
        )
    if not leaks and not _tried(probe, execution):
        last = execution.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        ended = f"{execution.ending}, exit code {execution.exit_code}"
        raise SandboxDown(
            f"the probe of {probe.name} did not run to its end, so it proves nothing: {last[:200] or ended}",
            fix="see whether the system's Python runs as another user: /usr/bin/python3 -c 'import ctypes, socket'",
        )
    return ProbeResult(probe.name, leaks, bool(leaks) and probe.needs_cgroup and memory == "per_process")


def leaks_of(probe: LeakProbe, execution: Execution) -> tuple[str, ...]:
    """What a run of a probe shows."""
    lines = execution.stdout.decode(errors="replace").split("\n")
    leaks = tuple(line.removeprefix("LEAK ") for line in lines if line.startswith("LEAK "))
    if probe.ending is not None and execution.finished:
        leaks += (f"no {probe.ending} limit",)
    return leaks


def _tried(probe: LeakProbe, execution: Execution) -> bool:
    """Whether a probe got as far as it should: to its end, or into the limit that it is made for."""
    if probe.ending is not None:
        return execution.ending is probe.ending
    return b"\nEND\n" in execution.stdout or execution.ending in (Ending.MEMORY, Ending.OUTPUT)


@contextmanager
def outside() -> Iterator[tuple[object, ...]]:
    """What the probes look for."""
    secret, name = secrets.token_hex(16), f"agon-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "secret").write_text(secret)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(f"\0{name}")
        unix.listen()
        os.environ["AGON_PROBE"] = secret
        try:
            port = server.getsockname()[1]
            yield secret, str(folder / "secret"), str(folder / "open"), port, name, os.getpid()
        finally:
            del os.environ["AGON_PROBE"]
            for place in PLACES:
                (Path(place) / name).unlink(missing_ok=True)
