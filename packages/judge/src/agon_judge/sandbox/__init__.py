"""Runs programs that nobody trusts, and judges them by their output (docs/sandbox.md).

    verdict = agon_judge.sandbox.run("print(sum(map(int, input().split())))", [("1 2", "3"), ("4 5", "9")])

The names below are imported when they are first used: a config names a sandbox without loading one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon_judge.sandbox.execution import Ending, Execution, ProgramLimits, Sandbox, SandboxDown
    from agon_judge.sandbox.grade import run
    from agon_judge.sandbox.host import HostSandbox
    from agon_judge.sandbox.settings import SandboxSettings, open_sandbox

__all__ = [
    "Ending",
    "Execution",
    "HostSandbox",
    "ProgramLimits",
    "Sandbox",
    "SandboxDown",
    "SandboxSettings",
    "open_sandbox",
    "run",
]

_HOMES = {
    "HostSandbox": "host",
    "SandboxSettings": "settings",
    "open_sandbox": "settings",
    "run": "grade",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'agon_judge.sandbox' has no attribute {name!r}")
    return getattr(import_module(f"agon_judge.sandbox.{_HOMES.get(name, 'execution')}"), name)
