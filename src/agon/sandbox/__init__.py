"""Runs programs that nobody trusts, and grades them. Knows nothing of the game; usable alone (docs/sandbox.md).

    grade = agon.sandbox.run("print(sum(map(int, input().split())))", [("1 2", "3"), ("4 5", "9")])

The names below are imported when they are first used: a config names a sandbox without loading one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agon.sandbox.execution import Ending, Execution, ProgramLimits, Sandbox, SandboxDown
    from agon.sandbox.grade import Case, Grade, GradeReason, run
    from agon.sandbox.host import HostSandbox
    from agon.sandbox.settings import SandboxSettings, open_sandbox

__all__ = [
    "Case",
    "Ending",
    "Execution",
    "Grade",
    "GradeReason",
    "HostSandbox",
    "ProgramLimits",
    "Sandbox",
    "SandboxDown",
    "SandboxSettings",
    "open_sandbox",
    "run",
]

_HOMES = {
    "Case": "grade",
    "Grade": "grade",
    "GradeReason": "grade",
    "HostSandbox": "host",
    "SandboxSettings": "settings",
    "open_sandbox": "settings",
    "run": "grade",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'agon.sandbox' has no attribute {name!r}")
    return getattr(import_module(f"agon.sandbox.{_HOMES.get(name, 'execution')}"), name)
