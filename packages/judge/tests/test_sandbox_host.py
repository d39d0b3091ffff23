from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from agon_judge.errors import InputError
from agon_judge.sandbox import Ending, Execution, HostSandbox, ProgramLimits, SandboxDown, cgroups
from agon_judge.sandbox.boxes import START_SECONDS, ProgramBox, descendants, longest_wait
from agon_judge.sandbox.host import Session, first_uid
from agon_judge.sandbox.launcher import CONTROL, NICE
from agon_judge.sandbox.leaks import check
from judge_helpers import gone

LIMITS = ProgramLimits(cpu=1.0, wall=20.0)


def outputs(sandbox: HostSandbox, program: str, *inputs: bytes, limits: ProgramLimits = LIMITS) -> list[Execution]:
    return list(sandbox.execute(program, inputs or (b"",), limits))


def said(sandbox: HostSandbox, program: str, *inputs: bytes) -> list[str]:
    runs = outputs(sandbox, program, *inputs)
    assert all(run.finished for run in runs), runs
    return [run.stdout.decode() for run in runs]


def test_a_program_is_what_python_would_run(sandbox: HostSandbox) -> None:
    program = """
import sys, atexit, threading, pickle, __main__
class Point: pass
pickle.loads(pickle.dumps(Point()))
atexit.register(lambda: print("bye"))
threading.Thread(target=lambda: print(__name__, sys.argv, __main__.__name__, sys.stdin.read())).start()
"""
    assert said(sandbox, program, b"in") == ["__main__ ['main.py'] __main__ in\nbye\n"]


@pytest.mark.parametrize("memory", [0, 1, 1 << 20, 10**19, 10**23])
def test_no_limit_of_memory_makes_a_right_program_wrong(sandbox: HostSandbox, memory: int) -> None:
    [run] = outputs(sandbox, "print(7)", limits=ProgramLimits(memory=memory))
    assert (run.ending, run.stdout) == (Ending.EXITED, b"7\n")


def test_a_system_call_that_fails_is_the_machines_failure(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(ProgramBox, "compile", refused)
    with pytest.raises(SandboxDown, match="Invalid argument"):
        outputs(sandbox, "print(7)")


@pytest.mark.parametrize(
    "program",
    [
        "print(open(0).read())",
        "import sys; sys.stdout.write(sys.stdin.buffer.read().decode())",
        "import os; os.write(1, os.read(0, os.fstat(0).st_size))",
        "import io, os; print(io.BytesIO(os.read(0, 100)).read().decode())",
        "import subprocess; subprocess.run(['/bin/cat'])",
        "exit(print(input()))",
        "import collections, heapq, itertools, functools, math, bisect, re, decimal, fractions, random; print(input())",
    ],
)
def test_every_usual_way_to_read_and_write_works(sandbox: HostSandbox, program: str) -> None:
    assert said(sandbox, program, b"hello")[0].strip() == "hello"


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.stdout.write(input()); sys.stdout.close()",
        "import sys\nwith sys.stdout as out: print(input(), file=out)",
        "import sys; print(input(), flush=True); sys.stdout = None",
        "out = open(1, 'w'); out.write(input())",
        "import io; out = io.BufferedWriter(io.FileIO(1, 'w')); out.write(input().encode())",
        "import io, sys; sys.stdout = io.StringIO(); sys.__stdout__.write(input())",
    ],
)
def test_what_python_writes_at_its_end_is_written(sandbox: HostSandbox, program: str) -> None:
    assert said(sandbox, program, b"hello")[0].strip() == "hello"


def test_output_that_cannot_be_written_at_the_end_is_an_error(sandbox: HostSandbox) -> None:
    [run] = outputs(sandbox, "import os; print(7); os.close(1)")
    assert run.exit_code == 120


def test_large_inputs_and_outputs_are_whole(sandbox: HostSandbox) -> None:
    data = b"7" * 999_999
    assert [run.stdout for run in outputs(sandbox, "print(input())", data)] == [data + b"\n"]
    assert said(sandbox, "print(len(open(0, 'rb').read()))", b"x" * 30_000_000) == ["30000000\n"]


def test_input_that_is_not_read_blocks_nobody(sandbox: HostSandbox) -> None:
    assert said(sandbox, "print(1)", b"x" * 5_000_000) == ["1\n"]


