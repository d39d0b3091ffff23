"""No orphans: when the run's process is gone, however it went, its engine goes too.

A killed run would leave several gigabytes behind, and a resumed one would find the GPU full. vLLM loads this module
into its worker (`worker_extension_cls`), where a thread waits for the run's process to end.
"""

from __future__ import annotations

import os
import select
import signal
import threading

RUN = "AGON_ENGINE_OF"
"""Environment variable with the id of the process that an engine belongs to."""


class Leash:
    """What `worker_extension_cls` names: importing it ties the engine to the run."""


def hold(run: int) -> None:
    """Wait until `run` ends, then end this process, and the engine's core if that is another one."""
    core = os.getppid()
    waiting = select.poll()
    waiting.register(os.pidfd_open(run), select.POLLIN)
    waiting.poll()
    for process in {core, os.getpid()} - {run, 1}:
        os.kill(process, signal.SIGKILL)


if run := os.environ.get(RUN):
    threading.Thread(target=hold, args=(int(run),), name="agon-leash", daemon=True).start()
