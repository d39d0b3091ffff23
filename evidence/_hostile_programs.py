"""Hostile programs, by the numbers of the list that they were drawn from. Each reports what it could do as ESCAPED.

A program is written against a sandbox whose source its author has read: it knows the paths, the ports, the process ids
and the names of everything outside, which `fill` puts in. None can know the expected outputs.
"""

from __future__ import annotations

PRELUDE = """
import os, sys, time
def escaped(what):
    os.write(1, ("\\nESCAPED " + what + "\\n").encode())
def attempt(action, what):
    try: result = action()
    except BaseException as error: return None
    escaped(what)
    return result
def ignore_signals():
    import signal
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
def syscall(number, *args):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *args)
    return result if result >= 0 else -ctypes.get_errno()
SECRET_FILE, ENV_SECRET, PORT, ABSTRACT, SOCKET_PATH, VICTIM, MARK, OUTSIDE = FACTS
"""

PROGRAMS: dict[str, str] = {
    # processes
    "P1 fork bomb": "\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "P1 fork bomb that counts": """
count = 0
for _ in range(2000):
    try: pid = os.fork()
    except OSError: break
    if pid == 0: time.sleep(30); os._exit(0)
    count += 1
if count > 100: escaped(f"{count} processes")
""",
    "P1 fork bomb that ignores signals": "ignore_signals()\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "P1 vfork through posix_spawn": """
while True:
    try: os.posix_spawn('/usr/bin/python3', ['python3', '-c', 'import time; time.sleep(30)'], {})
    except OSError: time.sleep(0.01)
""",
    "P2 thread bomb": """
import threading
count = 0
try:
    while count < 5000: threading.Thread(target=time.sleep, args=(30,), daemon=True).start(); count += 1
except RuntimeError: pass
if count > 100: escaped(f"{count} threads")
""",
    "P3 memory bomb": "hoard = []\nwhile True: hoard.append(bytearray(10_000_000))",
    "P3 memory bomb that catches MemoryError": """
hoard = []
while True:
    try: hoard.append(bytearray(1_000_000))
    except MemoryError: time.sleep(0.01)
    if len(hoard) > 900: escaped("900 MB"); break
""",
    "P3 memory by string growth": "text = 'x'\nwhile True: text += text",
    "P4 memory over six processes": """
import mmap
held = 0
for _ in range(6):
    if os.fork() == 0:
        block = bytearray(100_000_000)
        time.sleep(1.0)
        os._exit(7)
for _ in range(6):
    _, status = os.wait()
    held += status >> 8 == 7
if held >= 4: escaped(f"{held} x 100 MB at once")
""",
    "P5 files in memory": """
written = 0
for number in range(64):
    try:
        with open(f"/box/{number}", "wb") as file:
            for _ in range(8): file.write(bytes(1 << 20)); file.flush(); written += 1
    except OSError: break
if written > 80: escaped(f"{written} MB of files")
""",
    "P5 /dev/shm": "attempt(lambda: open('/dev/shm/x', 'wb').write(bytes(1 << 20)), '/dev/shm')",
    "P5 memfd": "attempt(lambda: os.memfd_create('x'), 'memfd')",
    "P5 System V memory": "r = syscall(29, 0, 1 << 20, 0o1600)\nif r >= 0: escaped('shmget')",
    "P5 shared mapping": """
import mmap
maps = []
try:
    for _ in range(100): block = mmap.mmap(-1, 10_000_000); block.write(bytes(10_000_000)); maps.append(block)
    escaped("1 GB of shared mappings")
except (OSError, MemoryError): pass
""",
    # time
    "P6 infinite loop": "while True: pass",
    "P6 infinite loop in C": "sum(iter(int, 1))",
    "P6 infinite loops in 30 processes": "for _ in range(29):\n    if os.fork() == 0: break\nwhile True: pass",
    "P6 infinite loops in threads": "import threading\nfor _ in range(8): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()",
    "P6 chain of short-lived processes": """
import signal
try: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
except OSError: pass
while True:
    try: pid = os.fork()
    except OSError: continue
    if pid: os._exit(0)
    deadline = time.process_time() + 0.02
    while time.process_time() < deadline: pass
""",
    "P7 sleep": "time.sleep(3600)",
    "P7 sleep that ignores all signals": "ignore_signals()\nwhile True: time.sleep(60)",
    "P7 wait on a pipe": "r, w = os.pipe()\nos.read(r, 1)",
    "P7 sleep in an exit handler": "import atexit\natexit.register(time.sleep, 3600)",
    "P7 thread that never ends": "import threading\nthreading.Thread(target=time.sleep, args=(3600,)).start()",
    "P8 stop itself": "import signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "P8 stop its parent": "import signal\nos.kill(os.getppid(), signal.SIGSTOP)\nprint(1)",
    "P9 close everything and sleep": "os.closerange(0, 64)\ntime.sleep(3600)",
    "P9 close everything and loop": "os.closerange(0, 64)\nwhile True: pass",
    # files
    "P10 write outside": """
for place in ("/etc", "/usr", "/usr/bin", "/lib", "/dev", "/dev/shm", "/proc", "/sys", "/", "/var", "/root", "/home", "/run", "/opt", OUTSIDE):
    attempt(lambda: open(f"{place}/{MARK}", "w").write("x"), f"wrote to {place}")
""",
    "P10 overwrite the interpreter": "attempt(lambda: open(sys.executable, 'r+b').write(b'x'), 'interpreter')\nattempt(lambda: open(os.__file__, 'a').write('#'), 'os.py')",
    "P10 replace by rename and link": """
open("/box/x", "w").write("x") if os.path.isdir("/box") else None
attempt(lambda: os.rename("/box/x", "/usr/lib/x"), "rename")
attempt(lambda: os.link("/usr/bin/env", "/box/env"), "hard link")
attempt(lambda: os.chmod("/usr/bin/env", 0o777), "chmod")
attempt(lambda: os.utime("/usr/bin/env", (0, 0)), "utime")
attempt(lambda: os.truncate("/usr/bin/env", 0), "truncate")
""",
    "P11 read the expected outputs by path": "attempt(lambda: open(SECRET_FILE).read(), 'expected outputs')",
    "P11 through /proc": """
for pid in ["self", "1", str(VICTIM), str(os.getppid()), *map(str, range(1, 60))]:
    for name in ("root" + SECRET_FILE, "cwd" + SECRET_FILE):
        attempt(lambda: open(f"/proc/{pid}/{name}").read(), f"/proc/{pid}/{name}")
""",
    "P11 through inherited descriptors": """
for fd in range(3, 256):
    attempt(lambda: os.fstat(fd), f"descriptor {fd}")
""",
    "P11 through its parent's frames": """
frame, seen = sys._getframe().f_back, []
while frame: seen.append(repr(frame.f_locals)[:5000]); frame = frame.f_back
if any(word in text for text in seen for word in (SECRET_FILE, ENV_SECRET, "stdout=")): escaped("a secret in a frame")
""",
    "P12 environment": "if any(ENV_SECRET in value for value in os.environ.values()): escaped('environment')",
    "P12 environment of other processes": """
for pid in ["self", "1", "2", str(VICTIM), str(os.getppid())]:
    try: text = open(f"/proc/{pid}/environ").read()
    except OSError: continue
    if ENV_SECRET in text: escaped(f"environment of {pid}")
""",
    "P12 environment on the stack of its process": """
try: maps = open("/proc/self/maps").read()
except OSError: maps = ""
if "stack" in maps:
    low, high = next(line for line in maps.splitlines() if "stack" in line).split()[0].split("-")
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(int(low, 16))
        if ENV_SECRET.encode() in memory.read(int(high, 16) - int(low, 16)): escaped("stack")
""",
    "P13 disks and passwords": """
for path in ("/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/etc/shadow", "/etc/passwd",
             "/etc/ssh", "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/config.gz", "/proc/1/cmdline", "/sys/kernel", "/sys/fs/cgroup"):
    attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(16), path)