@pytest.mark.parametrize(
    "leave",
    [
        "open('/box/note', 'w').write('x')",
        "__import__('os').mkdir('/box/folder')",
        "__import__('os').chmod('/box', 0)",
        "__import__('builtins').note = 1",
        "__import__('sys').modules['json'] = 1",
        "__import__('resource').prlimit(1, __import__('resource').RLIMIT_NOFILE, (50, 50))",
    ],
)
def test_no_run_sees_anything_of_the_run_before(sandbox: HostSandbox, leave: str) -> None:
    look = """
import os, builtins, resource
try: files = os.listdir('/box')
except OSError as error: files = str(error)
print(files, hasattr(builtins, 'note'), __import__('json').__name__, resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    seen = [run.stdout for run in outputs(sandbox, f"{look}\ntry: {leave}\nexcept Exception: pass", b"", b"", b"")]
    assert seen == [b"[] False json (64, 64)\n"] * 3


def test_processes_that_a_run_leaves_are_dead_before_the_next(sandbox: HostSandbox) -> None:
    program = """
import os, signal, time
first = os.getpid()
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    for number in range(1, 32):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    time.sleep(60)
alive = []
for pid in range(2, first):
    try: os.kill(pid, 0); alive.append(pid)
    except ProcessLookupError: pass
print(alive)
"""
    assert said(sandbox, program, b"", b"", b"") == ["[]\n"] * 3


def test_an_orphan_that_holds_standard_output_delays_nothing(sandbox: HostSandbox) -> None:
    program = "import os, time\nif os.fork() == 0: time.sleep(60)\nprint(1)"
    started = time.monotonic()
    assert said(sandbox, program) == ["1\n"]
    assert time.monotonic() - started < 30  # far from 60, on any machine


def test_the_driver_cannot_be_killed_or_stopped(sandbox: HostSandbox) -> None:
    program = """
import os, signal
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
print(os.getppid())
"""
    assert said(sandbox, program, b"", b"") == ["1\n", "1\n"]


def test_a_program_has_three_descriptors(sandbox: HostSandbox) -> None:
    program = """
import os
for fd in range(64):
    try: os.fstat(fd); print(fd)
    except OSError: pass
"""
    assert said(sandbox, program, b"", b"") == ["0\n1\n2\n"] * 2


def test_a_supervisor_with_many_open_files_hands_none_to_a_box(sandbox: HostSandbox) -> None:
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    room = HostSandbox(workers=1, memory=sandbox.memory)
    try:
        program = """
import os
found = []
for fd in range(3, 2000):
    try: os.fstat(fd); found.append(fd)
    except OSError: pass
