"""The programs of `agon-judge sandbox check`: each tries one thing, prints LEAK when it can, and END at its end."""

from __future__ import annotations

from dataclasses import dataclass

from agon_judge.sandbox.execution import Ending

HEAD = """
import ctypes, os, resource, socket, sys, time
def leak(what): os.write(1, f"\\nLEAK {{what}}\\n".encode())
def attempt(action, what):
    try: action()
    except BaseException: return
    leak(what)
def call(number, *args): return ctypes.CDLL(None).syscall(number, *args)
SECRET, FILE, FOLDER, PORT, ABSTRACT, PID = {facts!r}
PLACES = {places!r}
"""
TAIL = """
os.write(1, b"\\nEND\\n")
"""
PLACES = ("/usr", "/etc", "/dev", "/dev/shm", "/")


@dataclass(frozen=True, slots=True)
class LeakProbe:
    """A program, and the limit that must end it (None: it ends by itself)."""

    name: str
    program: str
    ending: Ending | None = None
    needs_cgroup: bool = False
    """Whether only a limit on the whole box stops it."""


PROBES = (
    LeakProbe(
        "environment",
        """
if any(SECRET in v for v in os.environ.values()): leak('the environment')
""",
    ),
    LeakProbe(
        "files",
        """
attempt(lambda: open(FILE).read(), 'reads files outside')
attempt(lambda: open('/etc/passwd').read(), 'reads /etc')
""",
    ),
    LeakProbe(
        "writing",
        """
for place in (FOLDER, *PLACES):
    attempt(lambda: open(f'{place}/{ABSTRACT}', 'x'), f'writes to {place}')
""",
    ),
    LeakProbe(
        "other processes",
        """
attempt(lambda: os.kill(PID, 0), 'can signal a process outside')
attempt(lambda: open(f'/proc/{PID}/status').read(), 'sees processes outside')
attempt(lambda: open('/proc/1/environ').read(), 'reads /proc')
""",
    ),
    LeakProbe(
        "network",
        """
attempt(lambda: socket.create_connection(('127.0.0.1', PORT), 0.5), 'TCP to this machine')
""",
    ),
    LeakProbe(
        "sockets",
        """
for family, kind in ((1, 1), (2, 1), (10, 1), (16, 3), (17, 3), (40, 1)):
    attempt(lambda: socket.socket(family, kind), f'socket family {family}')
""",
    ),
    LeakProbe(
        "abstract sockets",
        """
def go():
    s = socket.socket(1); s.settimeout(0.5); s.connect('\\0' + ABSTRACT)
attempt(go, 'abstract unix socket')
""",
    ),
    LeakProbe(
        "system calls",
        """
names = {272: 'unshare', 101: 'ptrace', 425: 'io_uring', 321: 'bpf'}
names.update({250: 'keyctl', 323: 'userfaultfd', 29: 'shmget', 165: 'mount'})
for number, name in names.items():
    if os.uname().machine == 'x86_64' and call(number, 0, 0, 0, 0, 0) >= 0: leak(name)
""",
    ),
    LeakProbe(
        "locks",
        """
import fcntl
attempt(lambda: fcntl.flock(os.open('/usr/bin/env', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB), 'flock')
""",
    ),
    LeakProbe(
        "privileges",
        """
attempt(lambda: os.setuid(0), 'setuid')
if os.getuid() == 0: leak('runs as root')
for n in ('RLIMIT_AS', 'RLIMIT_FSIZE', 'RLIMIT_NOFILE'):
    if resource.getrlimit(getattr(resource, n))[1] < 0: leak(f'{n} is unlimited')
""",
    ),
    LeakProbe(
        "process count",
        """
made = 0
try:
    while made < 300:
        if os.fork() == 0: time.sleep(9); os._exit(0)
        made += 1
except OSError: pass
if made > 100: leak(f'{made} processes')
""",
    ),
    LeakProbe(
        "disk",
        """
made = 0
try:
    for n in range(30):
        with open(f'{n}', 'wb') as f: f.write(bytes(8 << 20)); made += 8
except OSError: pass
if made > 100: leak(f'{made} MB on disk')
""",
    ),
    LeakProbe("CPU time", "while True: pass", Ending.CPU),
    LeakProbe(
        "CPU time of many processes",
        """
for _ in range(3): os.fork()
while True: pass
""",
        Ending.CPU,
    ),
    LeakProbe("wall time", "time.sleep(60)", Ending.WALL),
    LeakProbe("memory", "x = bytearray(400 << 20)", Ending.MEMORY),
    LeakProbe(
        "memory of many processes",
        """
for _ in range(3):
    if os.fork() == 0:
        x = bytearray(b'x') * (80 << 20)
        time.sleep(0.5)
        os._exit(7)
if all(os.wait()[1] >> 8 == 7 for _ in range(3)): leak('240 MB at a limit of 128')
""",
        needs_cgroup=True,
    ),
    LeakProbe("output", "while True: os.write(1, b'x' * 65536)", Ending.OUTPUT),
)
