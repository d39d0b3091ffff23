"""A real Tinker-compatible server on this machine, for evidence: SkyRL 0.3.0 with its JAX backend, on the CPU.

AGON_TINKER_ENV names a Python 3.12 environment with `skyrl[tinker,jax]==0.3.0`, `tinker==0.18.2` and `uv`, which the
server starts its engine with. AGON_TINKER_URL names a server that runs already, over a float32 base in a local folder.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from _lib import cannot_run
from _server import await_health, free_port

BACKEND = {"max_lora_adapters": 32, "max_lora_rank": 16, "sample_max_num_sequences": 32, "train_micro_batch_size": 1}
"""One row per pass: the backend compiles for every number of rows that it meets."""


@contextmanager
def tinker_server(base: Path, scratch: Path) -> Iterator[str]:
    """The address of a server over `base`; it keeps what it saves in `scratch`."""
    if running := os.environ.get("AGON_TINKER_URL"):
        yield running
        return
    if not (named := os.environ.get("AGON_TINKER_ENV")):
        cannot_run("AGON_TINKER_ENV is not set, nor AGON_TINKER_URL; evidence/_tinker_server.py says what they name")
    environment, port = Path(named).resolve(), free_port()
    settings = {"HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never"}
    settings |= {"UV_PYTHON": str(environment / "bin" / "python"), "VIRTUAL_ENV": str(environment)}
    settings |= {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    settings |= {"XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"}
    command = ["uv", "run", "--no-project", "--active", "--offline", "-m", "skyrl.tinker.api"]
    command += ["--base-model", str(base), "--backend", "jax", "--backend-config", json.dumps(BACKEND)]
    command += ["--checkpoints-base", str(scratch / "checkpoints"), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--database-url", f"sqlite:///{scratch / 'tinker.db'}"]
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    process = subprocess.Popen(
        command, cwd=scratch, env=plain | settings, stdout=sys.stderr, stderr=sys.stderr, start_new_session=True
    )
    try:
        await_health(f"http://127.0.0.1:{port}/api/v1/healthz", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