print(found)
"""
        assert said(room, program) == ["[]\n"]
        box = room.take().open()
        assert {int(path.name) for path in Path(f"/proc/{box.pid}/fd").iterdir()} == {0, 1, 2, CONTROL}
    finally:
        room.close()
        for fd in held:
            os.close(fd)


def test_a_program_has_a_lower_priority_than_what_watches_it(sandbox: HostSandbox) -> None:
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    [text] = said(sandbox, "import os; print(os.getpriority(os.PRIO_PROCESS, 0))")
    assert int(text) == min(19, ours + NICE)


def test_cpu_time_is_that_of_all_processes(sandbox: HostSandbox) -> None:
    program = "import os\nfor _ in range(5): os.fork()\nwhile True: pass"
    run = outputs(sandbox, program, limits=ProgramLimits(cpu=0.5, wall=20.0))[0]
    assert run.ending is Ending.CPU
    assert run.cpu < 10.0  # 16 if each had a limit of its own


def test_a_sleeper_ends_at_the_wall_limit(sandbox: HostSandbox) -> None:
    run = outputs(sandbox, "import time; time.sleep(60)", limits=ProgramLimits(cpu=1.0, wall=1.0))[0]
    assert run.ending is Ending.WALL
    assert run.cpu < 0.3


def test_a_box_that_is_killed_from_outside_changes_no_result(sandbox: HostSandbox) -> None:
    over, killed, runs = threading.Event(), list[int](), list[Execution]()

    def kill() -> None:
        seen = -1
        while not over.wait(0.2):
            if len(runs) == seen:  # a slow run: three deaths in a row would be too many
                continue
            seen = len(runs)
            for pid in descendants(random.choice(sandbox.processes()))[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

    program = "import time; time.sleep(0.05); print(int(input()) ** 2)"
    inputs = [str(number).encode() for number in range(30)]
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        for data in inputs:
            runs.append(next(sandbox.execute(program, [data], LIMITS)))
    finally:
        over.set()
        thread.join()
    assert [run.stdout for run in runs] == [b"%d\n" % number**2 for number in range(30)]
    assert killed


def test_a_launcher_that_is_killed_is_replaced(sandbox: HostSandbox) -> None:
    for launcher in sandbox.processes():
        os.kill(launcher, signal.SIGKILL)
    for _ in range(6):
        assert said(sandbox, "print(1)") == ["1\n"]


def test_a_box_whose_launcher_is_killed_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:  # held open, as by the process of bubblewrap that waits for the other
        started = time.monotonic()
        with pytest.raises(SandboxDown):
            ProgramBox(ours, None, lambda: None, None).wait_ready(lambda: False)
        assert time.monotonic() - started < START_SECONDS / 2


def test_a_launcher_may_be_killed_at_any_moment_of_a_start(sandbox: HostSandbox) -> None:
    for milliseconds in range(0, 40, 4):
        started = time.monotonic()
        slot = sandbox.take()
        sandbox.give_back(slot)  # starts a box
        time.sleep(milliseconds / 1000)
        for launcher in sandbox.processes():
            os.kill(launcher, signal.SIGKILL)
        assert said(sandbox, "print(1)") == ["1\n"]
        assert time.monotonic() - started < START_SECONDS


def test_many_threads_share_a_sandbox(sandbox: HostSandbox) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda k=k: found.extend(said(sandbox, f"print({k})"))) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, found)) == list(range(20))


def test_a_caller_that_stops_early_gives_its_box_back(sandbox: HostSandbox) -> None:
    for _ in range(10):
        runs: Iterator[Execution] = sandbox.execute("print(1)", [b"", b""], LIMITS)
        next(runs)
        runs.close()  # type: ignore[attr-defined]
    assert said(sandbox, "print(1)") == ["1\n"]


def test_closing_leaves_no_process_and_no_cgroup(sandbox: HostSandbox) -> None:
    room = HostSandbox(workers=1, memory=sandbox.memory)
    pids = [pid for launcher in room.processes() for pid in (launcher, *descendants(launcher))]
    folders = [Path(member).parent for slot in room._slots if slot.cgroup for member in slot.cgroup.members]
    next(room.execute("print(1)", [b""], LIMITS))
    room.close()
    assert gone(*pids)
    assert not [folder for folder in folders if folder.exists()]


def test_without_a_cgroup_it_refuses_unless_asked(monkeypatch: pytest.MonkeyPatch, sandbox: HostSandbox) -> None:
    monkeypatch.setattr(cgroups, "make", lambda processes: None)
    with pytest.raises(InputError, match="no writable memory cgroup") as refusal:
        HostSandbox(workers=1)
    assert "sandbox.memory: per_process" in refusal.value.fix
    room = HostSandbox(workers=1, memory="per_process")
    try:
        assert said(room, "print(1)") == ["1\n"]
        assert outputs(room, "a = bytearray(10**9)")[0].ending is Ending.MEMORY
    finally:
        room.close()


def test_landlock_runs_programs_and_leaves_no_orphans(sandbox: HostSandbox) -> None:
    room = HostSandbox("landlock", workers=1, memory=sandbox.memory)
    try:
        program = "import os, time\nif os.fork() == 0:\n  os.setsid(); time.sleep(60)\nprint(input())"
        assert said(room, program, b"1", b"2") == ["1\n", "2\n"]
        assert all(len(descendants(launcher)) <= 1 for launcher in room.processes())
        assert outputs(room, "while True: pass")[0].ending is Ending.CPU
        assert outputs(room, "import os; os.kill(os.getppid(), 9); print(1)")[0].exit_code == -9
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        assert outputs(room, bomb, limits=ProgramLimits(cpu=0.3, wall=20.0))[0].ending is Ending.CPU
        assert said(room, "print(1)") == ["1\n"]
    finally:
        room.close()


def test_a_landlock_box_starts_no_process_of_its_own(sandbox: HostSandbox) -> None:
    room = HostSandbox("landlock", workers=1, memory=sandbox.memory)
    most = 0
    try:
        for _ in range(5):
            assert said(room, "print(1)") == ["1\n"]
            deadline = time.monotonic() + 0.1  # while the next box starts
            while time.monotonic() < deadline:
                most = max([most, *(len(descendants(launcher)) for launcher in room.processes())])
    finally:
        room.close()
    assert most == 1


def test_the_order_of_a_set_is_the_same_in_every_box(sandbox: HostSandbox) -> None:
    program = "import os; print(list({chr(k) for k in range(97, 117)}), dict(os.environ))"
    assert len({said(sandbox, program)[0] for _ in range(4)}) == 1
    assert "{}" in said(sandbox, program)[0]


def test_a_module_that_a_program_writes_is_not_found_by_the_driver(sandbox: HostSandbox) -> None:
    program = "import sys; print('' in sys.path, '/box' in sys.path)"
    assert said(sandbox, program) == ["False False\n"]


def test_nothing_outlives_a_supervisor_that_is_killed(sandbox: HostSandbox) -> None:
    code = f"""
import sys, threading, time
from agon_judge.sandbox import HostSandbox, ProgramLimits
from agon_judge.sandbox.boxes import descendants
from agon_judge.sandbox.host import first_uid
from agon_judge.sandbox.launcher import CONTROL
room = HostSandbox(workers=1, memory={sandbox.memory!r})
runs = room.execute("import time; time.sleep(600)", [b""], ProgramLimits(cpu=5, wall=600))
threading.Thread(target=next, args=(runs,), daemon=True).start()
pids = []
while len(pids) < 4:
    time.sleep(0.05)
    pids = [pid for launcher in room.processes() for pid in (launcher, *descendants(launcher))]
