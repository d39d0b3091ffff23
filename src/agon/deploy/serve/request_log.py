"""The log on stderr: sentences on a terminal, JSON lines anywhere else. Prompts, answers and keys are never logged."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, TextIO

from agon.formatting import show_hidden

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


SENTENCES = {
    "starting vllm": "starting vLLM with {base} and both adapters; this takes one to four minutes ...",
    "waiting": "... {seconds} s",
    "ready": "ready at {url} after {seconds} s; stop it with Ctrl-C",
    "vllm ended": "vLLM ended with exit code {exit_code}; it is started again in {restart_in:g} s",
    "replica is not ready": "waiting for {url}: {reason}",
    "replica is up": "{url} is up",
    "replica failed": "{url} failed: {reason}",
    "draining": "stopping; answers that still run: {at_work} (Ctrl-C again cuts them off) ...",
    "stopped": "stopped",
}
"""What a person is told of an event; the rest is left to the JSON lines."""
EXPECTED = ("replica is not ready", "replica is up")
"""Of servers that we start ourselves: nothing to tell until they have been ready once."""


class Terminal(logging.StreamHandler[TextIO]):
    """Tells a person what happens. `starting`: servers of our own are being started."""

    def __init__(self, stream: TextIO, *, starting: bool) -> None:
        super().__init__(stream)
        self._starting = starting

    def emit(self, record: logging.LogRecord) -> None:
        self._starting = self._starting and record.msg != "ready"
        told = record.msg in (*SENTENCES, "request") or record.levelno >= logging.WARNING
        if told and not (self._starting and record.msg in EXPECTED):
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        fields, lines = vars(record), list[str]()
        if record.msg == "request":
            lines.append(_request(fields))
        elif record.msg in SENTENCES:
            lines += [*fields.get("output", ()), SENTENCES[record.msg].format_map(fields)]
        else:
            lines.append(f"{record.levelname.lower()}: {record.getMessage()}")
        if record.exc_info and not isinstance(record.exc_info[1], OSError):
            lines += logging.Formatter().formatException(record.exc_info).splitlines()
        return "\n".join(map(show_hidden, lines))


def _request(fields: dict[str, Any]) -> str:
    """One line about a request: when, status, who was asked, how long, how much."""
    when = datetime.fromtimestamp(fields["created"]).strftime("%H:%M:%S")
    tokens = sum(fields[stage]["completion_tokens"] for stage in ("draft", "challenge") if stage in fields)
    words = [when, str(fields["status"]), str(fields.get("model", fields["path"])), f"{fields['seconds']:.2f} s"]
    return "  ".join([*words, *([f"{tokens} tokens"] if tokens else [])])


class _NotAgain(logging.Filter):
    """Drops what was just said: an event loop that is out of files says so thousands of times per second."""

    _said, _until = "", 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        repeated = record.getMessage() == self._said and record.created < self._until
        if not repeated:
            self._said, self._until = record.getMessage(), record.created + 1
        return not repeated


def log_to(stream: TextIO, *, starting: bool = False) -> None:
    """Send the logs of the gateway, of uvicorn and of the event loop to a stream. `starting`: see Terminal."""
    handler: logging.StreamHandler[TextIO]
    if stream.isatty():
        handler = Terminal(stream, starting=starting)
    else:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(JsonFormatter())
    for name in ("agon.deploy.serve", "uvicorn", "asyncio"):
        logger, level = logging.getLogger(name), logging.INFO if name.startswith("agon") else logging.WARNING
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    logging.getLogger("asyncio").filters = [_NotAgain()]
