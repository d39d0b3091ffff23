"""The gateway's routes: OpenAI's chat completions over the cascade of a pair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from agon.deploy.serve.admission import Admission, Keys
from agon.deploy.serve.answering import LONG, Inquiry
from agon.deploy.serve.chat_answer import ChatAnswer, Gateway
from agon.deploy.serve.chat_request import MODELS, ChatRequest, parse_request
from agon.deploy.serve.refusals import Refused, unavailable

INSTEAD = "this server answers POST /v1/chat/completions, since the pair needs its own prompts"


def application(gateway: Gateway, keys: Keys) -> Admission:
    """The routes, behind admission."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        gateway.replicas.launch()
        yield
        await gateway.replicas.close()

    app = FastAPI(title="Agon", lifespan=running, docs_url=None, redoc_url=None)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(Exception, _internal_error)
    _add_state_routes(app, gateway)
    _add_chat_routes(app, gateway)
    return Admission(app, keys, gateway.settings, gateway.traffic, gateway.meters)


def _add_state_routes(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", responses={503: {}})
    async def ready() -> dict[str, str]:
        if gateway.traffic.draining or not gateway.replicas.up:
            raise unavailable("shutting down" if gateway.traffic.draining else "no server is up")
        return {"status": "ready"}

    @app.get("/metrics")
    async def metrics() -> Response:
        gateway.meters.waiting.set(gateway.replicas.waiting)
        return Response(gateway.meters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_chat_routes(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/models")
    async def models() -> dict[str, object]:
        return {"object": "list", "data": [_model(name, gateway) for name in MODELS]}

    @app.get("/v1/models/{name}", responses={404: {}})
    async def model(name: str) -> dict[str, object]:
        if name not in MODELS:
            raise Refused(404, "there is no such model", code="model_not_found", param="model")
        return _model(name, gateway)

    schema = ChatRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    parts = schema.pop("$defs", {})
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    statuses = (400, 404, 408, 413, 415, 429, 502, 503, 504)
    replies: dict[int | str, dict[str, Any]] = {status: {} for status in statuses}

    @app.post("/v1/chat/completions", openapi_extra={"requestBody": body}, responses=replies)
    async def chat(request: Request) -> Response:
        asked = parse_request(await request.body())
        request.scope["agon"] = {"model": asked.model if asked.model in MODELS else "other"}
        inquiry = await _beside_the_loop(gateway.understand, asked, request.state.request_id)
        return await ChatAnswer(gateway, asked, inquiry, request.scope["agon"]).reply(request.receive)

    made = app.openapi
    app.openapi = lambda: _with_schemas(made(), parts)  # type: ignore[method-assign]


async def _beside_the_loop(
    understand: Callable[[ChatRequest, str], Inquiry], asked: ChatRequest, request_id: str
) -> Inquiry:
    """Long prompts and new layouts take a thread: rendering them would hold up everybody's streams."""
    if len(asked.messages) > 1 or len(asked.question) > LONG:
        return await asyncio.to_thread(understand, asked, request_id)
    return understand(asked, request_id)


def _model(name: str, gateway: Gateway) -> dict[str, object]:
    made = {"id": name, "object": "model", "created": 0, "owned_by": "agon"}
    return {**made, "max_model_len": gateway.replicas.context or None}


def _with_schemas(document: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    document.setdefault("components", {}).setdefault("schemas", {}).update(parts)
    return document


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse(error.body, error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Routes that do not exist, in OpenAI's shape."""
    assert isinstance(error, HTTPException)
    hint = INSTEAD if request.url.path in ("/v1/completions", "/v1/responses") else str(error.detail)
    refusal = Refused(error.status_code, hint, code="not_found" if error.status_code == 404 else "not_allowed")
    return JSONResponse(refusal.body, error.status_code, error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    return JSONResponse(Refused(500, "internal error", code="internal_error").body, 500)
