"""`agon sandbox serve`: the sandbox of this machine over HTTP, for a cluster.

    GET  /healthz         no key; says that this is ours
    POST /run_code        SandboxFusion's request and reply, so that its clients work as they are
    POST /v1/run_batch    one program, many inputs

Listens on this machine unless told otherwise, and refuses to listen elsewhere without a key. Expected outputs never
come here. When more programs wait than WAITING per worker, or requests hold more than HELD bytes, it answers 429 with
Retry-After instead of keeping them.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress
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
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from agon.http_front import LOCAL, Bodies, Unacceptable, asked_by_our_name, bearer_key, server_config, weak
except ModuleNotFoundError as error:
    raise InputError(f"serving needs {error.name}", fix=install("sandbox")) from error

WAITING = 8
BODY_SECONDS = 30.0
ARRIVING = 256
"""Bodies that may arrive at once."""
HELD = 4 * MAX_BODY
"""Bytes of all requests that arrive, wait or run."""
NEW_KEY = "export AGON_SANDBOX_KEY=$(openssl rand -hex 16)"
T = TypeVar("T", bound=WireMessage)


def serve(sandbox: Sandbox, *, host: str, port: int, key: str) -> None:
    """Serve until interrupted."""
    if host not in LOCAL and not key:
        raise InputError(f"listening on {host} needs a key", fix=f"run: {NEW_KEY}; or listen on 127.0.0.1")
    if host not in LOCAL and weak(key):
        message = f"the key in AGON_SANDBOX_KEY is too easy to guess for a server on {host}"
        raise InputError(message, fix=f"use a random one: {NEW_KEY}")
    server = uvicorn.Server(server_config(application(sandbox, key), host, port, log_level="warning"))
    try:
        with suppress(KeyboardInterrupt):
            server.run()
    except SystemExit as error:  # uvicorn's way to say that it cannot listen
        raise InputError(f"cannot listen on {host}:{port}", fix="choose another with --host and --port") from error
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
        self._bodies = Bodies(largest=MAX_BODY, seconds=BODY_SECONDS, most=ARRIVING, total=HELD)
        self._waiting = 0

    async def healthz(self, request: Request) -> Response:
        return JSONResponse({"service": "agon sandbox", "waiting": self._waiting})

    async def run_code(self, request: Request) -> Response:
        async def work() -> Response:
            async with self._read(request, FusionRequest) as asked:
                data = (asked.stdin or "").encode(errors="surrogatepass")
                runs = await self._run(asked.code, [data], asked.limits())
            return JSONResponse({**FusionReply.of(runs[0]).model_dump(), "compile_result": None, "files": {}})

        return await self._answer(work)

    async def run_batch(self, request: Request) -> Response:
        async def work() -> Response:
            async with self._read(request, BatchRequest) as asked:
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

    @asynccontextmanager
    async def _read(self, request: Request, kind: type[T]) -> AsyncIterator[T]:
        """The request's body, once its key, its size and its fields are right; it counts as held until the end."""
        if not self._key and not asked_by_our_name(request.scope):
            raise Refusal(403, "without a key this service answers to 127.0.0.1 and localhost")
        if self._key and not hmac.compare_digest(bearer_key(request.scope) or b"", self._key):
            raise Refusal(401, "a bearer key is required", {"WWW-Authenticate": "Bearer"})
        self._check_room()
        try:
            async with self._bodies.read(request.scope, request.receive) as body:
                yield _parsed(body, kind)
        except Unacceptable as error:
            retry = {"Retry-After": "1"} if error.status == 429 else None
            raise Refusal(error.status, error.message, retry) from error

    def _check_room(self) -> None:
        if self._waiting >= WAITING * self._workers:
            raise Refusal(429, "too many programs are waiting", {"Retry-After": "1"})

    async def _run(self, program: str, inputs: list[bytes], limits: ProgramLimits) -> list[Execution]:
        self._check_room()
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


def _parsed(body: bytearray, kind: type[T]) -> T:
    try:
        return kind.model_validate_json(body)
    except (ValidationError, ValueError) as error:
        faults = error.errors(include_input=False, include_url=False) if isinstance(error, ValidationError) else []
        places = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5]]
        raise Refusal(422, "; ".join(places) or "not JSON") from error


JSON = "application/json"
