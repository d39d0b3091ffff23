"""What goes over HTTP: SandboxFusion's `POST /run_code`, and our own `POST /v1/run_batch`, one program and many inputs.

Expected outputs are in neither. Bytes travel as base64 in the batch; SandboxFusion's fields are text.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agon_judge.sandbox.execution import LEAST_MEMORY, MAX_OUTPUT, MIB, MOST_MEMORY, Ending, Execution, ProgramLimits

MAX_INPUTS = 256
MAX_BODY = 64 * MIB
Seconds = Annotated[float, Field(gt=0, le=120)]
Wall = Annotated[float, Field(gt=0, le=241)]
"""Up to twice as many and one more, as both routes and the code judge give."""


class WireMessage(BaseModel):
    """Frozen; unknown keys are ignored, since either side may be newer."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class BatchRequest(WireMessage):
    """A program, its inputs in base64, and its limits."""

    program: str
    inputs: list[str] = Field(min_length=1, max_length=MAX_INPUTS)
    cpu: Seconds = 2.0
    wall: Wall = 10.0
    memory: int = Field(default=512 * MIB, ge=LEAST_MEMORY, le=MOST_MEMORY)

    def limits(self) -> ProgramLimits:
        return ProgramLimits(self.cpu, self.wall, self.memory)


class RunReply(WireMessage):
    """One execution."""

    ending: Ending
    exit_code: int
    stdout: str
    stderr: str
    cpu: float
    wall: float
    peak_memory: int

    @classmethod
    def of(cls, run: Execution) -> RunReply:
        out, err = encode(run.stdout), encode(run.stderr)
        return cls(
            ending=run.ending, exit_code=run.exit_code, stdout=out, stderr=err, cpu=run.cpu, wall=run.wall,
            peak_memory=run.peak_memory,
        )  # fmt: skip

    def execution(self) -> Execution:
        out, err = decode(self.stdout), decode(self.stderr)
        return Execution(self.ending, self.exit_code, out, err, self.cpu, self.wall, self.peak_memory)


class BatchReply(WireMessage):
    """Executions in the order of the inputs; fewer if one did not finish by itself, since grading would stop there."""

    executions: list[RunReply]


class FusionRequest(WireMessage):
    """SandboxFusion's request; what we do not offer is refused rather than ignored."""

    code: str
    language: Literal["python"]
    stdin: str | None = ""
    run_timeout: Seconds = 10.0
    memory_limit_MB: int = Field(default=-1, le=MOST_MEMORY // MIB)
    files: dict[str, str | None] = Field(default={}, max_length=0)
    fetch_files: list[str] = Field(default=[], max_length=0)

    def limits(self) -> ProgramLimits:
        memory = self.memory_limit_MB * MIB if self.memory_limit_MB > 0 else ProgramLimits().memory
        return ProgramLimits(self.run_timeout, 2 * self.run_timeout + 1, memory)


class FusionRun(WireMessage):
    """SandboxFusion's `run_result`."""

    status: Literal["Finished", "Error", "TimeLimitExceeded"]
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class FusionReply(WireMessage):
    """SandboxFusion's reply."""

    status: Literal["Success", "Failed", "SandboxError"]
    message: str = ""
    run_result: FusionRun | None = None

    @classmethod
    def of(cls, run: Execution) -> FusionReply:
        late = run.ending in (Ending.CPU, Ending.WALL)
        result = FusionRun(
            status="TimeLimitExceeded" if late else "Finished",
            execution_time=run.wall,
            return_code=None if late else run.exit_code if run.ending is Ending.EXITED else 1,
            stdout=run.stdout.decode(errors="replace"),
            stderr=run.stderr.decode(errors="replace"),
        )
        return cls(status="Success" if run.finished else "Failed", run_result=result)

    def execution(self) -> Execution | None:
        """The run that a reply describes; None if the service failed."""
        result = self.run_result
        if self.status == "SandboxError" or result is None or result.status == "Error":
            return None
        out, err = (result.stdout or "").encode(errors="surrogatepass"), (result.stderr or "").encode(errors="replace")
        code, wall = result.return_code if result.return_code is not None else 1, result.execution_time or 0.0
        if result.status == "TimeLimitExceeded":
            return Execution(Ending.WALL, code, out[:MAX_OUTPUT], err[-2000:], wall=wall)
        last = err.rstrip().split(b"\n")[-1]
        ending = Ending.EXITED
        if len(out) > MAX_OUTPUT:
            ending = Ending.OUTPUT
        elif code and last.startswith(b"MemoryError"):
            ending = Ending.MEMORY
        elif code and not out and last.startswith((b"SyntaxError", b"IndentationError", b"TabError")):
            ending = Ending.NOT_COMPILED
        return Execution(ending, code, out[:MAX_OUTPUT], err[-2000:], wall=wall)


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode(text: str) -> bytes:
    """Raises ValueError for what is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
