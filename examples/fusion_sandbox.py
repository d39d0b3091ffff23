"""Judge programs on a farm of your own: a client of SandboxFusion's `POST /run_code` behind the judge's door `execute`.

    export SANDBOX_FUSION_URL=http://farm:8080
    python examples/fusion_sandbox.py                                 # judges programs whose verdict is known
    agon train CONFIG.yaml verifier=examples/fusion_sandbox.py:verify

Anything with the methods of `agon_judge.sandbox.Sandbox` is a sandbox. Programs and inputs are sent; expected outputs
stay here. SandboxFusion measures wall time, so the wall limit is sent: give the farm as many cores as programs.

Tried with an imitation of the route, written after the server's source and checked with the models of its client,
sandbox-fusion 0.3.7: every known program is judged as it should be. Not tried: the server itself, nor its image.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

from agon_judge import CodeJudge, SandboxDown, UnitTests, one_program
from agon_judge.sandbox import Ending, Execution, ProgramLimits
from agon_judge.sandbox.execution import MAX_OUTPUT

TRIES = 4
"""Of a call that fails, with pauses of 1, 2 and 4 seconds: a farm restarts its machines."""
QUEUE_SECONDS = 60.0
"""What a call may take beyond the program's own time."""


class SandboxFusion:
    """Runs programs on a SandboxFusion server. Safe to share between threads."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        for data in inputs:
            execution = self._run(program, data, limits)
            yield execution
            if execution.ending is Ending.NOT_COMPILED:
                return

    def describe(self) -> dict[str, str]:
        return {"backend": "SandboxFusion", "url": self.url}

    def close(self) -> None: ...

    def _run(self, program: str, data: bytes, limits: ProgramLimits) -> Execution:
        body = {
            "language": "python",
            "code": program.encode(errors="replace").decode(),
            "stdin": data.decode(errors="replace"),
            "run_timeout": limits.wall,
            "memory_limit_MB": limits.memory >> 20,
        }
        request = urllib.request.Request(f"{self.url}/run_code", json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        for attempt in range(TRIES):
            time.sleep(2 ** (attempt - 1) if attempt else 0)
            try:
                with urllib.request.urlopen(request, timeout=limits.wall + QUEUE_SECONDS) as answer:
                    reply = json.load(answer)
                if reply["status"] in ("Success", "Failed"):
                    return read(reply["run_result"])
                failure = f"SandboxError: {reply.get('message', '')[:100]}"
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                failure = f"{type(error).__name__}: {error}"
        raise SandboxDown(f"{self.url} ran no program: {failure}", fix="look at the server's log")


def read(result: dict[str, object]) -> Execution:
    """The server's `run_result` as an Execution: which limit ended the run is read from what the run left."""
    out, err = (str(result.get(name) or "").encode(errors="replace") for name in ("stdout", "stderr"))
    wall, code = float(result.get("execution_time") or 0.0), result.get("return_code")
    last = err.rstrip().split(b"\n")[-1]
    ending = Ending.EXITED
    if len(out) > MAX_OUTPUT:  # the server keeps 1 MiB
        ending = Ending.OUTPUT
    elif result["status"] == "TimeLimitExceeded":
        ending = Ending.WALL
    elif code and last.startswith(b"MemoryError"):
        ending = Ending.MEMORY
    elif code and not out and last.startswith((b"SyntaxError", b"IndentationError", b"TabError")):
        ending = Ending.NOT_COMPILED
    return Execution(ending, int(1 if code is None else code), out[:MAX_OUTPUT], err[-2_000:], wall=wall)


JUDGE = CodeJudge(SandboxFusion(os.environ.get("SANDBOX_FUSION_URL", "http://localhost:8080")))


async def verify(problem, completion):
    """A verifier for `agon train`: the one program of the completion, on the farm."""
    program = one_program(completion.text, opened=completion.opened)
    return await JUDGE.judge_async(program, problem.tests or UnitTests())


if __name__ == "__main__":
    print(*JUDGE.self_test() or ["every known program is judged as it should be"], sep="\n")
