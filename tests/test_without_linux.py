"""The core and the demo without the calls that only Linux has: macOS is the laptop of many readers.

The calls are taken away from a process and all that it starts (tests/fixtures/without_linux). The whole demo runs that
way in tests/cli/test_quickstart.py. What only Linux can do, the sandbox and vLLM, is not part of this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHIM = ROOT / "tests" / "fixtures" / "without_linux"


def without_linux(code: str, folder: Path, *words: str) -> str:
    """What a script prints where those calls are missing."""
    path = os.pathsep.join(map(str, (SHIM, ROOT / "src", *ROOT.glob("packages/*/src"), *ROOT.glob("packages/*/tests"))))
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


GONE = """
import ctypes, multiprocessing, os, select, signal, socket, subprocess, sys
from pathlib import Path
print(hasattr(os, "sched_getaffinity"), hasattr(signal, "sigtimedwait"), hasattr(select, "epoll"))
print(Path("/proc/self/stat").exists(), hasattr(ctypes.CDLL(None), "prctl"), hasattr(ctypes.CDLL(None), "getpid"))
try:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
except OSError:
    print("no SEQPACKET,", multiprocessing.get_start_method())
bare = {"PATH": os.environ["PATH"]}
subprocess.run([sys.executable, "-c", "import os; print(hasattr(os, 'sched_getaffinity'))"], env=bare, check=True)
"""


def test_the_calls_are_really_gone(tmp_path: Path) -> None:
    lines = without_linux(GONE, tmp_path).splitlines()
    assert sorted(lines) == ["False", "False False False", "False False True", "no SEQPACKET, spawn"]


COMMANDS = """
from agon.cli import main
for words in (
    "init tabletop", "plan tabletop.yaml", "data check tabletop.yaml", "plan tabletop.yaml --show",
    f"diagnose {LOG}", f"view {LOG} -o log.html", "report",
):
    assert main(words.split()) == 0, words
from agon_judge.cli import main as judge
assert judge(["math", "--gold", "x+1", "--answer", "1+x"]) == 0
assert judge(["math", "--gold", "x+1", "--answer", "x+2"]) == 1
"""


@pytest.mark.slow
def test_the_commands_of_the_light_install_work(tmp_path: Path) -> None:
    log = ROOT / "examples" / "grpo_log.jsonl"
    without_linux(f"LOG = {str(log)!r}\n{COMMANDS}", tmp_path)
    assert (tmp_path / "log.html").is_file()


POOL = """
from agon_judge.workers.pool import Limits, WorkerPool
pool = WorkerPool("worker_checks:check", Limits(workers=2, deadline=2))
jobs = {deed: pool.submit(deed, MARKS if "once" in deed else None) for deed in DEEDS}
print(*(f"{deed}: {job.result(600).name}" for deed, job in jobs.items()), sep="\\n")
print(len(pool.workers()) > 1)
pool.close()
print(pool.workers())
"""


def test_workers_judge_time_out_crash_and_are_replaced(tmp_path: Path) -> None:
    deeds = ("work", "hang", "exit", "segfault once", "raise")
    printed = without_linux(f"DEEDS, MARKS = {deeds}, {str(tmp_path / 'marks')!r}\n{POOL}", tmp_path).splitlines()
    assert printed[:5] == [
        "work: correct",
        "hang: timeout",
        "exit: crashed",
        "segfault once: correct",
        "raise: unparsable",
    ]
    assert printed[5:] == ["True", "()"]


ORPHANS = """
import os, signal, subprocess, time
from agon_judge.workers.pool import Limits, WorkerPool
pool = WorkerPool("worker_checks:check", Limits(workers=1, deadline=60))
pool.submit("work", None).result(60)
server, worker = pool.workers()
os.kill(server, signal.SIGKILL)
look = ["ps", "-p", str(worker), "-o", "stat="]
while subprocess.run(look, capture_output=True).stdout.strip()[:1] not in (b"", b"Z"):
    time.sleep(0.1)
print(pool.submit("work", "again").result(60).name, pool.workers()[0] != server)
pool.close()
"""


def test_a_worker_notices_the_death_of_its_server(tmp_path: Path) -> None:
    assert without_linux(ORPHANS, tmp_path).split() == ["correct", "True"]
