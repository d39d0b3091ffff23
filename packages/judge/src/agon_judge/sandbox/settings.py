"""Which sandbox to open: the values of the config section `sandbox`, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agon_judge.errors import InputError
from agon_judge.sandbox.execution import Memory, Sandbox

BackendName = Literal["bwrap", "landlock", "http", "unsafe"]


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """See docs/sandbox.md for what each backend stops."""

    backend: BackendName = "bwrap"
    memory: Memory = "cgroup"
    workers: int | None = None
    url: str | None = None
    time_factor: float = 2.0


def open_sandbox(settings: SandboxSettings) -> Sandbox:
    """Start the sandbox; InputError if it cannot work on this machine."""
    if settings.backend != "http":
        from agon_judge.sandbox.host import HostSandbox

        return HostSandbox(settings.backend, memory=settings.memory, workers=settings.workers)
    if settings.url is None:
        raise InputError(
            "the backend http needs the address of a server",
            fix="use --url http://HOST:PORT (in a config: sandbox.url)",
        )
    from agon_judge.sandbox.remote import RemoteSandbox

    return RemoteSandbox(settings.url, workers=settings.workers)
