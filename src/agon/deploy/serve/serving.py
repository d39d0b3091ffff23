"""Run a gateway until SIGTERM or Ctrl-C, then let running answers finish.

On a signal: /ready says no; some seconds later new answers are refused; once the running ones are done, or out of time,
the server ends. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from agon.deploy.serve.admission import Keys, Traffic
from agon.deploy.serve.chat_answer import Gateway
from agon.deploy.serve.gateway import application
from agon.deploy.serve.gateway_settings import GatewaySettings
from agon.deploy.serve.http_front import LOCAL, server_config
from agon.deploy.serve.meters import Meters
from agon.deploy.serve.replicas import Replica, Replicas
from agon.deploy.serve.served_pair import ServedPair
from agon.deploy.serve.upstream import Upstream
from agon.deploy.serve.vllm_command import VllmProcess
from agon.errors import InputError
from agon.types import Policy

NEW_KEY = "export AGON_SERVE_KEYS=$(openssl rand -hex 16)"
PROGRESS = 30.0
"""Seconds between two lines while servers start."""
log = logging.getLogger("agon.deploy.serve")


def without_torch() -> None:
    """Hide torch from transformers, which would import it to read a tokenizer: seconds and hundreds of megabytes."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # that PyTorch was not found
    if "torch" not in sys.modules:
        sys.modules["torch"] = None  # type: ignore[assignment]  # what `import` takes for "not installed"


@dataclass(frozen=True, slots=True)
class Address:
    host: str = "127.0.0.1"
    port: int = 8000


def build_gateway(
    pair: ServedPair,
    urls: Sequence[str],
    names: Mapping[Policy, str],
    settings: GatewaySettings,
    key: str = "",
) -> Gateway:
    """A gateway over servers with both adapters; `key` is what they ask for."""
    meters, members, renderer = Meters(), list[Replica](), pair.renderer
    for url in urls:
        upstream = Upstream(
            url,
            stop=renderer.stop,
            vocabulary=renderer.vocabulary,
            first=settings.first,
            stall=settings.stall,
            key=key,
        )
        probe = tuple(renderer.encode("1 + 1 ="))
        members.append(Replica(len(members), upstream, names, slots=settings.slots, probe=probe))
    replicas = Replicas(members, meters.replica)
    return Gateway(pair, replicas, settings, meters, Traffic(replicas.slots + settings.queue))


def check_bind(address: Address, keys: Keys) -> None:
    """Refuse to listen beyond this machine without a key, or with one that can be guessed."""
    if address.host in LOCAL:
        return
    if not keys:
        raise InputError(f"listening on {address.host} needs an API key", fix=f"run: {NEW_KEY}")
    if keys.weak:
        message = f"a key in AGON_SERVE_KEYS is too easy to guess for a server on {address.host}"
        raise InputError(message, fix=f"use a random one: {NEW_KEY}")


def serve(gateway: Gateway, keys: Keys, address: Address, children: Sequence[VllmProcess] = ()) -> None:
    """Serve until a signal."""
    check_bind(address, keys)
    config = gateway_config(application(gateway, keys), address)
    asyncio.run(_serve(_Server(config), gateway, children))


def gateway_config(app: ASGIApp, address: Address) -> uvicorn.Config:
    """How uvicorn runs the gateway: without logs of its own."""
    return server_config(app, address.host, address.port, log_config=None, timeout_graceful_shutdown=5)


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would stop accepting at once and cut streams."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(server: _Server, gateway: Gateway, children: Sequence[VllmProcess]) -> None:
    loop, signalled = asyncio.get_running_loop(), asyncio.Event()
    delay = gateway.settings.drain_delay

    def stop(name: signal.Signals) -> None:
        nonlocal delay
        if signalled.is_set():
            server.should_exit = server.force_exit = True
        if name is signal.SIGINT:
            delay = 0.0  # a person waits, and no load balancer
        signalled.set()

    async def drain() -> None:
        await signalled.wait()
        traffic = gateway.traffic
        traffic.draining = True
        log.info("draining", extra={"at_work": traffic.at_work})
        await asyncio.sleep(delay)
        traffic.refusing = True
        if traffic.at_work:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(traffic.idle.wait(), gateway.settings.drain_limit)
        log.info("stopping", extra={"cut_off": traffic.at_work})
        server.should_exit = True

    async def start(child: VllmProcess) -> None:
        await server.listening.wait()  # a port that is in use is found before a server is started
        try:
            await child.run()
        except Exception:  # it cannot be started at all: nobody would see why the gateway is never ready
            server.should_exit = True
            raise

    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop, name)
    tasks = [asyncio.create_task(drain()), asyncio.create_task(_tell(gateway, server, starting=len(children)))]
    started = [asyncio.create_task(start(child)) for child in children]
    tasks += started
    try:
        await server.serve()
    except SystemExit as error:  # uvicorn's way to say that it cannot listen
        address = f"{server.config.host}:{server.config.port}"
        raise InputError(f"cannot listen on {address}", fix="choose another with --host and --port") from error
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in started:
        if not task.cancelled() and (failure := task.exception()):
            raise failure
    log.info("stopped")


async def _tell(gateway: Gateway, server: _Server, starting: int) -> None:
    """When servers are started, how long that takes, and once questions can be asked."""
    await server.listening.wait()
    began = time.monotonic()
    if starting:
        log.info("starting vllm", extra={"servers": starting, "base": gateway.pair.folder.info.base})
    while True:
        try:
            await asyncio.wait_for(gateway.replicas.joined(), PROGRESS)  # PoolStopped ends this task: nothing is ready
            break
        except TimeoutError:
            log.info("waiting", extra={"seconds": round(time.monotonic() - began)})
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    seconds = round(time.monotonic() - began)
    log.info(
        "ready", extra={"url": f"http://{host}:{port}/v1", "context": gateway.replicas.context, "seconds": seconds}
    )
