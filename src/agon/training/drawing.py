"""Who draws and who learns: one process of a machine draws for all its engines, and every process learns.

A draw goes to whichever engine is least busy, so no engine is idle while the problems of another process are drawn, and
the number of engines need not be that of the processes. The learner then deals rows out to processes by their tokens.
Seeds come from names, so the bouts are the same whoever draws them.
"""

from __future__ import annotations

from pathlib import Path

from agon.errors import EngineError
from agon.types import Completion, Request, Version

REPORT = "report this: a run must not get here"


class DrawnElsewhere:
    """The sampler of a process for which another one draws."""

    async def sample(self, request: Request) -> Completion:
        raise EngineError("this process does not draw", fix=REPORT)

    def publish(self, version: Version, folder: Path) -> None:
        """The process that draws publishes."""

    def pin(self, version: Version, folder: Path) -> None:
        """The process that draws pins."""

    def clip(self, text: str, max_tokens: int) -> str:
        raise EngineError("this process does not draw", fix=REPORT)

    def close(self) -> None: ...
