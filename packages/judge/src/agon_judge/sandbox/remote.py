"""The `http` backend: a service that speaks SandboxFusion's protocol, or ours (`agon-judge sandbox serve`).

Only programs and inputs are sent; outputs are compared here. Every call has a deadline. What may be temporary (no
connection, 429, 5xx, a malformed reply, SandboxError) is tried again with longer and longer pauses, or the pause that
the service asks for. After FAILURES in a row nothing is sent for a while. Once a minute, and before the first program,
canaries run: programs whose output is known only here; a service that gets them wrong is a machine that failed, and no
program is judged by it.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

import httpx2
from pydantic import ValidationError

from agon_judge.errors import InputError
from agon_judge.sandbox.execution import MAX_PROGRAM, Ending, Execution, ProgramLimits, SandboxDown
from agon_judge.sandbox.wire import MAX_BODY, BatchReply, FusionReply, WireMessage, encode

KEY = "AGON_SANDBOX_KEY"
WORKERS = 64
CANARY_SECONDS, REST_SECONDS = 60.0, 10.0
FAILURES = 5
"""Calls that fail in a row before the service is left alone for REST_SECONDS."""
GRACE_SECONDS = 60.0
"""What a call may take beyond the wall time of its programs: queueing, starting, sending."""
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)
LONGEST_PAUSE = 10.0
LARGEST_CHUNK = 32
"""Inputs per call of our own service; a program that fails early should not run them all."""
T = TypeVar("T", bound=WireMessage)


class RemoteSandbox:
    """Runs programs on a service. `workers` is how many calls may be open at once."""

    def __init__(self, url: str, *, workers: int | None = None, grace: float = GRACE_SECONDS) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(
                f"{url!r} is not an HTTP address", fix="use --url http://HOST:PORT (in a config: sandbox.url)"
            )
        if "@" in url:
            raise InputError("the address holds a password, which a run would store", fix=f"put a key in {KEY} instead")
        self.url, self._grace = url.rstrip("/"), grace
        self._workers = workers or WORKERS
        self._calls = threading.BoundedSemaphore(self._workers)
        key = os.environ.get(KEY, "").strip()
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=httpx2.Limits(max_connections=self._workers, keepalive_expiry=3.0),
            trust_env=False,
        )
        self._lock = threading.RLock()
        self._failures, self._rest_until, self._canary_due = 0, 0.0, 0.0
        self._batches: bool | None = None

    def execute(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        if len(program.encode(errors="surrogatepass")) > MAX_PROGRAM:
            yield Execution(Ending.NOT_COMPILED, stderr=f"longer than {MAX_PROGRAM:,} bytes".encode())
            return
        with self._calls:
            self._check_canaries()
            yield from self._run(program, inputs, limits)

    def describe(self) -> dict[str, str]:
        self._check_canaries()
        return {
            "backend": "http",
            "url": self.url,
            "service": "agon sandbox serve" if self._batches else "SandboxFusion's protocol",
            "key": "sent" if "Authorization" in self._client.headers else "none",
            "workers": str(self._workers),
        }

    def close(self) -> None:
        self._client.close()

    def _run(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> Iterator[Execution]:
        program = program.encode(errors="replace").decode()  # a lone surrogate is no text for JSON, nor for Python
        if not self._batches:
            for data in inputs:
                yield self._run_one(program, data, limits)
            return
        start, size = 0, 1
        while start < len(inputs):
            sent = inputs[start : start + _fitting(inputs[start : start + size])]
            runs = self._run_batch(program, sent, limits)
            yield from runs
            if any(not run.finished for run in runs):
                return
            start, size = start + len(sent), min(2 * size, LARGEST_CHUNK)

    def _run_batch(self, program: str, inputs: Sequence[bytes], limits: ProgramLimits) -> list[Execution]:
        body = {
            "program": program, "inputs": [encode(data) for data in inputs],
            "cpu": limits.cpu, "wall": limits.wall, "memory": limits.memory,
        }  # fmt: skip

        def read(reply: BatchReply) -> list[Execution] | None:
            runs = [run.execution() for run in reply.executions]
            complete = len(runs) == len(inputs) or (runs and not runs[-1].finished and len(runs) < len(inputs))
            return runs if complete else None

        return self._call("/v1/run_batch", body, BatchReply, read, len(inputs) * limits.wall)

    def _run_one(self, program: str, data: bytes, limits: ProgramLimits) -> Execution:
        body = {
            "code": program, "language": "python", "stdin": data.decode(errors="replace"),
            "run_timeout": limits.cpu, "compile_timeout": limits.cpu, "memory_limit_MB": limits.memory >> 20,
        }  # fmt: skip
        return self._call("/run_code", body, FusionReply, FusionReply.execution, limits.wall)

    def _call(
        self, path: str, body: dict[str, object], kind: type[T], read: Callable[[T], R | None], seconds: float
    ) -> R:
        """Send until a reply is read or the deadline is over; SandboxDown then."""
        deadline, attempt = time.monotonic() + seconds + self._grace, 0
        while True:
            attempt += 1
            self._refuse_while_resting()
            status, data, pause = self._send(path, body, deadline)
            result = None
            if status == 200:
                try:
                    result = read(kind.model_validate_json(data))
                except (ValidationError, ValueError):
                    status = 502
            if result is not None:
                self._succeeded()
                return result
            if status not in (200, *TEMPORARY) and status > 0:
                raise SandboxDown(f"{self.url}{path} answers {status}: {data[:100]!r}", fix=REFUSED.get(status, SEE))
            if status != 429:  # a full queue is not a fault
                self._failed()
            wait = min(pause or 0.1 * 2**attempt * random.uniform(0.5, 1.0), LONGEST_PAUSE)
            if time.monotonic() + wait > deadline:
                raise SandboxDown(f"{self.url}{path} gives no result (last status {status or 'none'})", fix=SEE)
            time.sleep(wait)

    def _send(self, path: str, body: dict[str, object], deadline: float) -> tuple[int, bytes, float]:
        """Status (0 for no reply), body, and the pause that the service asks for."""
        limit = max(0.1, deadline - time.monotonic())
        try:
            with self._client.stream("POST", self.url + path, json=body, timeout=limit) as response:
                data = bytearray()
                for chunk in response.iter_bytes():
                    data += chunk
                    if len(data) > MAX_BODY or time.monotonic() > deadline:
                        return 0, b"", 0.0
                asked = response.headers.get("Retry-After", "")
                return response.status_code, bytes(data), float(asked) if asked.isdecimal() else 0.0
        except httpx2.HTTPError:
            return 0, b"", 0.0

    def _refuse_while_resting(self) -> None:
        with self._lock:
            if time.monotonic() < self._rest_until:
                raise SandboxDown(f"{self.url} failed {FAILURES} times in a row and is left alone for a while", fix=SEE)

    def _failed(self) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES:
                self._failures, self._canary_due = 0, 0.0
                self._rest_until = time.monotonic() + REST_SECONDS

    def _succeeded(self) -> None:
        with self._lock:
            self._failures = 0

    def _check_canaries(self) -> None:
        """Run the canaries if they are due; one thread does it, the others wait."""
        with self._lock:
            if time.monotonic() < self._canary_due:
                return
            if self._batches is None:
                self._batches = self._offers_batches()
            first, second = secrets.randbelow(10**9), secrets.randbelow(10**9)
            data, limits = f"{first} {second}".encode(), ProgramLimits(cpu=5.0)
            right = next(self._run("a, b = map(int, input().split())\nprint(a * b)", [data], limits))
            wrong = next(self._run("print(input())\nraise SystemExit(3)", [data], limits))
            if not right.finished or right.stdout.split() != [str(first * second).encode()]:
                raise SandboxDown(f"{self.url} does not run a right program correctly: {right.ending}", fix=SEE)
            if wrong.exit_code != 3 or wrong.stdout.split() != data.split():
                raise SandboxDown(f"{self.url} does not report a program's exit code", fix=SEE)
            self._canary_due = time.monotonic() + CANARY_SECONDS

    def _offers_batches(self) -> bool:
        try:
            reply = self._client.get(self.url + "/healthz", timeout=10.0)
            return reply.status_code == 200 and "agon" in reply.text[:200]
        except httpx2.HTTPError:
            return False


def _fitting(inputs: Sequence[bytes]) -> int:
    """How many inputs fit into one body, as base64 and beside a program; one is always sent."""
    return max(1, sum(size <= MAX_BODY * 3 // 8 for size in accumulate(map(len, inputs))))


R = TypeVar("R")
SEE = "look at the service, then: agon-judge sandbox check --backend http --url URL"
REFUSED = {401: f"set {KEY} to the key of the service", 403: f"set {KEY} to the key of the service"}