""",
    "P13 home folders": """
for path in ("/root", "/home", "/var/log", "/run", "/opt", "/mnt", "/srv", "/boot", OUTSIDE):
    attempt(lambda: os.listdir(path), path)
""",
    # network
    "P14 TCP on this machine": """
import socket
attempt(lambda: socket.create_connection(("127.0.0.1", PORT), 0.5).recv(5), "TCP loopback")
""",
    "P14 listen": "import socket\nattempt(lambda: socket.create_server(('127.0.0.1', 0)), 'listening socket')",
    "P15 abstract socket": """
import socket
def go():
    s = socket.socket(socket.AF_UNIX); s.settimeout(0.5); s.connect("\\0" + ABSTRACT)
attempt(go, "abstract socket")
""",
    "P15 socket in a folder": """
import socket
def go():
    s = socket.socket(socket.AF_UNIX); s.settimeout(0.5); s.connect(SOCKET_PATH)
attempt(go, "socket by path")
""",
    "P15 socket pair": "import socket\nattempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM), 'socket pair of datagrams')\nattempt(lambda: socket.socketpair()[0].sendto(b'x', '\\0x'), 'sends to an address')\nattempt(lambda: socket.socketpair()[0].sendmsg([b'x'], [(1, 1, b'\\0\\0\\0\\0')]), 'sends a descriptor')",
    "P16 TCP outside": "import socket\nattempt(lambda: socket.create_connection(('1.1.1.1', 53), 0.3), 'TCP outside')",
    "P16 UDP outside": "import socket\nattempt(lambda: socket.socket(2, 2).sendto(b'x', ('8.8.8.8', 53)), 'UDP outside')",
    "P16 name lookup": "import socket\nattempt(lambda: socket.gethostbyname('example.org'), 'DNS')",
    "P16 download": "import urllib.request\nattempt(lambda: urllib.request.urlopen('http://1.1.1.1', timeout=0.3), 'HTTP')",
    "P17 vsock": "import socket\nattempt(lambda: socket.socket(40, 1), 'vsock')",
    "P18 netlink": "import socket\nattempt(lambda: socket.socket(16, 3), 'netlink')",
    "P18 raw packets": "import socket\nattempt(lambda: socket.socket(17, 3), 'packet')\nattempt(lambda: socket.socket(2, 3, 1), 'raw')",
    "P18 Bluetooth, XDP, algorithms": "import socket\nfor family in (31, 38, 44, 10, 1): attempt(lambda: socket.socket(family, 1), f'family {family}')",
    # signals and tracing
    "P19 kill its parent": "os.kill(os.getppid(), 9)\nprint(1)\ntime.sleep(1)",
    "P20 kill everything": "os.kill(-1, 9)\nprint(1)",
    "P20 terminate everything": "os.kill(-1, 15)\ntime.sleep(0.5)",
    "P20 kill a process outside": "attempt(lambda: os.kill(VICTIM, 0), 'sees a process outside')\nattempt(lambda: os.kill(VICTIM, 9), 'killed a process outside')",
    "P20 kill its group and session": "os.killpg(0, 9)",
    "P21 trace process 1": "r = syscall(101, 16, 1, 0, 0)\nif r >= 0: escaped('ptrace')",
    "P21 trace itself": "r = syscall(101, 0, 0, 0, 0)\nif r >= 0: escaped('traceme')",
    "P21 memory of process 1": "attempt(lambda: open('/proc/1/mem', 'r+b'), '/proc/1/mem')",
    "P21 read another process's memory": "r = syscall(310, os.getppid(), 0, 0, 0, 0, 0)\nif r >= 0: escaped('process_vm_readv')",
    "P21 descriptor of another process": """
