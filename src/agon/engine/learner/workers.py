"""Gradient workers: GPUs of a machine share one update, and one process keeps the loop, the optimizer and the state.

Only adapters have gradients, so all that moves is one vector each way per worker and step. The first process deals the
rows by tokens, computes a part itself, and adds the others' in the order of the workers: repeatable to the bit. Each
worker is read in a thread of its own, so that neither one that died nor one that stopped in the middle of a message can
hold the run up. Whatever interrupts an update ends all workers, and no weight has moved; the next starts new ones.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from agon.config import Model, Train
from agon.engine.devices import visible_devices
from agon.engine.learner.batch import PolicyBatch, Row, cut_by_tokens
from agon.engine.learner.passes import Meter, Passes
from agon.engine.learner.setup import explain_out_of_memory, release_freed_memory
from agon.errors import AgonError, ConfigError, EngineError
from agon.types import Policy

LOOK = 0.2
"""Seconds between two looks at a signal, once the first process is done with its own part."""
SLACK = 600.0
"""A worker may take so many seconds, and ten times what the first process took for its own part."""
CODE = "import sys; sys.path[:] = {path!r}; from agon.engine.learner.workers import serve; serve({pipe})"


def deal(batches: Sequence[PolicyBatch], hands: int, limit: int) -> list[list[PolicyBatch]]:
    """Rows for each of so many, longest first, each to whoever has the fewest tokens; denominators stay the step's."""
    held, dealt = [0] * hands, list[list[PolicyBatch]]()
    for batch in batches:
        parts: list[list[Row]] = [[] for _ in range(hands)]
        for row in (row for rows in batch.passes for row in rows):
            least = held.index(min(held))
            parts[least].append(row)
            held[least] += row.size
        dealt.append([replace(batch, passes=cut_by_tokens(part, limit)) for part in parts])
    return [[of_policy[hand] for of_policy in dealt] for hand in range(hands)]


class GradientWorkers:
    """The processes on the other GPUs: each holds the base and both adapters, and moves neither."""

    def __init__(self, model: Model, train: Train, path: str | None, count: int) -> None:
        devices = visible_devices()
        if devices and count >= len(devices):
            message = f"train.gpus is {count + 1}, and this machine has {len(devices)} visible GPUs"
            raise ConfigError(message, fix=f"write train.gpus={len(devices)} or less")
        self._build, self._limit, self._count = (model, train, path), train.tokens_per_pass, count
        self._devices = devices[1 : count + 1]
        self._workers = list[tuple[subprocess.Popen[bytes], Connection]]()
        self._threads = ThreadPoolExecutor(count)

    def accumulate(
        self, passes: Passes, batches: Sequence[PolicyBatch], check: Callable[[], None]
    ) -> dict[Policy, Meter]:
        """As `Passes.accumulate`, shared out."""
        mine, *theirs = deal(batches, self._count + 1, self._limit)
        weights, began = _flat(passes, [p.detach() for p in _parameters(passes)]), time.monotonic()
        learning = [batch.policy for batch in batches if batch.live.rows]
        with self._or_end():
            asked = self._ask([(part, weights) for part in theirs])
            meters = passes.accumulate(mine, lambda: _look(asked, check))
            for found, gradient in _answers(asked, check, SLACK + 10 * (time.monotonic() - began)):
                for policy, meter in found.items():
                    meters[policy].merge(meter)
                _add(passes, gradient, learning)
        return meters

    def rehearse(self, passes: Passes, batches: Sequence[PolicyBatch]) -> None:
        """Let every worker run these passes too, and learn nothing from them."""
        weights = _flat(passes, [p.detach() for p in _parameters(passes)])
        with self._or_end():
            list(_answers(self._ask([(list(batches), weights)] * self._count), lambda: None, 2 * SLACK))

    @contextmanager
    def _or_end(self) -> Iterator[None]:
        """Whatever interrupts the work ends the workers: none is left with an answer that nobody reads."""
        try:
            yield
        except (EOFError, OSError) as error:
            codes = [process.poll() for process, _ in self._workers]
            self.close()
            fix = "see its output above, then resume: agon train RUN --resume"
            raise EngineError(f"a gradient worker is gone ({error!r}, exit codes {codes})", fix=fix) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every worker, also one that is stopped; the next update starts new ones."""
        for process, pipe in self._workers:
            process.kill()
            process.wait()
            pipe.close()
        self._workers = []

    def _ask(self, messages: Sequence[object]) -> list[Future[Any]]:
        """Send each worker its message, and read its answer in a thread."""
        while len(self._workers) < self._count:
            self._workers.append(self._start(len(self._workers)))

        def ask(pipe: Connection, message: object) -> Any:
            pipe.send(message)
            answer = pipe.recv()
            if isinstance(answer, Exception):
                raise answer
            return answer

        pipes = [pipe for _, pipe in self._workers]
        return [self._threads.submit(ask, *pair) for pair in zip(pipes, messages, strict=True)]

    def _start(self, number: int) -> tuple[subprocess.Popen[bytes], Connection]:
        ours, theirs = socket.socketpair()
        environment = dict(os.environ)
        if self._devices:
            environment["CUDA_VISIBLE_DEVICES"] = self._devices[number]
        code = CODE.format(path=sys.path, pipe=theirs.fileno())
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        pipe = Connection(ours.detach())
        pipe.send(self._build)
        return process, pipe


def serve(number: int) -> None:
    """A worker's life: build, then a gradient for every part that comes; it ends when the first process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's to handle
    pipe = Connection(number)
    with suppress(EOFError, OSError):
        model, train, path = pipe.recv()
        passes: Passes | None = None
        while True:
            part, weights = pipe.recv()
            try:
                passes = passes or Passes(model, train, path=path)
                with explain_out_of_memory("in a gradient worker"):
                    answer: object = _gradients(passes, part, weights)
            except AgonError as error:
                answer = error
            except Exception as error:
                answer = EngineError(f"a gradient worker failed: {type(error).__name__}: {error}", fix="resume the run")
            pipe.send(answer)


