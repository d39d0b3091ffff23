"""The fork server leaves nothing behind when its parent dies, and does not run the parent's script again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from judge_helpers import alive, gone
from worker_checks import CHECK, environment

ORPHANS = f"""
import time
from agon_judge.workers.pool import Limits, WorkerPool
pool = WorkerPool("{CHECK}", Limits(workers=2, deadline=60))
pool.submit("work", None).result()
unfinished = [pool.submit("hang", None), pool.submit("sleep", None)]
while len(pool.workers()) < 3:
    time.sleep(0.02)
print(*pool.workers(), flush=True)
time.sleep(600)
"""
NO_MAIN_GUARD = """
from agon_judge import MathJudge
print("before")
print(MathJudge(workers=1).judge("x+1", "1+x").reason.value)
"""


def test_no_process_survives_the_death_of_the_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, env=environment())
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 3
    assert all(map(alive, pids))
    parent.kill()
    parent.communicate()
    assert gone(*pids)


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(NO_MAIN_GUARD)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment(), timeout=120)
    assert (done.stdout, done.stderr, done.returncode) == ("before\ncorrect\n", "", 0)
