"""`agon sandbox serve`: the sandbox of this machine over HTTP, for a cluster.

    GET  /healthz         no key; says that this is ours
    POST /run_code        SandboxFusion's request and reply, so that its clients work as they are
    POST /v1/run_batch    one program, many inputs

Listens on this machine unless told otherwise, and refuses to listen elsewhere without a key. Expected outputs never
come here. When more programs wait than WAITING per worker, it answers 429 with Retry-After instead of keeping them.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TypeVar

from pydantic import ValidationError

from agon.errors import InputError, install
from agon.sandbox.execution import Execution, ProgramLimits, Sandbox, SandboxDown
from agon.sandbox.wire import (
    MAX_BODY,
    BatchReply,
    BatchRequest,
    FusionReply,
    FusionRequest,
    RunReply,
    WireMessage,
    decode,
)

try:
    import uvicorn
    from anyio import CapacityLimiter, to_thread
    from starlette.applications import Starlette
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
except ModuleNotFoundError as error:
    raise InputError(f"serving needs {error.name}", fix=install("sandbox")) from error

WAITING = 8
BODY_SECONDS = 30.0
LOCAL = ("127.0.0.1", "::1", "localhost")
T = TypeVar("T", bound=WireMessage)


def serve(sandbox: Sandbox, *, host: str, port: int, key: str) -> None:
    """Serve until interrupted."""
    if host not in LOCAL and not key:
        raise InputError(f"listening on {host} needs a key", fix="set AGON_SANDBOX_KEY, or listen on 127.0.0.1")
    try:
        uvicorn.run(application(sandbox, key), host=host, port=port, log_level="warning", timeout_keep_alive=5)
    finally:
        sandbox.close()


def application(sandbox: Sandbox, key: str, workers: int | None = None) -> Starlette:
    """The routes over one sandbox."""
    service = Service(sandbox, key, workers or int(sandbox.describe().get("workers", "1")))
    return Starlette(
        routes=[
            Route("/healthz", service.healthz),
            Route("/run_code", service.run_code, methods=["POST"]),
            Route("/v1/run_batch", service.run_batch, methods=["POST"]),
        ]
    )


class Refusal(Exception):
    """A request that is answered without running anything."""

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        self.response = JSONResponse({"detail": detail}, status, headers)


class Service:
    """Checks requests, bounds what waits, runs programs in threads."""

    def __init__(self, sandbox: Sandbox, key: str, workers: int) -> None:
        self._sandbox, self._key, self._workers = sandbox, key.encode(), workers
        self._threads = CapacityLimiter(workers)
        self._waiting = 0

    async def healthz(self, request: Request) -> Response:
        return JSONResponse({"service": "agon sandbox", "waiting": self._waiting})

    async def run_code(self, request: Request) -> Response:
        async def work() -> Response:
            asked = await self._read(request, FusionRequest)
            data = (asked.stdin or "").encode(errors="surrogatepass")
            runs = await self._run(asked.code, [data], asked.limits())
            return JSONResponse({**FusionReply.of(runs[0]).model_dump(), "compile_result": None, "files": {}})

        return await self._answer(work)

    async def run_batch(self, request: Request) -> Response:
        async def work() -> Response:
            asked = await self._read(request, BatchRequest)
            try:
                inputs = [decode(text) for text in asked.inputs]
            except ValueError as error:
                raise Refusal(422, f"inputs: {error}") from error
            runs = await self._run(asked.program, inputs, asked.limits())
            return Response(BatchReply(executions=list(map(RunReply.of, runs))).model_dump_json(), media_type=JSON)

        return await self._answer(work)

    async def _answer(self, work: Callable[[], Awaitable[Response]]) -> Response:
        try:
            return await work()
        except Refusal as refusal:
            return refusal.response
        except SandboxDown as error:
            return JSONResponse({"status": "SandboxError", "message": error.message}, 503, {"Retry-After": "1"})

    async def _read(self, request: Request, kind: type[T]) -> T:
        """The request's body, once its key, its size and its fields are right."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        if self._key and not hmac.compare_digest(given, self._key):
            raise Refusal(401, "a bearer key is required", {"WWW-Authenticate": "Bearer"})
        if self._waiting >= WAITING * self._workers:
            raise Refusal(429, "too many programs are waiting", {"Retry-After": "1"})
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_BODY:
                        raise Refusal(413, f"more than {MAX_BODY >> 20} MiB")
        except (TimeoutError, ClientDisconnect) as error:
            raise Refusal(408, "the body did not arrive in time") from error
        try:
            return kind.model_validate_json(bytes(body))
        except (ValidationError, ValueError) as error:
            faults = error.errors(include_input=False, include_url=False) if isinstance(error, ValidationError) else []
            places = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5]]
            raise Refusal(422, "; ".join(places) or "not JSON") from error

    async def _run(self, program: str, inputs: list[bytes], limits: ProgramLimits) -> list[Execution]:
        self._waiting += 1
        try:
            return await to_thread.run_sync(self._run_all, program, inputs, limits, limiter=self._threads)
        finally:
            self._waiting -= 1

    def _run_all(self, program: str, inputs: list[bytes], limits: ProgramLimits) -> list[Execution]:
        """Run on each input, up to the first that does not finish by itself."""
        runs: list[Execution] = []
        with closing(self._sandbox.execute(program, inputs, limits)) as executions:  # type: ignore[type-var]
            for run in executions:
                runs.append(run)
                if not run.finished:
                    break
        return runs


JSON = "application/json"
