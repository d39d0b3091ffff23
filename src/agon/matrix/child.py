"""A command of ours in a process of its own, with its output in a log."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


async def run_command(words: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
    """Run `agon ...` and return its exit code; when we are stopped, make it save and stop, and wait for it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        out.write(f"\n$ {shlex.join(words)}\n".encode())
        out.flush()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", *words), stdout=out, stderr=out, env=environment, start_new_session=True
        )
    try:
        return await process.wait()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise


def last_words(log: Path) -> str:
    """The error of the newest command in a log; else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    began = max((number for number, line in enumerate(lines) if line.startswith("$ ")), default=0)
    errors = [line for line in lines[began:] if line.startswith(("error:", "fix:"))][-2:]
    return "; ".join(errors) or (lines[-1] if lines else "it printed nothing")
