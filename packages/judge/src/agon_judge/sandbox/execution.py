"""What every backend takes and gives: a program, its inputs and limits; one `Execution` per input.

A backend sees inputs and returns bytes. It never sees an expected output, so nothing that runs in a box can know one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from agon_judge.errors import SandboxDown as SandboxDown
from agon_judge.unit_tests import MAX_OUTPUT as MAX_OUTPUT

Backend = Literal["bwrap", "landlock"]
"""How a box is closed: with namespaces, or without where they are forbidden."""
Memory = Literal["cgroup", "per_process"]
"""What a memory limit bounds: the whole box, or each of its processes."""
MIB = 1 << 20
LEAST_MEMORY, MOST_MEMORY = 32 * MIB, 16 * 1024 * MIB
"""Bounds of a memory limit: below them no interpreter starts, above them a program could take any machine's memory."""
MAX_PROGRAM = 1_000_000
"""Bytes of a program's source."""


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """What one run of a program may use. `cpu` judges; `wall` ends programs that sleep."""

    cpu: float = 2.0
    """Seconds of CPU time per input, of all processes together."""
    wall: float = 10.0
    """Seconds of wall time per input, without those in which the program was ready to run and had no core."""
    memory: int = 512 * MIB
    """Bytes: of the whole box with a cgroup, of each process without."""


class Ending(StrEnum):
    """How a run ended."""

    EXITED = "exited"
    CPU = "cpu"
    WALL = "wall"
    MEMORY = "memory"
    OUTPUT = "output"
    NOT_COMPILED = "not_compiled"


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a program on one input. `exit_code` is negative for a signal and means little unless it exited."""

    ending: Ending
    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    cpu: float = 0.0
    wall: float = 0.0
    peak_memory: int = 0

    @property
    def finished(self) -> bool:
        """Whether the program ended by itself, without an error."""
        return self.ending is Ending.EXITED and self.exit_code == 0


class Sandbox(Protocol):
    """Runs programs; safe to share between threads."""

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        """Run a program on one input after the other, as long as the caller asks; SandboxDown if the machine fails.

        No run sees anything of the run before. A program that does not compile gives one Execution that says so.
        """
        ...

    def describe(self) -> dict[str, str]:
        """What protects this machine from a program, by name, in words."""
        ...

    def close(self) -> None:
        """End every process that the sandbox started."""
        ...
