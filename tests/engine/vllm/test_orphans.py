"""No process of an engine outlives the run that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from agon.engine.vllm.orphans import OrphanReaper, processes_with
from tests.waiting import gone

from .in_processes import SLEEP

RUN = """
    import os, subprocess, sys, time
    from agon.engine.vllm.orphans import OrphanReaper
    reaper = OrphanReaper()
    child = subprocess.Popen([sys.executable, "-c", {code!r}], env=os.environ | reaper.variables)
    other = subprocess.Popen(["sleep", "600"], env={{}})
    print(reaper.tag, child.pid, other.pid, flush=True)
    time.sleep(600)
"""
CHILD = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
def test_a_killed_run_takes_what_it_was_starting_with_it(frozen: bool) -> None:
    """The engine's process knows nothing of this: it has not come to its first import, or cannot act at all."""
    code = textwrap.dedent(RUN.format(code=CHILD))
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    tag, child, other = run.stdout.readline().split()
    try:
        while len(processes_with(tag)) < 2:
            time.sleep(0.02)
        doomed = processes_with(tag)
        if frozen:
            os.kill(int(child), signal.SIGSTOP)
        run.kill()
        run.wait()
        assert gone(*doomed)
        assert not gone(int(other), seconds=0.2), "what does not carry the tag is left alone"
    finally:
        run.kill()
        os.kill(int(other), signal.SIGKILL)
        run.stdout.close()


def test_two_engines_of_one_process_are_killed_apart() -> None:
    one, two = OrphanReaper(), OrphanReaper()
    mine = subprocess.Popen(SLEEP, env=os.environ | one.variables)
    yours = subprocess.Popen(SLEEP, env=os.environ | two.variables)
    one.kill()
    assert mine.wait(20) == -signal.SIGKILL
    assert yours.poll() is None
    two.kill()
    assert yours.wait(20) == -signal.SIGKILL
    for reaper in (one, two):
        reaper.close()