def _gradients(passes: Passes, part: Sequence[PolicyBatch], weights: Any) -> tuple[dict[Policy, Meter], Any]:
    for parameter, values in zip(_parameters(passes), _pieces(passes, weights), strict=True):
        parameter.data.copy_(values)
    meters = passes.accumulate(part)
    gradient = _flat(passes, [p.grad for p in _parameters(passes)])
    passes.pair.model.zero_grad(set_to_none=True)
    release_freed_memory(passes.device)  # an engine may share the GPU
    return meters, gradient


def _parameters(passes: Passes) -> list[torch.nn.Parameter]:
    return [parameter for policy in Policy for parameter in passes.pair.parameters(policy)]


def _flat(passes: Passes, values: Sequence[torch.Tensor | None]) -> Any:
    """Values of all parameters as one array; zeros where there is none."""
    pairs = zip(values, _parameters(passes), strict=True)
    return torch.cat([(torch.zeros_like(p) if value is None else value).flatten() for value, p in pairs]).cpu().numpy()


def _pieces(passes: Passes, vector: Any) -> list[torch.Tensor]:
    like = _parameters(passes)
    parts = torch.from_numpy(vector).split([p.numel() for p in like])
    return [part.view_as(p).to(p.device) for part, p in zip(parts, like, strict=True)]


def _add(passes: Passes, gradient: Any, learning: Sequence[Policy]) -> None:
    """Add a worker's gradient to those of the policies that learn; the others keep none."""
    for parameter, part in zip(_parameters(passes), _pieces(passes, gradient), strict=True):
        parameter.grad = part if parameter.grad is None else parameter.grad + part
    for policy in set(Policy).difference(learning):
        for parameter in passes.pair.parameters(policy):
            parameter.grad = None


def _look(asked: Sequence[Future[Any]], check: Callable[[], None]) -> None:
    """Between two passes: a signal, or a worker that failed."""
    check()
    for future in asked:
        if future.done():
            future.result()


def _answers(asked: Sequence[Future[Any]], check: Callable[[], None], patience: float) -> Iterator[Any]:
    """The workers' answers, in their order."""
    deadline = time.monotonic() + patience
    while waiting := wait(asked, LOOK).not_done:
        _look(asked, check)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(waiting)} gave no answer in {patience:.0f} s")
    for future in asked:
        yield future.result()
