"""Starting an engine: a deadline, no process left behind, and none that outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.engine.vllm import local
from agon.engine.vllm.local import LocalEngine
from agon.engine.vllm.orphans import NAME, Leash, marked
from agon.engine.vllm.sampler import VLLMSampler
from agon.errors import EngineError

from .fake import join_starting, tokenizer

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


class Made:
    """What a stand-in for vLLM gives back: it remembers being shut down."""

    def __init__(self) -> None:
        self.ended = False

    def shutdown(self, timeout: float) -> None:
        self.ended = True


class Starting(LocalEngine):
    """An engine whose start is a function of the test's; it has a process of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.context, self._adapters, self._llm, self._leash, self._tokens = 512, {}, None, None, 0
        self.make, self.child = make, 0

    def _make(self) -> Any:
        self.child = subprocess.Popen(SLEEP).pid
        return self.make()


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    tokenizer().save_pretrained(tmp_path)
    yield str(tmp_path)
    assert NAME not in os.environ


def gone(process: int, seconds: float = 10.0) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_an_engine_that_hangs_while_it_starts_is_an_error_in_time_and_leaves_nothing(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "START", 3.0)
    release, late = threading.Event(), Made()

    def hang() -> Made:
        release.wait(600)
        return late

    began, engine = time.monotonic(), Starting(hang)
    with pytest.raises(EngineError, match="did not start in") as stopped:
        VLLMSampler(base, engine)
    assert time.monotonic() - began < 120, "it did not wait for the engine"
    assert "doctor" in stopped.value.fix
    assert engine.child
    assert gone(engine.child)
    release.set()
    join_starting()
    assert late.ended, "an engine that comes too late is shut down"


@pytest.mark.parametrize("error", [RuntimeError("no weights"), SystemExit(3)])
def test_an_engine_that_fails_to_start_says_why(base: str, error: BaseException) -> None:
    def fail() -> None:
        raise error

    engine = Starting(fail)
    with pytest.raises(EngineError, match=r"no weights|it left: 3"):
        VLLMSampler(base, engine)
    assert gone(engine.child)


def test_an_engine_that_starts_is_ended_with_its_processes_and_its_watcher(base: str) -> None:
    engine = Starting(Made)
    sampler = VLLMSampler(base, engine)
    leash, made = engine._leash, engine._llm
    assert leash is not None
    assert engine.processes() == [engine.child]
    sampler.close()
    assert made.ended
    assert gone(engine.child)
    assert leash._watcher.returncode is not None


RUN = """
    import os, subprocess, sys, time
    from agon.engine.vllm.orphans import Leash
    leash = Leash()
    with leash.held():
        child = subprocess.Popen([sys.executable, "-c", {code!r}])
        other = subprocess.Popen(["sleep", "600"], env={{}})
    print(leash.mark, child.pid, other.pid, flush=True)
    time.sleep(600)
"""
CHILD = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
def test_a_killed_run_takes_what_it_was_starting_with_it(frozen: bool) -> None:
    """The engine's process knows nothing of this: it has not come to its first import, or cannot act at all."""
    code = textwrap.dedent(RUN.format(code=CHILD))
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    mark, child, other = run.stdout.readline().split()
    try:
        while len(marked(mark)) < 2:
            time.sleep(0.02)
        found = marked(mark)
        if frozen:
            os.kill(int(child), signal.SIGSTOP)
        run.kill()
        run.wait()
        assert all(gone(process) for process in found)
        assert not gone(int(other), 0.2), "what does not carry the mark is left alone"
    finally:
        run.kill()
        os.kill(int(other), signal.SIGKILL)
        run.stdout.close()


def test_two_engines_of_one_process_have_two_leashes() -> None:
    one, two = Leash(), Leash()
    with one.held():
        mine = subprocess.Popen(SLEEP)
    with two.held():
        yours = subprocess.Popen(SLEEP)
    one.end()
    assert mine.wait(20) == -signal.SIGKILL
    assert yours.poll() is None
    two.end()
    assert yours.wait(20) == -signal.SIGKILL
    for leash in (one, two):
        leash.untie()
