"""The outermost layer of the gateway: request ids, API keys, bodies, how many answers at once, the log line.

Plain ASGI, so that it sees every route, also those that do not exist. A request is refused before its body is read, and
counts as an answer once it is: a body that crawls keeps nobody from being answered.
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
from agon.deploy.serve.http_front import Bodies, Unacceptable, asked_by_our_name, bearer_key, headers, weak
from agon.deploy.serve.meters import Meters
from agon.deploy.serve.refusals import Refused, overloaded, unavailable

OPEN = ("/health", "/ready")
"""Routes that answer without a key, for load balancers; they say nothing but whether."""
ANSWERS = "/v1/chat/completions"
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
LEFT = 499
"""Logged where a client left before its answer; nobody receives it."""
BODIES, BODIES_IN_BYTES = 1024, 64
"""How many bodies may arrive at once, and how many of the largest size."""
log = logging.getLogger("agon.deploy.serve")


class Keys:
    """API keys, held as hashes. All are compared, so that the time says nothing about which one was close."""

    def __init__(self, keys: Iterable[str]) -> None:
        given = [key for key in keys if key]
        self._digests = [_digest(key.encode()) for key in given]
        self.weak = any(map(weak, given))
        """Whether strangers could guess one of them."""

    def __bool__(self) -> bool:
        return bool(self._digests)

    def identify(self, scope: Scope) -> str | None:
        """The number of a request's key, counted from 1, or None; without keys everybody is `-`."""
        if not self._digests:
            return "-"
        digest = _digest(bearer_key(scope) or b"")
        known = [hmac.compare_digest(digest, each) for each in self._digests]
        return str(known.index(True) + 1) if any(known) else None


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

    def check(self, key: str, settings: GatewaySettings) -> None:
        """Refuse an answer that there is no room for."""
        if self.refusing:
            raise unavailable("this gateway is shutting down")
        if settings.per_key is not None and self.by_key[key] >= settings.per_key:
            raise overloaded(f"this key has {settings.per_key} requests at work already")
        if self.at_work >= self.capacity:
            raise overloaded("too many requests are waiting")

    def enter(self, key: str, settings: GatewaySettings) -> None:
        """Count an answer in, or refuse it."""
        self.check(key, settings)
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
        largest = settings.max_body
        self._bodies = Bodies(
            largest=largest, seconds=settings.body_seconds, most=BODIES, total=BODIES_IN_BYTES * largest
        )

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
            exchange.status = 500
        finally:
            self._report(exchange)

    async def _admit(self, exchange: _Exchange, receive: Receive) -> None:
        scope = exchange.scope
        if not self._keys and not asked_by_our_name(scope):
            raise Refused(403, "without a key this server answers to 127.0.0.1 and localhost", code="foreign_host")
        key = "-" if scope["path"] in OPEN else self._keys.identify(scope)
        if key is None:
            raise Refused(401, "a valid API key is required", code="invalid_api_key")
        exchange.key = key
        if scope["path"] != ANSWERS or scope["method"] != "POST":
            await self._app(scope, receive, exchange.send)
            return
        self._traffic.check(key, self._settings)
        try:
            async with self._bodies.read(scope, receive) as read:
                body = bytes(read)
        except Unacceptable as error:
            retry = 1.0 if error.status == 429 else None
            raise Refused(error.status, error.message, code=error.code, retry_after=retry) from error
        self._traffic.enter(key, self._settings)
        self._meters.in_flight.inc()
        try:
            await self._app(scope, _replay(body, receive), exchange.send)
        finally:
            self._meters.in_flight.dec()
            self._traffic.leave(key)

    def _report(self, exchange: _Exchange) -> None:
        seconds, scope = time.monotonic() - exchange.began, exchange.scope
        facts = scope.get("agon", {})
        exchange.status = facts.pop("failed", exchange.status)  # a stream that broke off has said 200
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
        given = [value.decode("latin-1") for value in headers(scope, b"x-request-id")]
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
        fields = [(b"content-type", b"application/json"), (b"content-length", str(len(refusal.json)).encode())]
        fields += [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
        await self.send({"type": "http.response.start", "status": refusal.status, "headers": fields})
        await self.send({"type": "http.response.body", "body": refusal.json})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more for the application, then whatever comes: a disconnect."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
