"""How long calls may take, when an audit gives up, and a line now and then that says how far it is."""

from __future__ import annotations

import sys
import time

LOADING = 600.0
"""Seconds in which a target must have been loaded."""
PATIENCE = 30
"""Deadlines that a call may take by the wall clock, if it uses no CPU time."""
HANGS = 3
"""Hangs after which no more probes are tried: each takes its whole deadline."""
SILENCE = 10.0
"""Seconds between two lines about progress."""


class Clock:
    """Counts calls and hangs. `deadline` is in CPU seconds."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.calls = self.hangs = 0
        self._said = time.monotonic()

    @property
    def patience(self) -> float:
        """Seconds of a wall clock that a call may take."""
        return PATIENCE * self.deadline

    @property
    def gives_up(self) -> bool:
        return self.hangs >= HANGS

    def hang(self) -> str:
        """Count a hang; what is said of it."""
        self.hangs += 1
        return f"hangs: no reward within {self.deadline:g} CPU seconds"

    def say(self, what: str, done: int, of: int) -> None:
        """Tell a person who waits for a slow reward how far the audit is."""
        if time.monotonic() - self._said > SILENCE:
            self._said = time.monotonic()
            print(f"{what}: {done:,} of {of:,} calls", file=sys.stderr, flush=True)
