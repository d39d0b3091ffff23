"""Why a request is not answered, in OpenAI's shape. A client's mistake is never a 5xx, a server's never a 4xx."""

from __future__ import annotations

import json


class Refused(Exception):
    """An answer with a status and an error object; `retry_after` in seconds."""

    def __init__(
        self, status: int, message: str, *, code: str, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.retry_after = status, message, code, param, retry_after

    @property
    def body(self) -> dict[str, object]:
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"error": {"message": self.message, "type": kind, "code": self.code, "param": self.param}}

    @property
    def headers(self) -> dict[str, str]:
        """What a client needs to know before it tries again."""
        headers = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, round(self.retry_after)))
            headers["Retry-After-Ms"] = str(round(1000 * self.retry_after))
        return headers

    @property
    def json(self) -> bytes:
        return json.dumps(self.body).encode()


def bad_request(message: str, param: str | None, code: str = "invalid_value") -> Refused:
    return Refused(400, message, code=code, param=param)


def overloaded(message: str, retry_after: float = 1.0) -> Refused:
    """The queue is full: 429, as clients of OpenAI expect it."""
    return Refused(429, message, code="overloaded", retry_after=retry_after)


def unavailable(message: str, retry_after: float = 1.0) -> Refused:
    """No backend can answer now, or this gateway is shutting down."""
    return Refused(503, message, code="unavailable", retry_after=retry_after)


def too_late(message: str) -> Refused:
    return Refused(504, message, code="deadline_exceeded")


def failed(message: str) -> Refused:
    """Backends failed more often than a stage may be resumed."""
    return Refused(502, message, code="backend_failed", retry_after=1.0)
