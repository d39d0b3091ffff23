"""Which sandbox to open: the values of the config section `sandbox`, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

from agon_judge.sandbox.execution import Backend, Memory, Sandbox


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """See docs/sandbox.md for what each backend stops."""

    backend: Backend = "bwrap"
    memory: Memory = "cgroup"
    workers: int | None = None
    time_factor: float = 2.0


def open_sandbox(settings: SandboxSettings) -> Sandbox:
    """Start the sandbox; InputError if it cannot work on this machine."""
    from agon_judge.sandbox.host import HostSandbox

    return HostSandbox(settings.backend, memory=settings.memory, workers=settings.workers)
