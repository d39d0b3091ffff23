"""The system calls that a box may make, as a BPF program: everything that is not on the list does not exist there.

An allow-list, so that a call that a newer kernel adds is refused until someone puts it here. Refused calls fail with
ENOSYS, which makes the C library fall back to an older call where there is one. Calls of other architectures (32-bit
and x32) end the process. What is absent on purpose: sockets other than a pair of two ends, namespaces, mounts, tracing,
io_uring, bpf, perf, keys, System V and POSIX shared memory, memfd, locks, leases, inotify, and setting a handler for
SIGCHLD, which would let a program hide the CPU time of its children.
"""

from __future__ import annotations

import errno
import os

from agon_judge.errors import InputError, install

FILES = """open openat creat close close_range read write readv writev pread64 pwrite64 preadv pwritev lseek
stat fstat lstat newfstatat statx access faccessat faccessat2 getdents getdents64 getcwd chdir fchdir mkdir mkdirat
rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat readlink readlinkat chmod fchmod fchmodat
truncate ftruncate fallocate utimensat utime utimes futimesat umask dup dup2 dup3 pipe pipe2 fsync fdatasync fadvise64
sendfile copy_file_range statfs fstatfs"""
WAITING = """select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd eventfd2
pause nanosleep clock_nanosleep futex sched_yield restart_syscall"""
MEMORY = "brk mmap munmap mremap mprotect madvise msync membarrier"
PROCESSES = """fork vfork execve execveat exit exit_group wait4 waitid kill tgkill tkill getpid getppid gettid getpgid
getpgrp setpgid getsid setsid set_tid_address set_robust_list get_robust_list rseq arch_prctl sched_getaffinity
sched_getparam sched_getscheduler sched_get_priority_max sched_get_priority_min getpriority getrlimit setrlimit
getrusage times getcpu"""
SIGNALS = """rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait sigaltstack alarm setitimer
getitimer timer_create timer_settime timer_gettime timer_getoverrun timer_delete"""
IDENTITY = """getuid geteuid getgid getegid getresuid getresgid getgroups uname sysinfo time gettimeofday clock_gettime
clock_getres getrandom capget"""
ALLOWED = " ".join((FILES, WAITING, MEMORY, PROCESSES, SIGNALS, IDENTITY)).split()

FCNTL = (0, 1, 2, 3, 4, 1030, 1032)
"""Duplicate, get and set flags, get a pipe's size: not locks, leases, notification, seals or larger pipes."""
IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal and how large, bytes to read, blocking, close on exec."""
PRCTL = (3, 4, 15, 16, 21, 39)
"""Dumpable, thread names, and whether there is a filter or new privileges are refused."""
NEW_NAMESPACES = 0x7E020000
SIGCHLD = 17
AF_UNIX, SOCK_STREAM = 1, 1


def filter_code(control: int) -> bytes:
    """The BPF program for boxes whose control socket is the descriptor `control`."""
    try:
        import pyseccomp as seccomp
    except (ModuleNotFoundError, RuntimeError) as error:
        fix = f"{install('sandbox')}, and install libseccomp (Debian, Ubuntu: apt-get install libseccomp2)"
        raise InputError(f"the sandbox needs libseccomp and its Python binding: {error}", fix=fix) from error
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.ENOSYS))
    rules.set_attr(seccomp.Attr.ACT_BADARCH, seccomp.KILL_PROCESS)

    def allow(name: str, *conditions: object) -> None:
        if name in known:
            rules.add_rule(seccomp.ALLOW, name, *conditions)

    known = {name for name in (*ALLOWED, *_CONDITIONAL) if _exists(seccomp, name)}
    for name in ALLOWED:
        allow(name)
    for name, values in (("fcntl", FCNTL), ("ioctl", IOCTL)):
        for value in values:
            allow(name, seccomp.Arg(1, seccomp.EQ, value))
    for value in PRCTL:
        allow("prctl", seccomp.Arg(0, seccomp.EQ, value))
    allow("clone", seccomp.Arg(0, seccomp.MASKED_EQ, NEW_NAMESPACES, 0))
    allow("prlimit64", seccomp.Arg(0, seccomp.EQ, 0))  # its own limits, and not those of process 1
    allow("rt_sigaction", seccomp.Arg(0, seccomp.NE, SIGCHLD))
    allow("recvmsg", seccomp.Arg(0, seccomp.EQ, control))
    # asyncio wakes itself by a pair of sockets, which leads nowhere: no call here takes an address
    allow("socketpair", seccomp.Arg(0, seccomp.EQ, AF_UNIX), seccomp.Arg(1, seccomp.MASKED_EQ, 0xF, SOCK_STREAM))
    allow("sendto", seccomp.Arg(4, seccomp.EQ, 0))
    allow("recvfrom", seccomp.Arg(4, seccomp.EQ, 0))
    return _export(rules)


_CONDITIONAL = (
    *("fcntl", "ioctl", "prctl", "clone", "prlimit64", "rt_sigaction"),
    *("recvmsg", "socketpair", "sendto", "recvfrom"),
)


def _exists(seccomp: object, name: str) -> bool:
    """Whether this architecture has the call; an older libseccomp does not know every name."""
    try:
        return bool(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) >= 0)  # type: ignore[attr-defined]
    except OSError:
        return False


def _export(rules: object) -> bytes:
    fd = os.memfd_create("filter")
    with os.fdopen(fd, "r+b") as file:
        rules.export_bpf(file)  # type: ignore[attr-defined]
        file.seek(0)
        return file.read()