fd = syscall(434, os.getppid(), 0)
if fd >= 0: escaped("pidfd")
""",
    "P22 orphan that holds standard output": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(3600)
    os._exit(0)
print(1)
""",
    "P23 orphan that burns CPU": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: pass
    os._exit(0)
print(1)
""",
    "P23 orphans that ignore signals": """
for _ in range(10):
    if os.fork() == 0:
        os.setsid(); ignore_signals()
        while True: time.sleep(1)
print(1)
""",
    # disk and descriptors
    "P24 fill the disk": """
written = 0
while written < 200:
    try:
        with open(f"/box/{written}", "wb") as file: file.write(bytes(8 << 20)); written += 8
    except OSError: break
if written > 72: escaped(f"{written} MB")
""",
    "P25 sparse file of a terabyte": "attempt(lambda: os.truncate(os.open('/box/x', os.O_CREAT | os.O_RDWR), 1 << 40), '1 TB file')",
    "P25 reserve a terabyte": "attempt(lambda: os.posix_fallocate(os.open('/box/x', os.O_CREAT | os.O_RDWR), 0, 1 << 40), '1 TB reserved')",
    "P25 sparse standard output": "attempt(lambda: os.ftruncate(1, 1 << 40), '1 TB of output')",
    "P26 many inodes": """
