"""Ctrl-C at a terminal is answered at once; a log file gets no extra line."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from agon import interrupt


@pytest.mark.parametrize(("tty", "answers"), [(True, 1), (False, 0)])
def test_the_first_signal_is_answered_at_once(tty: bool, answers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(interrupt, "SAME", 60.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: tty)
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    monkeypatch.setattr(interrupt.os, "write", lambda fd, data: written.append(data))
    with interrupt.Interrupt() as watched:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    assert watched.asked is not None
    assert written == [interrupt.ANSWER] * answers
