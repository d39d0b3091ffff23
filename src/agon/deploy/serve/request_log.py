"""Logs as JSON lines on stderr, one per request, with its id. Prompts, answers and keys are never logged."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record and its extra fields as one line; JSON escapes what could begin another."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in PLAIN}
        if record.exc_info and isinstance(record.exc_info[1], OSError):
            line["reason"] = str(record.exc_info[1])  # of the machine, such as too many open files: no trace helps
        elif record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _NotAgain(logging.Filter):
    """Drops what was just said: an event loop that is out of files says so thousands of times per second."""

    _said, _until = "", 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        repeated = record.getMessage() == self._said and record.created < self._until
        if not repeated:
            self._said, self._until = record.getMessage(), record.created + 1
        return not repeated


def log_to(stream: TextIO = sys.stderr) -> None:
    """Send the logs of the gateway, of uvicorn and of the event loop to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    for name in ("agon.deploy.serve", "uvicorn", "asyncio"):
        logger, level = logging.getLogger(name), logging.INFO if name.startswith("agon") else logging.WARNING
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("asyncio").filters = [_NotAgain()]
