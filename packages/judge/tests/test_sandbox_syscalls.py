from __future__ import annotations

import errno

import pytest

from agon_judge.sandbox import HostSandbox, ProgramLimits
from agon_judge.sandbox.syscalls import ALLOWED

NAMES = """socket socketpair connect bind listen accept unshare setns mount umount2 pivot_root chroot ptrace
process_vm_readv process_vm_writev io_uring_setup bpf perf_event_open userfaultfd keyctl add_key request_key
open_by_handle_at name_to_handle_at personality flock shmget semget msgget mq_open memfd_create inotify_init
fanotify_init init_module delete_module kexec_load reboot swapon quotactl acct clone3 pidfd_open pidfd_getfd
process_madvise mknod mknodat setuid setgid setpriority sched_setscheduler sched_setaffinity ioprio_set
seccomp modify_ldt iopl ioperm vmsplice splice tee setxattr mlock mlockall mincore landlock_create_ruleset"""
REFUSED = NAMES.split()


def test_what_is_refused_is_not_allowed() -> None:
    assert not set(REFUSED) & set(ALLOWED)


def test_refused_calls_fail_in_a_box(sandbox: HostSandbox) -> None:
    import pyseccomp

    numbers = [pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) for name in REFUSED]
    program = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in {[number for number in numbers if number >= 0]}:
    libc.syscall(number, 0, 0, 0, 0, 0, 0)
    print(ctypes.get_errno())
"""
    run = next(sandbox.execute(program, [b""], ProgramLimits()))
    assert run.finished, run
    assert set(run.stdout.split()) == {str(errno.ENOSYS).encode()}


@pytest.mark.parametrize(
    "call",
    [
        "fcntl.lockf(open('/dev/null', 'w'), fcntl.LOCK_EX)",
        "fcntl.fcntl(0, 1031, 1 << 20)",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "fcntl.ioctl(0, 0x5412, b'x')",
        "os.posix_openpt(0) if hasattr(os, 'posix_openpt') else os.openpty()",
        "resource.prlimit(1, resource.RLIMIT_CPU)",
        "os.sched_setaffinity(0, {0})",
        "os.nice(-1)",
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "socket.socketpair()[0].sendto(b'x', '/tmp/x')",
        "socket.socketpair()[0].sendmsg([b'x'])",
    ],
)
def test_refused_arguments_fail_in_a_box(sandbox: HostSandbox, call: str) -> None:
    program = f"import fcntl, os, resource, signal, socket\ntry: {call}\nexcept OSError: print('refused')"
    assert next(sandbox.execute(program, [b""], ProgramLimits())).stdout == b"refused\n"


EVENTS = """
import asyncio, os
from multiprocessing import Process, Pipe
async def later(): await asyncio.sleep(0.05); return 7
async def main(): return await asyncio.gather(later(), asyncio.to_thread(lambda: 8))
print(*asyncio.run(main()))
ours, theirs = Pipe()
child = Process(target=theirs.send, args=(9,)); child.start()
print(ours.recv()); child.join()
"""


def test_an_event_loop_and_a_pipe_between_processes_work(sandbox: HostSandbox) -> None:
    run = next(sandbox.execute(EVENTS, [b""], ProgramLimits()))
    assert (run.stdout, run.stderr) == (b"7 8\n9\n", b"")


def test_calls_of_another_architecture_end_the_program(sandbox: HostSandbox) -> None:
    """`int 0x80` with the 32-bit number of getpid."""
    program = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
    run = next(sandbox.execute(program, [b""], ProgramLimits()))
    assert run.exit_code < 0, run