for number in range(50_000):
    try: os.close(os.open(f"/box/{number}", os.O_CREAT))
    except OSError: break
""",
    "P26 deep folders": """
for _ in range(20_000):
    try: os.mkdir("d"); os.chdir("d")
    except OSError: break
""",
    "P27 endless standard output": "while True: os.write(1, b'x' * 65536)",
    "P27 endless print": "while True: print('x' * 1000)",
    "P27 sixteen megabytes, then right": "sys.stdout.write('x' * 16_000_000)",
    "P28 endless standard error": "while True: os.write(2, b'x' * 65536)",
    "P29 descriptors": """
fds = []
try:
    while len(fds) < 5000: fds.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
if len(fds) > 200: escaped(f"{len(fds)} descriptors")
""",
    "P29 large pipes": """
import fcntl
r, w = os.pipe()
attempt(lambda: fcntl.fcntl(w, 1031, 1 << 20), "1 MB pipe")
""",
    "P29 terminals": "attempt(os.openpty, 'terminal')",
    # privileges
    "P30 raise its limits": """
import resource
for name in ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_NPROC", "RLIMIT_FSIZE", "RLIMIT_NOFILE"):
    number = getattr(resource, name)
    soft, hard = resource.getrlimit(number)
    if hard < 0: escaped(f"{name} is not limited")
    attempt(lambda: resource.setrlimit(number, (hard + 1, hard + 1)), name)
""",
    "P30 priority": "attempt(lambda: os.nice(-5), 'nice')\nattempt(lambda: os.sched_setscheduler(0, 1, os.sched_param(50)), 'realtime')",
    "P30 limits of process 1": "import resource\nattempt(lambda: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)), 'limits of process 1')",
    "P31 namespaces": "for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000):\n    if syscall(272, flag) >= 0: escaped('unshare')",
    "P31 namespace by clone": "if syscall(56, 0x10000000 | 17, 0, 0, 0, 0) == 0: escaped('clone')",
    "P31 namespace by clone3": """
import struct, ctypes
args = ctypes.create_string_buffer(struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0))
if syscall(435, args, 88) >= 0: escaped("clone3")
""",
    "P31 mount": "if syscall(165, b'none', b'/box', b'tmpfs', 0, 0) >= 0: escaped('mount')\nif syscall(428, -100, b'/', 0) >= 0: escaped('open_tree')",
    "P31 chroot and pivot_root": "attempt(lambda: os.chroot('/usr'), 'chroot')\nif syscall(155, b'/', b'/') >= 0: escaped('pivot_root')",
    "P31 device node": "attempt(lambda: os.mknod('/box/sda', 0o60600, os.makedev(8, 0)), 'mknod')",
    "P31 become root": "attempt(lambda: os.setuid(0), 'setuid') if os.getuid() else None\nattempt(lambda: os.setgroups([0]), 'setgroups')",
    "P31 set-uid programs": """
import subprocess
for program in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"):
    try: done = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, timeout=1)
    except (OSError, subprocess.TimeoutExpired): continue
try:
    if subprocess.run(["/usr/bin/id", "-u"], capture_output=True, timeout=1).stdout.strip() == b"0": escaped("root")
except (OSError, subprocess.TimeoutExpired): pass
""",
    "P31 capabilities": """
