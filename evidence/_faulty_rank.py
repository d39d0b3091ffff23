"""`agon train` as one process of several, made to misbehave: its play ends late, its update fails on request.

Started by torchrun with a folder for its traces, then the words of `agon train`. The files in the folder: `pid.RANK`
is written by each process; `fail.RANK`, made by whoever watches, makes the next micro-batch of that process raise.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

LATE = 1.0
"""Seconds by which the play of every second step is longer on this process: of the others on the other."""


def main() -> int:
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    (folder / f"pid.{rank}").write_text(str(os.getpid()))
    make_play_uneven(rank)
    fail_on_request(folder / f"fail.{rank}")
    from agon.cli import main

    return main(["train", *sys.argv[2:]])


def make_play_uneven(rank: int) -> None:
    from agon.training import loop

    play = loop.play

    async def late(problems: Any, step: int, *more: Any) -> Any:
        played = await play(problems, step, *more)
        if step % 2 == rank:
            await asyncio.sleep(LATE)
        return played

    loop.play = late


def fail_on_request(request: Path) -> None:
    from agon.engine.trl import trainer

    step = trainer.PairTrainer._micro_step

    def failing(self: Any, micro: Any) -> Any:
        if request.exists():
            request.unlink()
            raise RuntimeError("a fault in the update, made by evidence/process_faults.py")
        return step(self, micro)

    trainer.PairTrainer._micro_step = failing  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
