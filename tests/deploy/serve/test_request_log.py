"""Every line of the log is JSON, whoever writes it."""

from __future__ import annotations

import io
import json
import logging

from agon.deploy.serve.request_log import log_to


def test_the_event_loop_logs_json_too_and_says_once_what_the_machine_lacks() -> None:
    stream, names = io.StringIO(), ("agon.deploy.serve", "uvicorn", "asyncio")
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in map(logging.getLogger, names)]
    try:
        log_to(stream)
        for _ in range(3):
            logging.getLogger("asyncio").error("socket.accept()\nfailed", exc_info=OSError(24, "Too many open files"))
        logging.getLogger("asyncio").error("a task failed", exc_info=ValueError("ours"))
    finally:
        for logger, handlers, propagate, level in before:
            logger.handlers, logger.propagate, logger.filters = handlers, propagate, []
            logger.setLevel(level)
    machine, ours = (json.loads(line) for line in stream.getvalue().splitlines())
    assert machine["event"] == "socket.accept()\nfailed"
    assert "Too many open files" in machine["reason"]
    assert "trace" not in machine
    assert "ValueError: ours" in ours["trace"]
