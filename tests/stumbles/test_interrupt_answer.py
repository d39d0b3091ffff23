"""Ctrl-C at a terminal is answered at once, by one process; a log file gets no extra line."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from agon import interrupt


@pytest.mark.parametrize(("tty", "rank", "answers"), [(True, "0", 1), (False, "0", 0), (True, "1", 0)])
def test_the_first_signal_is_answered_at_once(
    tty: bool, rank: str, answers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(interrupt, "SAME", 60.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(interrupt.os, "write", lambda fd, data: written.append(data))
    monkeypatch.setenv("RANK", rank)
    with interrupt.Interrupt() as watched:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert watched.asked is not None
    assert written == [interrupt.ANSWER] * answers
