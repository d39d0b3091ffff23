"""Runs inside a box, as its first process: compiles the program once, then forks one child per input.

Started with `python3 -s -S -c SOURCE`, so it imports nothing of ours and runs on any Python 3.8 or newer. The socket
CONTROL brings files and takes short messages; files arrive as descriptors, so no bytes of a test pass through here:

    we send     "ready"                                   before a program can be there
    we get      "CPU PROCESSES ADDRESSES" + [source]      the limits of every run, and the program
    we send     "compiled", or "error MESSAGE"
    we get      "test" + [stdin, stdout, stderr]          once per input
    we send     "done STATUS CPU_MICROSECONDS PEAK_KIB CLEAN"

As process 1 of its namespace it cannot be signalled, stopped or traced from inside, and when its child ends it kills
whatever that child left behind. Whether files were left is reported: such a box is not used for a second input.
"""

from __future__ import annotations

import _io
import _socket
import array
import os
import resource
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

CONTROL = 9
LEAVE = os._exit  # by our own name: a program may replace os._exit
ALONE = os.getpid() == 1
ROOM = sys.argv[1]


def receive(link: _socket.socket) -> tuple[str, list[int]]:
    """One message and its descriptors; the supervisor's end of the socket going away ends the box."""
    data, ancillary, _, _ = link.recvmsg(256, _socket.CMSG_SPACE(12))
    if not data:
        os._exit(0)
    fds = array.array("i")
    for _, _, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data.decode(), list(fds)


def read_all(fd: int) -> bytes:
    with open(fd, "rb") as file:
        return file.read()


def compile_program(link: _socket.socket) -> tuple[CodeType, int]:
    """The code of the program, and the CPU seconds of one run; a program that does not compile ends the box."""
    words, fds = receive(link)
    cpu, processes, addresses = map(int, words.split())
    if processes:
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
    try:
        # as text: in bytes, a coding cookie would make Python run a program that no reader sees
        code = compile(read_all(fds[0]).decode("utf-8-sig"), "main.py", "exec", dont_inherit=True)
    except BaseException as error:
        link.send(f"error {type(error).__name__}: {error}".encode("utf-8", "replace")[:1000])
        os._exit(0)
    link.send(b"compiled")
    return code, cpu


def run_program(code: CodeType, cpu: int, fds: list[int]) -> None:
    """In the child: become what `python3 main.py` would be, run the program, and end the process."""
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    os.closerange(3, 64)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module = type(sys)("__main__")
    module.__dict__.update(__builtins__=__builtins__, __file__="main.py")
    sys.modules["__main__"], sys.argv = module, ["main.py"]
    status = 0
    try:
        exec(code, module.__dict__)  # noqa: S102 - this is what the box is for
    except SystemExit as end:
        status = exit_status(end.code)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finish(status, module.__dict__)


def exit_status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 255
    sys.stderr.write(f"{code}\n")
    return 1


def finish(status: int, names: dict[str, object]) -> None:
    """What the interpreter does at its end, without taking modules apart, which takes longer than most programs."""
    import atexit

    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    failed = [flush(getattr(sys, name, None)) for name in ("stdout", "stderr")]
    for stream in (sys.__stdout__, *list(names.values())):  # closed with the modules that hold them
        if isinstance(stream, _io._IOBase):
            flush(stream)
    LEAVE(status or max(failed))


def flush(stream: Any) -> int:
    """Write what a stream holds back; the exit status for it. A closed one, and none at all, is no failure."""
    status = 0
    try:
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()
    except BaseException:
        status = 120
    return status


def run_child(code: CodeType, cpu: int, fds: list[int]) -> tuple[int, int]:
    """Run the program in a child; its wait status."""
    child = os.fork()
    if not child:
        try:
            run_program(code, cpu, fds)
        finally:
            LEAVE(1)
    for fd in fds:
        os.close(fd)
    _, status, usage = os.wait4(child, 0)
    return status, usage.ru_maxrss


def clean_up() -> bool:
    """Kill and reap what the child left; whether it left no files."""
    if ALONE:
        try:
            os.kill(-1, signal.SIGKILL)
        except ProcessLookupError:
            pass  # nothing is left
    while ALONE:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    try:
        return not ROOM or next(os.scandir(ROOM), None) is None  # one entry is enough: there may be a million
    except OSError:
        return False


def spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    os.environ.clear()
    sys.path[:] = [path for path in sys.path if path]  # without the folder that programs write to
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one signal that Python handles, and so would reach process 1
    import builtins
    from _sitebuiltins import Quitter

    builtins.exit, builtins.quit = Quitter("exit", "Ctrl-D"), Quitter("quit", "Ctrl-D")
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CONTROL)
    link.send(b"ready")
    code, cpu = compile_program(link)
    while True:
        _, fds = receive(link)
        before = spent()
        status, peak = run_child(code, cpu, fds)
        clean = clean_up()
        link.send(b"done %d %d %d %d" % (status, (spent() - before) * 1e6, peak, clean))


main()
