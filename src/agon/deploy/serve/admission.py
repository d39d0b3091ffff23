"""The outermost layer of the gateway: request ids, API keys, how many answers at once, size of a body, the log line.

Plain ASGI, so that it sees every route, also those that do not exist, and decides before a body is read.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.meters import Meters
from agon.deploy.serve.refusals import Refused, overloaded, unavailable

OPEN = ("/health", "/ready")
"""Routes that answer without a key, for load balancers; they say nothing but whether."""
ANSWERS = "/v1/chat/completions"
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
LEFT = 499
"""Logged where a client left before its answer; nobody receives it."""
log = logging.getLogger("agon.deploy.serve")


class Keys:
    """API keys, held as hashes. All are compared, so that the time says nothing about which one was close."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys if key]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def identify(self, given: list[bytes]) -> str | None:
        """A short name for the key in an Authorization header, or None; without keys everybody is `-`."""
        if not self._digests:
            return "-"
        if len(given) != 1 or not given[0].lower().startswith(b"bearer "):
            return None
        digest = _digest(given[0][7:].strip())
        known = [hmac.compare_digest(digest, each) for each in self._digests]
        return digest.hex()[:8] if any(known) else None


@dataclass(slots=True)
class Traffic:
    """What a gateway does at the moment."""

    capacity: int
    draining: bool = False
    refusing: bool = False
    """Set some seconds after `draining`: new answers are refused."""
    at_work: int = 0
    by_key: Counter[str] = field(default_factory=Counter)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def enter(self, key: str, settings: GatewaySettings) -> None:
        """Count an answer in, or refuse it."""
        if self.refusing:
            raise unavailable("this gateway is shutting down")
        if settings.per_key is not None and self.by_key[key] >= settings.per_key:
            raise overloaded(f"this key has {settings.per_key} requests at work already")
        if self.at_work >= self.capacity:
            raise overloaded("too many requests are waiting")
        self.at_work += 1
        self.by_key[key] += 1
        self.idle.clear()

    def leave(self, key: str) -> None:
        self.at_work -= 1
        self.by_key[key] -= 1
        if not self.by_key[key]:
            del self.by_key[key]
        if not self.at_work:
            self.idle.set()


class Admission:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, keys: Keys, settings: GatewaySettings, traffic: Traffic, meters: Meters) -> None:
        self._app, self._keys, self._settings = app, keys, settings
        self._traffic, self._meters = traffic, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send, self._traffic)
        try:
            await self._admit(exchange, receive)
        except Refused as refusal:
            await exchange.refuse(refusal)
        except asyncio.CancelledError:
            exchange.status = exchange.status or LEFT
            raise
        except Exception:
            log.exception("failed", extra={"request_id": exchange.id})
            await exchange.refuse(Refused(500, "internal error", code="internal_error"))
        finally:
            self._report(exchange)

    async def _admit(self, exchange: _Exchange, receive: Receive) -> None:
        scope = exchange.scope
        key = "-" if scope["path"] in OPEN else self._keys.identify(_headers(scope, b"authorization"))
        if key is None:
            raise Refused(401, "a valid API key is required", code="invalid_api_key")
        exchange.key = key
        counted = scope["path"] == ANSWERS and scope["method"] == "POST"
        if counted:
            self._traffic.enter(key, self._settings)
            self._meters.in_flight.inc()
        try:
            body = await _body(scope, receive, self._settings)
            await self._app(scope, _replay(body, receive), exchange.send)
        finally:
            if counted:
                self._meters.in_flight.dec()
                self._traffic.leave(key)

    def _report(self, exchange: _Exchange) -> None:
        seconds, scope = time.monotonic() - exchange.began, exchange.scope
        facts = scope.get("agon", {})
        if facts.pop("left", False):
            exchange.status = LEFT
            self._meters.left.inc()
        if scope["path"] == ANSWERS:
            self._meters.answered(str(facts.get("model", "other")), exchange.status, seconds)
        elif exchange.status < 400:
            return
        line = {"request_id": exchange.id, "key": exchange.key, "method": scope["method"], "path": scope["path"][:100]}
        log.info("request", extra={**line, "status": exchange.status, "seconds": round(seconds, 4), **facts})


class _Exchange:
    """One request and the start of its answer."""

    def __init__(self, scope: Scope, send: Send, traffic: Traffic) -> None:
        given = [value.decode("latin-1") for value in _headers(scope, b"x-request-id")]
        valid = len(given) == 1 and REQUEST_ID.fullmatch(given[0])
        self.id = given[0] if valid else uuid.uuid4().hex
        self.scope, self._send, self._traffic = scope, send, traffic
        self.key, self.status, self.began = "", 0, time.monotonic()
        scope.setdefault("state", {})["request_id"] = self.id

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            extra = [(b"x-request-id", self.id.encode())]
            if self._traffic.refusing or self.status == 408:
                extra.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await self._send(message)

    async def refuse(self, refusal: Refused) -> None:
        """Answer with an error; a stream that has begun carries its own."""
        if self.status:
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(refusal.json)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": refusal.json})


async def _body(scope: Scope, receive: Receive, settings: GatewaySettings) -> bytes:
    """The whole body, if it is JSON, small enough and in time."""
    if scope["method"] not in ("POST", "PUT", "PATCH"):
        return b""
    kinds = _headers(scope, b"content-type")
    if scope["path"] == ANSWERS and [kind.split(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
        raise Refused(415, "send application/json", code="unsupported_media_type")
    too_large = Refused(413, f"the body is larger than {settings.max_body} bytes", code="body_too_large")
    length = _headers(scope, b"content-length")
    if length and (not length[0].isdigit() or int(length[0]) > settings.max_body):
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(settings.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refused(400, "the client left", code="disconnected")
                body += message.get("body", b"")
                if len(body) > settings.max_body:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise Refused(408, "the body did not arrive in time", code="body_timeout") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for the application, then whatever comes: a disconnect."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def _headers(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