import ctypes, struct
header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
if syscall(125, header, data) >= 0 and any(struct.unpack("6I", data.raw)[:2]): escaped("has capabilities")
""",
    "P31 host name": "import socket\nattempt(lambda: socket.sethostname('x'), 'host name')",
    "P32 io_uring": "if syscall(425, 8, b'\\0' * 120) >= 0: escaped('io_uring')",
    "P32 bpf and perf": "if syscall(321, 0, b'\\0' * 72, 72) >= 0: escaped('bpf')\nif syscall(298, b'\\0' * 112, 0, -1, -1, 0) >= 0: escaped('perf')",
    "P32 userfaultfd": "if syscall(323, 0) >= 0: escaped('userfaultfd')",
    "P32 keyrings": "if syscall(250, 0, -3, 0) > 0: escaped('keyctl')\nif syscall(248, b'user', b'x', b'y', 1, -3) > 0: escaped('add_key')",
    "P32 files by handle": "if syscall(304, -100, b'\\0' * 24, 0) >= 0: escaped('open_by_handle_at')",
    "P32 kernel modules": "if syscall(175, b'x', 1, b'') >= 0 or syscall(313, 0, b'', 0) >= 0: escaped('modules')",
    "P32 32-bit calls": """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b866010000bb01000000b901000000ba00000000cd80c3"))
if ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() >= 0: escaped("32-bit socket")
""",
    "P32 x32 calls": "if syscall(0x40000000 + 41, 1, 1, 0) >= 0: escaped('x32 socket')",
    "P33 locks between boxes": """
