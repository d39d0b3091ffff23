"""Cells as tasks of a cluster: what is missing, what fails, what a stop does. The cluster is this process."""

from __future__ import annotations

import _thread
import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agon.cli import main
from agon.cluster.connection import NodeTask
from agon.matrix import local, on_nodes
from agon.matrix.on_nodes import run, work_on_node
from tests.matrix.test_cells import CONFIG, plan
from tests.waiting import gone, until


class FakeNodes:
    """Implements `agon.matrix.on_nodes.Running` with threads."""

    def __init__(self, work: Callable[..., str | None] | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.gpus: list[int] = []
        self.interrupted = threading.Event()
        self._work = work

    def run(self, work: Callable[..., str | None], *args: Any, gpus: int = 0) -> NodeTask:
        assert work is work_on_node
        self.asked.append(args)
        self.gpus.append(gpus)
        result: Future[str | None] = Future()

        def node() -> None:
            try:
                result.set_result(self._work(*args) if self._work else None)
            except Exception as error:
                result.set_exception(error)

        threading.Thread(target=node, daemon=True).start()
        return NodeTask(result, self.interrupted.set)


@pytest.fixture(autouse=True)
def _same_handler_afterwards() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_every_missing_cell_is_a_task_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = plan(Path("out"), "grpo,agon", (0, 1), "cluster.gpus=0")
    nodes, said = FakeNodes(), list[str]()
    assert asyncio.run(run(made, 3, said.append, nodes)) == []
    out = str(tmp_path / "out")
    assert sorted(nodes.asked) == sorted(
        (str(tmp_path), str(CONFIG), ("cluster.gpus=0",), arm, seed, out) for arm in ("grpo", "agon") for seed in (0, 1)
    )
    assert nodes.gpus == [0] * 4
    assert said[-1].endswith("4 of 4")


def test_a_lost_task_is_a_failed_cell_and_stops_no_other(tmp_path: Path) -> None:
    def lost(*args: Any) -> str | None:
        if args[3] == "grpo":
            raise RuntimeError("\nThe node was lost.\nIts raylet died.")
        return None

    made = plan(tmp_path, "grpo,agon", (0,))
    failed = asyncio.run(run(made, 1, lambda sentence: None, FakeNodes(lost)))
    assert failed == ["grpo-s0: The node was lost."]


def test_a_stopped_matrix_waits_until_its_cells_are_saved(tmp_path: Path) -> None:
    saved = threading.Event()

    def work(*args: Any) -> str | None:
        nodes.interrupted.wait(20)
        saved.set()
        return "stopped"

    async def main() -> None:
        task = asyncio.ensure_future(run(plan(tmp_path, "agon", (0,)), 1, lambda sentence: None, nodes))
        await until(lambda: bool(nodes.asked))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert saved.is_set()

    nodes = FakeNodes(work)
    asyncio.run(main())


def test_a_node_does_what_is_left_of_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, bool]] = []

    async def process(words: list[str], title: str, log: Path, environment: dict[str, str], tied: bool) -> int:
        assert words[3:] == [str(CONFIG), "agon", "7", str(tmp_path), "save.every=1"]
        assert environment["PATH"] == os.environ["PATH"]
        ran.append((words[2], tied))
        return 3 if words[2] == "eval" else 0

    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "agon-s7.log").write_text("no room on the disk")
    monkeypatch.setattr(local, "_process", process)
    monkeypatch.chdir(tmp_path)
    failed = work_on_node(str(tmp_path), str(CONFIG), ("save.every=1",), "agon", 7, str(tmp_path))
    assert ran == [("train", True), ("eval", True)]
    assert failed is not None
    assert failed.startswith("agon-s7: agon eval ended with code 3")


def test_an_interrupted_task_stops_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray calls `_thread.interrupt_main`, which sends no signal that would wake a loop."""
    ended: list[str] = []

    async def waits(*args: Any, **more: Any) -> None:
        threading.Timer(0.2, _thread.interrupt_main).start()
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("slept")

    monkeypatch.setattr(on_nodes, "run_cell", waits)
    monkeypatch.chdir(tmp_path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt):
        work_on_node(str(tmp_path), str(CONFIG), (), "agon", 7, str(tmp_path))
    assert ended == ["cancelled"]


def test_a_run_dies_with_its_worker(tmp_path: Path) -> None:
    """A worker that is killed cannot stop what it started; the kernel does."""
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    worker = f"""
import asyncio, os
from pathlib import Path
from agon.matrix.local import _process
asyncio.run(_process(["-c", {child!r}], "child", Path({str(tmp_path / "log")!r}), dict(os.environ), True))
"""
    process = subprocess.Popen([sys.executable, "-c", worker])
    log = tmp_path / "log"
    while not log.exists() or not ["", *log.read_text().split("\n")][-2].isdigit():
        assert process.poll() is None
        threading.Event().wait(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert gone(int(log.read_text().split()[-1]))


@pytest.mark.parametrize("words", [["--launcher", "ray"], ["--address", "127.0.0.1:6379"]])
def test_launcher_and_address_go_together(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", str(CONFIG), "--arms", "agon", "--seeds", "0", "--out", str(tmp_path / "out"), *words]) == 2
    assert "--launcher ray --address HOST:PORT" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_whatever_runs_here_is_no_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--launcher", "ray", "--address", "auto", "--out", str(tmp_path / "out")]
    assert main(["matrix", str(CONFIG), "--arms", "agon", "--seeds", "0", *words]) == 2
    assert "does not name a cluster" in capsys.readouterr().err


def test_a_run_whose_worker_died_before_the_kernel_was_asked_does_not_begin() -> None:
    orphan = subprocess.run(["sleep", "60"], preexec_fn=partial(local._die_with_parent, os.getppid()))
    assert orphan.returncode == 128 + signal.SIGTERM
    child = subprocess.run(["true"], preexec_fn=partial(local._die_with_parent, os.getpid()))
    assert child.returncode == 0