print(*pids, flush=True)
time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pids = [int(word) for word in child.stdout.readline().split()]
    child.kill()
    child.wait()
    child.stdout.close()
    assert gone(*pids)


def test_a_pool_whose_slots_cannot_be_replaced_recovers_when_they_can(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = HostSandbox(workers=1, memory=sandbox.memory)
    try:
        with monkeypatch.context() as broken:
            broken.setattr("agon_judge.sandbox.host.Slot", lambda *_: (_ for _ in ()).throw(OSError("no processes")))
            for slot in room._slots:
                slot.open()  # a box that is up dies with its launcher; one that starts ends when its slot is closed
            pids = [pid for launcher in room.processes() for pid in (*descendants(launcher), launcher)]
            for launcher in room.processes():
                os.kill(launcher, signal.SIGKILL)
            assert gone(*pids), "boxes outlive their launchers"
            with pytest.raises(SandboxDown):
                said(room, "print(1)")
        assert said(room, "print(1)") == ["1\n"]
    finally:
        room.close()


def test_closing_wakes_those_who_wait(sandbox: HostSandbox) -> None:
    room = HostSandbox(workers=1, memory=sandbox.memory)
    slots = [room.take() for _ in range(room.slots)]
    ended: list[str] = []

    def wait() -> None:
        try:
            said(room, "print(1)")
        except SandboxDown as error:
            ended.append(error.message)

    threads = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    room.close()
    for thread in threads:
        thread.join(timeout=20)
    assert ended == ["the sandbox is closed"] * 3
    assert len(slots) == 2


def test_supervisors_have_uids_of_their_own_where_there_are_enough(tmp_path: Path) -> None:
    table = tmp_path / "uid_map"
    table.write_text("0 0 4294967295\n")
    spans = [range(first := first_uid(pid, table), first + 1000) for pid in (1, 2, 99_999)]
    assert not set(spans[0]) & set(spans[1]) | set(spans[1]) & set(spans[2])
    table.write_text("0 100000 65536\n")
    assert all(1000 < first_uid(pid, table) < 61184 for pid in range(1, 100))


def test_root_of_a_namespace_with_one_uid_is_told_so(tmp_path: Path) -> None:
    table = tmp_path / "uid_map"
    table.write_text("0 1000 1\n")
    with pytest.raises(InputError, match="maps too few") as refused:
        first_uid(1, table)
    assert "65,536 uids" in refused.value.fix


@pytest.mark.parametrize("reason", ["no luck today", "Creating new namespace failed"])
def test_advice_about_a_box_that_does_not_start_is_not_the_command_that_gave_it(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    broken = ["/bin/sh", "-c", f"echo {reason} >&2; exit 1"]
    monkeypatch.setattr("agon_judge.sandbox.host.command", lambda interpreter: broken)
    room = HostSandbox(workers=1, memory=sandbox.memory)
    try:
        with pytest.raises(SandboxDown, match=reason) as refused:
            check(room)
    finally:
        room.close()
    assert "sandbox check" not in refused.value.fix
    assert "--backend landlock" in refused.value.fix


def test_the_time_that_a_driver_waited_for_a_core_is_not_held_against_its_program(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver compiles in its own process; here it is told to have waited for all but 0.1 s of the first second."""
    began = time.monotonic()

    def waits(pids: Iterable[int]) -> float:
        return min(0.9, time.monotonic() - began) if isinstance(pids, list) else 0.0

    monkeypatch.setattr("agon_judge.sandbox.boxes.longest_wait", waits)
    limits = ProgramLimits(cpu=5, wall=0.2)
    (run,) = sandbox.execute("import time; time.sleep(600)", [b""], limits)
    assert run.ending is Ending.WALL
    assert run.wall > 0.5


def test_the_longest_wait_is_that_of_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon_judge.sandbox.boxes.PROC", tmp_path)
    for thread, waited in (("1/task/1", 2), ("1/task/2", 3), ("7/task/7", 1)):
        (tmp_path / thread).mkdir(parents=True)
        (tmp_path / thread / "schedstat").write_text(f"5 {waited * 10**9} 4\n")
    assert (longest_wait([1, 7]), longest_wait([7, 8]), longest_wait([])) == (3.0, 1.0, 0.0)


def test_a_sandbox_that_is_closed_while_a_program_starts_is_down(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, ready_box = HostSandbox(workers=1, memory=sandbox.memory), Session._ready_box

    def close_then_go_on(session: Session) -> ProgramBox:
        box = ready_box(session)
        room.close()
        return box

    monkeypatch.setattr(Session, "_ready_box", close_then_go_on)
    with pytest.raises(SandboxDown):
        said(room, "print(1)")
