"""What the processes of an engine inherit, and that engines take turns to have it inherited."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agon.engine.vllm import spawn
from agon.engine.vllm.spawn import own_device, spawning


class Tag:
    """As much of a reaper as is asked here."""

    @contextmanager
    def tagged(self) -> Iterator[None]:
        os.environ["TAG"] = "x"
        try:
            yield
        finally:
            del os.environ["TAG"]


def waited_for() -> bool:
    return False


def test_an_engine_has_its_own_gpu_and_no_part_in_the_process_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with own_device("6"):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "6"
        assert not {"WORLD_SIZE", "LOCAL_RANK"} & os.environ.keys()
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["WORLD_SIZE"]) == ("4,6", "2")
    with own_device(None):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"


UNDER_TORCHRUN = """
import json, os
from agon.engine.vllm.spawn import own_device
given = dict(os.environ)
with own_device(None):
    left = dict(os.environ)
print(json.dumps([sorted(given), sorted(left), given == dict(os.environ)]))
"""


def test_nothing_of_torchrun_reaches_an_engine(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(UNDER_TORCHRUN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    given, left, restored = json.loads(done.stdout)
    ours = os.environ.keys() | {"OMP_NUM_THREADS", "COLUMNS", "LINES"}  # threads and a terminal, not a process group
    assert {"RANK", "TORCHELASTIC_USE_AGENT_STORE", "GROUP_RANK", "ROLE_NAME"} <= set(given)
    assert set(left) - ours == set()
    assert restored


def test_the_next_engine_has_its_turn_once_a_core_was_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = set[int | None]()
    monkeypatch.setattr(spawn, "_cores", lambda: set(cores))
    order, seen = list[str](), dict[str, str]()
    loaded = threading.Event()

    def first() -> None:
        with spawning(Tag(), "0", waited_for):  # type: ignore[arg-type]
            seen["first"] = os.environ["CUDA_VISIBLE_DEVICES"]
            order.append("first begins")
            time.sleep(0.2)
            order.append("first spawns")
            cores.add(11)
            assert loaded.wait(20), "the second must not wait until the first has loaded"

    def second() -> None:
        with spawning(Tag(), "1", waited_for):  # type: ignore[arg-type]
            seen["second"] = os.environ["CUDA_VISIBLE_DEVICES"]
            order.append("second begins")
            cores.add(12)
        loaded.set()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    while not order:
        time.sleep(0.01)
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert order == ["first begins", "first spawns", "second begins"]
    assert seen == {"first": "0", "second": "1"}
    assert "TAG" not in os.environ
    assert not spawn.SPAWNING.locked()


def test_a_start_that_fails_ends_its_turn() -> None:
    with pytest.raises(RuntimeError, match="no weights"), spawning(Tag(), None, waited_for):  # type: ignore[arg-type]
        raise RuntimeError("no weights")
    assert "TAG" not in os.environ
    assert not spawn.SPAWNING.locked()


def test_a_start_that_hangs_ends_its_turn_when_it_is_given_up() -> None:
    given_up, release = threading.Event(), threading.Event()

    def hang() -> None:
        with spawning(Tag(), "0", given_up.is_set):  # type: ignore[arg-type]
            release.wait(20)

    hanging = threading.Thread(target=hang)
    hanging.start()
    while not spawn.SPAWNING.locked():
        time.sleep(0.01)
    given_up.set()
    with spawning(Tag(), "1", waited_for):  # type: ignore[arg-type]
        assert hanging.is_alive()
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    release.set()
    hanging.join(20)
    assert not spawn.SPAWNING.locked()
