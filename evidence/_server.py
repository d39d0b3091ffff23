"""A real `vllm serve` on this machine, for evidence: started with runtime adapters, ended with all its processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START = 900.0


class Server:
    """A server on a port of its own, which can be started again there.

    It serves its base under `name`, by default the base's path, holds `loras` adapters at once, and runs on one core
    if one is named. `extension` is what its worker loads; `more` are further options.
    """

    def __init__(
        self,
        base: Path,
        *,
        context: int,
        rank: int,
        name: str | None = None,
        loras: int = 4,
        core: int | None = None,
        extension: str = "agon.engine.vllm.cpu_lora.GroupedLora",
        more: tuple[str, ...] = (),
    ) -> None:
        self._port, self._core = free_port(), core
        options = ["--enable-lora", "--max-loras", str(loras), "--max-cpu-loras", str(2 * loras)]
        options += ["--max-lora-rank", str(rank)]
        options += ["--logprobs-mode", "processed_logprobs", "--dtype", "float32", "--max-model-len", str(context)]
        options += ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "4096"]
        options += ["--worker-extension-cls", extension, *more]
        options += ["--served-model-name", name or str(base), "--host", "127.0.0.1", "--port", str(self._port)]
        settings = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
        settings |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        settings |= {"VLLM_SERVER_DEV_MODE": "1"}
        self._command = [str(Path(sys.executable).with_name("vllm")), "serve", str(base), *options]
        self._environment = os.environ | settings
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it without waiting for it."""
        pinned = [] if self._core is None else ["taskset", "--cpu-list", str(self._core)]
        self.process = subprocess.Popen(
            [*pinned, *self._command], env=self._environment, stdout=sys.stderr, start_new_session=True
        )

    def await_health(self) -> None:
        await_health(f"{self.url}/health", self.process)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def end(self) -> None:
        """Ask it to end, then kill what is left."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        finally:
            self.kill()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait(30)


@contextmanager
def vllm_server(base: Path, **options: Any) -> Iterator[str]:
    """The address of a server over `base`, with options of `Server`."""
    server = Server(base, **options)
    try:
        server.await_health()
        yield server.url
    finally:
        server.end()


def await_health(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise RuntimeError(f"vllm serve did not start (exit code {process.poll()})")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
