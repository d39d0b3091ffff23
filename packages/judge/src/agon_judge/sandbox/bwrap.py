"""The box of the `bwrap` backend: bubblewrap's command line, and the interpreter inside.

Read-only system folders, one small folder in memory to write to, no /proc, four devices, every namespace, no
capability, no environment, and the system calls of syscalls.py. The driver is process 1, see driver.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from agon_judge.errors import InputError
from agon_judge.sandbox.execution import MIB
from agon_judge.sandbox.launcher import DEVICES, FILTER, HASH_SEED

DISK = 64 * MIB
"""Bytes of files that a program may write."""
TOP = ("/bin", "/lib", "/lib64")
ROOM = "/box"
DRIVER = Path(__file__).with_name("driver.py")
OLDEST = (0, 7)
"""The first version that can limit the size of a folder in memory."""
ELSE = "use --backend landlock (in a config: sandbox.backend)"
INSTALL = "install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap)"


def command(interpreter: str) -> list[str]:
    """The command that becomes a box."""
    bwrap, nested = find_bwrap()
    folders = system_folders(interpreter)
    return [
        *(bwrap, "--unshare-all", "--unshare-user", *(["--disable-userns"] if nested else [])),
        *("--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL", "--hostname", "box"),
        *("--setenv", *HASH_SEED),
        *(word for folder in folders for word in ("--ro-bind", folder, folder)),
        *(word for link, target in links() for word in ("--symlink", target, link)),
        *(word for device in DEVICES for word in ("--dev-bind", device, device)),
        *("--size", str(DISK), "--tmpfs", ROOM, "--symlink", ROOM.strip("/"), "/tmp", "--remount-ro", "/"),
        *("--chdir", ROOM, "--seccomp", str(FILTER), "--", *python_command(interpreter, ROOM)),
    ]


def python_command(interpreter: str, room: str) -> list[str]:
    """The driver on an interpreter without user or site packages; its environment is HASH_SEED alone."""
    return [interpreter, "-s", "-S", "-W", "ignore", "-c", driver_source(), room]


@cache
def driver_source() -> str:
    return DRIVER.read_text()


@cache
def find_bwrap() -> tuple[str, bool]:
    """Where bubblewrap is, and whether it can forbid further user namespaces."""
    path = shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin")
    if path is None:
        raise InputError("bubblewrap is not installed", fix=f"{INSTALL}, or {ELSE}")
    out = subprocess.run([path, "--version"], capture_output=True, text=True, env={}).stdout
    version = tuple(map(int, re.findall(r"\d+", out)[:2])) or (0, 0)
    if version < OLDEST:
        raise InputError(
            f"bubblewrap 0.7 or newer is needed, not {out.strip() or 'this one'}", fix=f"{INSTALL}, or {ELSE}"
        )
    return path, version >= (0, 8)


def find_interpreter() -> str:
    """The Python that runs programs: the system's, which every uid can read, else the one that runs us."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path
    return str(Path(sys.executable).resolve())


def system_folders(interpreter: str) -> list[str]:
    """What is readable in a box: /usr, the linker's cache, and the interpreter's own folder if it is elsewhere."""
    home = Path(interpreter).resolve().parent.parent
    outside = [] if home.is_relative_to("/usr") else [str(home)]
    real = [path for path in TOP if Path(path).is_dir() and not Path(path).is_symlink()]
    cache = [path for path in ("/etc/ld.so.cache",) if Path(path).exists()]
    return ["/usr", *real, *cache, *outside]


def links() -> list[tuple[str, str]]:
    """The links at the top of a merged-/usr system, as (name, target)."""
    return [(path, str(Path(path).readlink())) for path in TOP if Path(path).is_symlink()]
