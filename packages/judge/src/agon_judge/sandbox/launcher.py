"""Starts boxes: one small process per slot, which joins the slot's cgroup and takes on its uid once, then forks.

Run as a script. It gets a `Launch` as JSON and, over a socket, one message per box with the box's end of its control
socket. When the supervisor goes away it ends, and the boxes with it. It holds no secret: its environment is empty.
"""

from __future__ import annotations

import array  # noqa: F401 - recv_fds imports it when it is called, when its file may no longer be readable
import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable

RLIMIT_FILES = 64
"""Descriptors that a box may have."""
CONTROL, FILTER = 9, 10
"""Where a box finds its control socket and its system-call filter."""
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
HASH_SEED = ("PYTHONHASHSEED", "0")
"""The only variable of a box's environment, removed before a program runs: the order of a set must not vary by box."""
DRAIN_SECONDS = 3.0
OOM_SCORE = "500"
"""Makes the kernel end a process of the box, and not the launcher, when the slot's memory is used up."""
NICE = 10
"""Lowers the priority of a box: what watches it must get a core at once, also beside a fork bomb."""
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, *values: int) -> None:
    if _libc.prctl(option, *(ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4])):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog` of the kernel."""

    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def load_filter(code: bytes) -> None:
    """Install a system-call filter on this process and on all that it starts."""
    program = FilterProgram(len(code) // 8, code)
    prctl(PR_SET_SECCOMP, 2, ctypes.addressof(program))


def main(link: socket.socket, launch: dict[str, object]) -> None:
    join(launch)
    if launch["enter"] == "landlock":
        import py_landlock  # now: its files may not be readable for the uid that we take on

        py_landlock.get_abi_version()  # looks for libc with a process of its own: once here, not in every box
    become(launch["uid"])
    prctl(PR_SET_DUMPABLE, 1)  # a change of uid clears it, and with it the right to write our own oom_score_adj
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    link.send(b"up")
    while True:
        data, fds, _, _ = socket.recv_fds(link, 16, 1)
        if not data:
            if launch["enter"] == "bwrap":
                drain()
            return end(launch)
        if data == b"end":
            end(launch)
            link.send(b"ended")
        else:
            start(launch, fds[0])
            os.close(fds[0])


def join(launch: dict[str, object]) -> None:
    """Enter the cgroups of the slot."""
    for path in launch["cgroups"]:  # type: ignore[attr-defined]
        with open(path, "w") as file:
            file.write("0")


def become(uid: object) -> None:
    """Take on a uid of our own, for good; None keeps the user's."""
    if isinstance(uid, int):
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


def start(launch: dict[str, object], control: int) -> None:
    """Fork and become a box; its death is noticed by the supervisor, which holds the other end of `control`."""
    launcher = os.getpid()
    if os.fork():
        return
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != launcher:  # it died before that call
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.nice(NICE)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(OOM_SCORE)
        os.dup2(control, CONTROL)
        for name, value in launch["rlimits"].items():  # type: ignore[attr-defined]
            resource.setrlimit(getattr(resource, name), (value, value))
        keep_only(CONTROL)
        ENTER[str(launch["enter"])](launch)
        argv = [str(word) for word in launch["argv"]]  # type: ignore[attr-defined]
        os.execve(argv[0], argv, dict([HASH_SEED]))
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(1)


def keep_only(wanted: int) -> None:
    """Keep this descriptor and the standard ones over exec, and no other: not the launcher's own socket."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):  # the one that listed the folder is closed
            os.set_inheritable(fd, fd < 3 or fd == wanted)


def enter_bwrap(launch: dict[str, object]) -> None:
    """bubblewrap does the rest: it reads the filter from a file, whose position no other box may share."""
    fd = os.memfd_create("filter")
    os.write(fd, bytes.fromhex(str(launch["filter"])))
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, FILTER)
    os.set_inheritable(FILTER, True)


def enter_landlock(launch: dict[str, object]) -> None:
    """Restrict this process itself: a few folders to read, nothing to write, no signals to others, and the filter."""
    from py_landlock import AccessFs, Landlock

    prctl(PR_SET_NO_NEW_PRIVS, 1)
    os.setsid()
    os.chdir("/")
    rules = Landlock(strict=False)
    for path in (*launch["folders"], *DEVICES):  # type: ignore[misc]
        if os.path.isdir(path):
            rules.allow_read(path).allow_execute(path)
        elif os.path.exists(path):
            rules.add_path_rule(path, access=AccessFs.READ_FILE)
    rules.add_path_rule("/dev/null", access=AccessFs.WRITE_FILE).apply()
    load_filter(bytes.fromhex(str(launch["filter"])))


ENTER: dict[str, Callable[[dict[str, object]], None]] = {"bwrap": enter_bwrap, "landlock": enter_landlock}


def drain() -> None:
    """Let boxes end by themselves, which they do when their supervisor is gone.

    bubblewrap has two processes; if the first is killed while they start, the second waits for it forever.
    """
    deadline = time.monotonic() + DRAIN_SECONDS
    while descendants() and time.monotonic() < deadline:
        time.sleep(0.005)


def end(launch: dict[str, object]) -> None:
    """Kill everything that was started here."""
    end_all() if launch["uid"] is not None else end_children()


def end_all() -> None:
    """Kill every process of our uid, which is ours alone; the kernel does it in one go, so nothing can fork away."""
    while True:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        if not descendants():
            return
        time.sleep(0.001)


def end_children() -> None:
    """Kill what was started here, where the uid is shared with others; orphans have become our children.

    First stop all: what is stopped cannot fork.
    """
    stopped: set[int] = set()
    while new := set(descendants()) - stopped:
        send(new, signal.SIGSTOP)
        stopped |= new
    while left := descendants():
        send(left, signal.SIGKILL)
        time.sleep(0.001)


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants() -> list[int]:
    """Processes below this one."""
    found, waiting = [], [os.getpid()]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as file:
                    below = [int(pid) for pid in file.read().split()]
                waiting += below
                found += below
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's business
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what ends is reaped by the kernel
    os.set_inheritable(int(sys.argv[1]), False)
    main(socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]))
