"""`vllm serve` with a base and its adapters of a pair: as a command to print, and as a child that is restarted.

The adapters' names are their versions and their folders are the pair's own: vLLM caches by name and path, and neither
is ever reused for different weights.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import shlex
import shutil
import sys
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agon.deploy.serve.served_pair import ServedPair
from agon.engine.base import PROMPT_ROOM
from agon.engine.dtypes import NO_FLOAT32
from agon.engine.vllm.local import QUIET, RANKS, is_composite, longest, text_config
from agon.engine.vllm.orphans import OrphanReaper
from agon.errors import InputError, install
from agon.types import Policy

PAUSES = (1.0, 2.0, 5.0, 15.0)
"""Seconds before a server that ended is started again."""
GRACE = 20.0
"""Seconds that a server gets to end by itself."""
OUTPUT = 20
"""Lines of a server's output that explain why it ended."""
KEY = "VLLM_API_KEY"
"""Where vLLM reads the key that its requests must have."""
OURS = ("AGON_SERVE_KEYS", "AGON_API_KEY")
"""Keys that a server has no use for."""
log = logging.getLogger("agon.deploy.serve")


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """What is set by hand; the rest follows from the pair."""

    port: int
    dtype: str | None = None
    context: int | None = None
    queue: int = 512
    more: tuple[str, ...] = ()
    """Arguments that are passed on."""


def vllm_command(pair: ServedPair, settings: VllmSettings) -> list[str]:
    """The command that serves a pair on this machine; works without Agon, except on a CPU and for composites."""
    info, own, base = pair.folder.info, pair.settings, pair.base
    needed = PROMPT_ROOM + own.max_peek_tokens + own.sampling.max_tokens
    context = settings.context or min(needed, longest(text_config(base.path)))
    dtype = settings.dtype or own.dtype
    if dtype == "float32" and not on_cpu():
        raise InputError(NO_FLOAT32, fix="add --dtype bfloat16")
    rank = next(rank for rank in RANKS if rank >= base.model.lora.rank)
    modules = [f"{info.versions[policy]}={pair.folder.adapter(policy).resolve()}" for policy in Policy]
    command = ["vllm", "serve", base.path, "--host", "127.0.0.1", "--port", str(settings.port)]
    command += ["--dtype", dtype, "--max-model-len", str(context)]
    command += ["--generation-config", "vllm", "--enable-lora", "--max-loras", "2", "--max-lora-rank", str(rank)]
    command += ["--lora-modules", *modules]
    command += ["--scheduling-policy", "priority", "--max-num-queued-reqs", str(settings.queue)]
    command += ["--enable-prompt-tokens-details", "--no-enable-log-requests", "--disable-uvicorn-access-log"]
    if is_composite(base.path):
        command.append("--language-model-only")
        if not on_cpu():  # else vLLM ignores the adapters, silently, and answers with the base
            command += ["--worker-extension-cls", "agon.engine.vllm.worker.StrictAdapters"]
    if on_cpu():
        command += ["--enforce-eager", "--no-enable-chunked-prefill"]
        command += ["--max-num-batched-tokens", str(max(context, 4096))]
        command += ["--worker-extension-cls", "agon.engine.vllm.cpu_lora.GroupedLora"]
    return [*command, *settings.more]


def on_cpu() -> bool:
    """Whether the vLLM that is installed is its CPU build."""
    try:
        return "cpu" in version("vllm")
    except PackageNotFoundError as error:
        raise InputError(
            "vLLM is not installed", fix=f"{install('vllm')}, or name running servers with --backend URL"
        ) from error


def shown(command: list[str]) -> str:
    """A command to paste into a shell."""
    return shlex.join(command)


def vllm_key() -> str:
    """The key of the servers that we start: the user's own, else one that nobody else knows."""
    return os.environ.get(KEY, "").strip() or secrets.token_urlsafe(32)


def _program(name: str) -> str:
    """The program of this Python; else, as where this is a virtual environment that sees the system's packages, that of
    the PATH."""
    own = Path(sys.executable).with_name(name)
    return str(own) if own.exists() else shutil.which(name) or str(own)


class VllmProcess:
    """The server as a child: started again when it ends, killed with all its processes when we end.

    It has a session of its own, so that Ctrl-C reaches us alone and it can finish what it is asked for. What it prints
    goes to our log until we end it: leaks that its libraries report on their way out interest nobody.
    """

    def __init__(self, command: list[str], key: str) -> None:
        self._command = [_program(command[0]), *command[1:]]
        self._key, self._reaper, self._ending = key, OrphanReaper(), False
        self._output = deque[str](maxlen=OUTPUT)

    async def run(self) -> None:
        """Start the server, and start it again whenever it ends, until cancelled; then end it."""
        process: asyncio.subprocess.Process | None = None
        try:
            for pause in itertools.chain(PAUSES, itertools.repeat(PAUSES[-1])):
                process = await self._start()
                log.info("vllm started", extra={"pid": process.pid})
                code = await process.wait()
                await asyncio.to_thread(self._reaper.kill)  # whatever else holds the pipe
                await asyncio.to_thread(self._reader.join, 2.0)
                log.error("vllm ended", extra={"exit_code": code, "restart_in": pause, "output": list(self._output)})
                await asyncio.sleep(pause)
        finally:
            await self._end(process)

    async def _start(self) -> asyncio.subprocess.Process:
        environment = {name: value for name, value in os.environ.items() if name not in OURS}
        environment = QUIET | environment | self._reaper.variables | {KEY: self._key}
        self._output.clear()
        # a pipe of our own: asyncio's would make `wait` wait for every process that holds it
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._pass_on, args=(reading,), daemon=True)
        self._reader.start()
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except OSError as error:
            what = f"{self._command[0]} cannot be started: {error.strerror or error}"
            raise InputError(what, fix=f"{install('vllm')}, or name running servers with --backend URL") from error
        finally:
            os.close(writing)

    def _pass_on(self, reading: int) -> None:
        """What the server prints, as lines of our log."""
        with os.fdopen(reading, errors="replace") as lines:
            for line in lines:
                if line.strip() and not self._ending:
                    self._output.append(line.rstrip())
                    log.info("vllm", extra={"line": line.rstrip()})

    async def _end(self, process: asyncio.subprocess.Process | None) -> None:
        """Ask it to end; then leave no process behind."""
        self._ending = True
        if process and process.returncode is None:
            process.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE)
        await asyncio.to_thread(self._reaper.kill)
        self._reaper.close()
