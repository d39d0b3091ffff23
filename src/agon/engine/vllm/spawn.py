"""A process of this machine for one object: the engine with its front end, away from the learner's interpreter.

Calls and answers are pickles over a socket pair between a run and the child that it started itself. Whatever the child
starts in turn inherits its environment: its GPUs, the tag of its reaper, no process group.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agon.engine.vllm.orphans import OrphanReaper
from agon.errors import AgonError
from agon.pool import WorkerDown

CHILD = "import sys; sys.path[:] = {path!r}; from agon.engine.vllm.spawn import serve; serve({number})"
LENGTH = struct.Struct("!Q")
BUFFER = 1 << 24
"""Bytes of an answer that are read at once."""
EXIT = 5.0
"""Seconds that a process has to end by itself, once nobody asks it any more."""


def prepare(environment: MutableMapping[str, str], reaper: OrphanReaper, devices: str | None = None) -> None:
    """Make an environment one for an engine: with its GPUs, or all."""
    environment.update(reaper.variables)
    if devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = devices


class ActorLost(WorkerDown):
    """The process is gone, or its object failed by itself: worth a try with another one."""


@dataclass(frozen=True, slots=True)
class CallRefused:
    """An answer: one of our own errors. The request is at fault, and would fail elsewhere too."""

    error: AgonError


@dataclass(frozen=True, slots=True)
class Failed:
    """An answer: anything else went wrong. This process is at fault; another may do it."""

    reason: str


class ProcessActor:
    """The caller's side; belongs to the event loop on which it is made.

    Calls of one turn of the loop are sent together, so that an engine begins with the whole batch. A call that is
    cancelled here is cancelled there.
    """

    def __init__(self, devices: str | None, make: Callable[..., Any], *args: Any) -> None:
        self._reaper = OrphanReaper()
        environment = dict(os.environ)
        prepare(environment, self._reaper, devices)
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", CHILD.format(path=sys.path, number=theirs.fileno())]
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._loop, self._numbers, self._lost = asyncio.get_running_loop(), itertools.count(), ""
        self._writer: asyncio.StreamWriter | None = None
        self._calls: list[tuple[int, str | None, tuple[Any, ...]]] = []
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._receiving = self._loop.create_task(self._receive((make, args)))

    async def ask(self, verb: str, *args: Any) -> Any:
        """What a method returns there."""
        if self._lost:
            raise ActorLost(self._lost)
        number, answer = next(self._numbers), self._loop.create_future()
        self._answers[number] = answer
        self._post(number, verb, args)
        try:
            found = await answer
        except asyncio.CancelledError:
            self._post(number, None)
            raise
        finally:
            del self._answers[number]
        if isinstance(found, CallRefused):
            raise found.error
        if isinstance(found, Failed):
            raise ActorLost(found.reason)
        return found

    def processes(self) -> list[int]:
        """The ids of the process and of all that it started."""
        return self._reaper.processes()

    def kill(self) -> None:
        """End the process and all that it started, from any thread; one that does nothing any more ends by itself."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT)
        self._reaper.kill()
        self._reaper.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT)

    def _post(self, number: int, verb: str | None, args: tuple[Any, ...] = ()) -> None:
        self._calls.append((number, verb, args))
        if len(self._calls) == 1:
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        if self._writer and self._calls:
            calls, self._calls = self._calls, []
            write(self._writer, calls)

    async def _receive(self, first: Any) -> None:
        try:
            reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=BUFFER)
            write(self._writer, first)
            self._send()
            while True:
                number, answer = await read(reader)
                if (waiting := self._answers.get(number)) and not waiting.done():
                    waiting.set_result(answer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._lost = "its process ended"
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ActorLost(self._lost))
            if self._writer:
                self._writer.close()


def write(writer: asyncio.StreamWriter, value: Any) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    writer.write(LENGTH.pack(len(data)) + data)


async def read(reader: asyncio.StreamReader) -> Any:
    (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own child, or from its parent


# -- in the child ------------------------------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Answer calls from the socket with this number until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the run, which decides what becomes of its engines
    asyncio.run(_serve(socket.socket(fileno=number)))


async def _serve(there: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=there, limit=BUFFER)
    make, given = await read(reader)
    made, running = None, dict[int, asyncio.Task[None]]()

    async def ask(verb: str, args: tuple[Any, ...]) -> Any:
        nonlocal made
        try:
            if made is None:  # here and not above: an error of a constructor is an answer too
                made = make(*given)
            return await getattr(made, verb)(*args)
        except AgonError as error:
            return CallRefused(error)
        except Exception as error:
            return Failed(str(error) or repr(error))

    async def answer(number: int, verb: str, args: tuple[Any, ...]) -> None:
        try:
            write(writer, (number, await ask(verb, args)))
        finally:
            del running[number]

    with suppress(asyncio.IncompleteReadError, OSError):
        while True:
            for number, verb, args in await read(reader):
                if verb is not None:
                    running[number] = asyncio.create_task(answer(number, verb, args))
                elif number in running:
                    running[number].cancel()