import fcntl
for path in ("/usr/bin/env", "/dev/null", "/usr", sys.executable):
    attempt(lambda: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB), f"flock {path}")
    attempt(lambda: fcntl.lockf(os.open(path, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB), f"lock {path}")
    attempt(lambda: fcntl.fcntl(os.open(path, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK), f"lease {path}")
""",
    # the next run
    "P34 files for the next run": """
if os.path.isdir("/box") and os.listdir("/box"): escaped("found files")
for name in ("note", "sitecustomize.py", "usercustomize.py", "json.py", "main.py"):
    try: open(f"/box/{name}", "w").write("print('ESCAPED import')")
    except OSError: pass
""",
    "P34 patch the driver for the next run": """
import builtins
if hasattr(builtins, "note"): escaped("found a patch")
builtins.note = True
frame = sys._getframe()
while frame:
    for name in ("spent", "clean_up", "run_child", "CONTROL"):
        if name in frame.f_globals: frame.f_globals[name] = None
    frame = frame.f_back
""",
    "P34 a process for the next run": """
for pid in range(2, os.getpid()):
    try: os.kill(pid, 0); escaped(f"process {pid} of the run before") if pid != os.getppid() else None
    except OSError: pass
if os.fork() == 0:
    os.setsid(); ignore_signals(); time.sleep(3600)
""",
    "P34 limits for the next run": """
import resource
if resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 33: escaped("limits of the run before")
try: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (33, 33))
except OSError: pass
""",
    "P35 links as output": """
for name in ("out", "stdout"):
    try: os.symlink(SECRET_FILE, f"/box/{name}"); escaped("link") if os.path.exists(f"/box/{name}") else None
    except OSError: pass
""",
    # what it says
    "P36 exit at once": "os._exit(0)",
    "P36 sys.exit": "sys.exit(0)",
    "P36 SystemExit from a function": "def solve(): raise SystemExit(0)\nsolve()",
    "P37 answer, then exit 3": "print(input())\nsys.exit(3)",
    "P37 answer, then segfault": "print(input(), flush=True)\nimport ctypes\nctypes.string_at(0)",
    "P37 answer, then abort": "print(input(), flush=True)\nos.abort()",
    "P38 answer, then spaces": "print(1, ' ' * 200_000)",
    "P39 scan the heap": """
import gc
found = [thing for thing in gc.get_objects() if isinstance(thing, list) and thing and isinstance(thing[0], (bytes, str))]
print(*[thing[0] for thing in found[:50]])
""",
    "P39 patch comparison and exit": "import builtins\nbuiltins.print = lambda *a: None\nos._exit = lambda code: None\nsys.exit = os._exit",
    "P40 not a number": "print(float('nan'))",
    "P40 huge representation": "class Big:\n    def __repr__(self): return 'x' * 10**9\nprint(Big())",
    "P40 always equal": "class Equal(str):\n    def __eq__(self, other): return True\nprint(Equal('x'))",
    "P41 markers": 'print(\'ALL TESTS PASSED\\nOK\\nexit 0\\n{"status": "Success"}\')',
    "P41 forge the driver's messages": """
for fd in range(0, 64):
    try: os.write(fd, b"done 0 0 0 1")
    except OSError: pass
import _socket
attempt(lambda: _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 9).send(b"done 0 0 0 1"), "control socket")
""",
    "P41 write to its parent's output": "attempt(lambda: open(f'/proc/{os.getppid()}/fd/1', 'w').write('x'), 'output of its parent')\nattempt(lambda: open(f'/proc/{os.getppid()}/fd/9', 'w'), 'control socket')",
    "P42 every answer": "print(*range(20000))",
    "P42 the input as the answer": "print(input())",
    "P43 strange bytes": "os.write(1, b'\\0\\xff\\xfe\\x1b[2J\\r\\n' + b'9' * 500_000)",
    "P43 numbers that are none": "print('-0.0 nan inf -inf 1e999 0x1p3 １２')",
    "P44 null byte": "print(1)\0",
    "P44 rot13": "# coding: rot13\ncevag(1)",
    "P44 unknown coding": "# coding: no-such-codec\nprint(1)",
    "P44 5,000 parentheses": "(" * 5000 + ")" * 5000,
    "P44 deep brackets": "x = " + "[" * 150 + "]" * 150,
    "P44 long chain": "x = 0" + "+1" * 200_000,
    "P44 many comparisons": "x = 0" + "<1" * 50_000,
    "P44 nested functions": "".join(" " * depth + f"def f{depth}():\n" for depth in range(90)) + " " * 90 + "pass",
    "P44 deep unary": "x = " + "-" * 90_000 + "1",
    "P44 deep attribute": "x = a" + ".b" * 90_000,
    "P44 Python 2": "print 1",
    "P44 only comments": "# nothing",
    "P45 catastrophic regular expression": "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
    "P45 huge power": "print(len(str(7 ** 10 ** 8)))",
    "P45 huge power in the compiler": "x = 7 ** 10 ** 8\ny = 'x' * 10 ** 10\nz = (0,) * 10 ** 10",
    "P45 zip bomb": "import zlib\ndata = zlib.compress(bytes(50_000_000))\nhoard = [zlib.decompress(data) for _ in range(100)]",
    "P45 recursion": "sys.setrecursionlimit(10**8)\ndef f(n): return f(n + 1) + 1\nf(0)",
    "P45 recursion in C": "sys.setrecursionlimit(10**8)\nx = []\nfor _ in range(10**6): x = [x]\nrepr(x)",
    "P46 guess": "import random\nprint(random.getrandbits(64))",
    "P47 right only when it is not watched": "print(input() if os.getpid() > 1000 else 1)",
    "P48 closes its input": "os.close(0)\nprint(1)",
    "P48 reads its input forever": "while True: sys.stdin.seek(0); sys.stdin.read()",
    "P48 writes to its input": "attempt(lambda: os.write(0, b'x'), 'wrote to its input')\nattempt(lambda: os.ftruncate(0, 0), 'truncated its input')\nattempt(lambda: os.open('/proc/self/fd/0', os.O_RDWR), 'reopened its input')\nattempt(lambda: os.open('/dev/stdin', os.O_RDWR), 'reopened its input')",
}
QUICK = [name for index, name in enumerate(PROGRAMS) if index % 8 == 0 and not name.startswith(("P7", "P8"))]


def fill(source: str, facts: tuple[object, ...]) -> str:
    """A program with what its author knows of this machine."""
    return source if source.startswith("# coding") else PRELUDE.replace("FACTS", repr(facts)) + source
