"""The log: JSON lines, whoever writes them; sentences on a terminal."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agon.deploy.serve.request_log import log_to

NAMES = ("agon.deploy.serve", "uvicorn", "asyncio")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(stream: io.StringIO, *, starting: bool = False) -> Iterator[logging.Logger]:
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in map(logging.getLogger, NAMES)]
    try:
        log_to(stream, starting=starting)
        yield logging.getLogger("agon.deploy.serve")
    finally:
        for logger, handlers, propagate, level in before:
            logger.handlers, logger.propagate, logger.filters = handlers, propagate, []
            logger.setLevel(level)


def test_the_event_loop_logs_json_too_and_says_once_what_the_machine_lacks() -> None:
    stream = io.StringIO()
    with logging_to(stream):
        for _ in range(3):
            logging.getLogger("asyncio").error("socket.accept()\nfailed", exc_info=OSError(24, "Too many open files"))
        logging.getLogger("asyncio").error("a task failed", exc_info=ValueError("ours"))
    machine, ours = (json.loads(line) for line in stream.getvalue().splitlines())
    assert machine["event"] == "socket.accept()\nfailed"
    assert "Too many open files" in machine["reason"]
    assert "trace" not in machine
    assert "ValueError: ours" in ours["trace"]


@pytest.mark.parametrize("starting", [True, False])
def test_a_person_reads_sentences_and_is_not_told_that_a_starting_server_is_not_there_yet(starting: bool) -> None:
    screen, place = Screen(), {"replica": 0, "url": "http://h:1"}
    with logging_to(screen, starting=starting) as log:
        log.info("replica is not ready", extra={**place, "reason": "it cannot be reached"})
        log.info("vllm", extra={"line": "INFO: chatter"})
        log.info("ready", extra={"url": "http://127.0.0.1:8000/v1", "seconds": 70, "context": 1024})
        log.info("replica is not ready", extra={**place, "reason": "it fell silent\x1b[2J"})
        facts = {"request_id": "1", "key": "-", "method": "POST", "path": "/v1/chat/completions", "seconds": 1.234}
        log.info("request", extra={**facts, "status": 200, "model": "agon", "draft": {"completion_tokens": 7}})
        log.error("vllm ended", extra={"exit_code": 1, "restart_in": 2.0, "output": ["no such base"]})
    first, *lines = screen.getvalue().splitlines() if not starting else ["", *screen.getvalue().splitlines()]
    assert first == ("" if starting else "waiting for http://h:1: it cannot be reached")
    ready, lost, request, output, ended = lines
    assert "http://127.0.0.1:8000/v1" in ready
    assert "Ctrl-C" in ready
    assert lost == "waiting for http://h:1: it fell silent<U+001B>[2J"
    assert request.split()[1:] == ["200", "agon", "1.23", "s", "7", "tokens"]
    assert output == "no such base"
    assert "exit code 1" in ended


def test_a_failure_of_ours_is_shown_whole_on_a_terminal() -> None:
    screen = Screen()
    with logging_to(screen) as log:
        log.error("failed", exc_info=ValueError("ours"), extra={"request_id": "1"})
    assert screen.getvalue().splitlines() == ["error: failed", "ValueError: ours"]
