"""Runs hostile programs in one sandbox, and watches what happens outside: a process of its own, started by a script.

    python _hostile_run.py '{"backend": "bwrap", "memory": "cgroup", "names": [...], "mixed": 0}'

Prints one JSON line: per program how it ended, what it escaped to, whether it was paid; then the survivors. `mixed`
adds that many runs in parallel, one in ten of them hostile.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _hostile_programs import PROGRAMS, fill
from agon_judge.errors import SandboxDown
from agon_judge.sandbox.execution import Execution, ProgramLimits
from agon_judge.sandbox.grade import compare, run
from agon_judge.sandbox.host import HostSandbox
from agon_judge.verdict import Verdict

LIMITS = ProgramLimits(cpu=0.5, wall=1.5, memory=256 << 20)
HANG_SECONDS = 60.0


@dataclass
class Record:
    """What became of one program."""

    endings: list[str]
    escaped: list[str] = field(default_factory=list)
    paid: bool = False
    cpu: float = 0.0
    late: float = 0.0
    seconds: float = 0.0


@dataclass
class World:
    """What is outside and must stay out of reach."""

    folder: Path
    secret: str
    port: int
    victim: subprocess.Popen[bytes]
    mark: str

    def facts(self) -> tuple[object, ...]:
        return (
            str(self.folder / "expected.txt"),
            self.secret,
            self.port,
            f"agon-{self.mark}",
            str(self.folder / "socket"),
            self.victim.pid,
            self.mark,
            str(self.folder / "open"),
        )


@contextlib.contextmanager
def world(secret: str, sandbox: HostSandbox) -> Iterator[World]:
    """A secret in a file and in the environment, servers on every kind of socket, an open folder, a victim."""
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "expected.txt").write_text(secret)
        (folder / "open").mkdir()
        (folder / "open").chmod(0o777)
        servers = [socket.create_server(("127.0.0.1", 0))]
        for address in (f"\0agon-{mark}", str(folder / "socket")):
            servers.append(socket.socket(socket.AF_UNIX))
            servers[-1].bind(address)
            servers[-1].listen()
        (folder / "socket").chmod(0o777)
        for server in servers:
            threading.Thread(target=greet, args=(server,), daemon=True).start()
        outside = World(folder, secret, servers[0].getsockname()[1], start_victim(sandbox), mark)
        yield outside
        outside.victim.kill()
        outside.victim.wait()


def greet(server: socket.socket) -> None:
    while True:
        client, _ = server.accept()
        with client:
            client.sendall(b"hello")


def start_victim(sandbox: HostSandbox) -> subprocess.Popen[bytes]:
    """A process outside: with the uid of a box where a namespace is what protects it, else with its neighbour's."""
    number = sandbox.uids.start if sandbox.backend == "bwrap" else sandbox.uids.start - 1
    uid = {"user": number, "group": number, "extra_groups": []} if os.getuid() == 0 else {}
    return subprocess.Popen(["sleep", "3600"], env={}, cwd="/", **uid)  # type: ignore[call-overload, no-any-return]


def attack(sandbox: HostSandbox, name: str, outside: World) -> Record:
    """Run one program on two inputs whose outputs nobody can know."""
    cases = [(f"{secrets.randbits(64)}\n", str(secrets.randbits(64))) for _ in range(2)]
    program = fill(PROGRAMS[name], outside.facts())
    started = time.monotonic()
    try:
        runs = list(sandbox.execute(program, [given.encode() for given, _ in cases], LIMITS))
    except SandboxDown:
        return Record(["infra"], seconds=time.monotonic() - started)
    record = Record([str(one.ending) for one in runs], seconds=time.monotonic() - started)
    for (_, expected), one in zip(cases, runs, strict=False):
        record.paid |= compare(expected, one).correct
        record.escaped += reports(one)
        record.cpu = max(record.cpu, one.cpu)
        record.late = max(record.late, one.wall - LIMITS.wall)
    if outside.victim.poll() is not None:
        record.escaped.append("the victim is dead")
        outside.victim = start_victim(sandbox)
    record.escaped += [f"file in {path.parent}" for path in marks(outside)]
    return record


def reports(one: Execution) -> list[str]:
    return [line[8:].decode(errors="replace") for line in one.stdout.split(b"\n") if line.startswith(b"ESCAPED ")]


def marks(outside: World) -> list[Path]:
    """Files that a program wrote outside; they are deleted."""
    places = ("/etc", "/usr", "/usr/bin", "/lib", "/dev", "/dev/shm", "/", "/var", "/root", "/home", "/run", "/opt")
    paths = [Path(place) / outside.mark for place in (*places, str(outside.folder / "open"))]
    there = [path for path in paths if os.access(path.parent, os.X_OK) and path.exists()]
    for path in there:
        path.unlink()
    return there


def survivors(outside: World, uids: range) -> list[str]:
    """Processes of a box's uid that are left when the sandbox is closed, other than the victim and ourselves."""
    boxes = set(uids) or {os.getuid()}
    left = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if folder.stat().st_uid in boxes and state not in "ZX":
                left.append(f"{folder.name} {(folder / 'cmdline').read_text()[:80]!r}")
    ours = {str(os.getpid()), str(outside.victim.pid)}
    return [line for line in left if line.split()[0] not in ours]


def wait_for_survivors(outside: World, uids: range) -> list[str]:
    deadline = time.monotonic() + 10
    while (left := survivors(outside, uids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def mix(sandbox: HostSandbox, count: int, outside: World) -> dict[str, int]:
    """Runs in parallel, one in ten hostile: every right program must be judged right, every wrong one wrong."""
    names = sorted(set(PROGRAMS) - {name for name in PROGRAMS if name.startswith(("P7", "P8", "P9"))})
    rng = random.Random(0)

    def graded(program: str, tests: list[tuple[str, str]]) -> Verdict | None:
        try:
            return run(program, tests, limits=LIMITS, sandbox=sandbox)
        except SandboxDown:
            return None

    def one(index: int) -> str:
        a, b = rng.randrange(10**9), rng.randrange(10**9)
        if index % 10 == 0:
            program = fill(PROGRAMS[names[index // 10 % len(names)]], outside.facts())
            verdict = graded(program, [("1", outside.secret)])
            return "hostile paid" if verdict is not None and verdict.correct else "hostile refused"
        wrong = index % 10 == 1
        program = f"a, b = map(int, input().split())\nprint(a {'+' if wrong else '*'} b)"
        verdict = graded(program, [(f"{a} {b}", str(a * b))])
        if verdict is None:
            return "machine failed"
        return f"{'wrong' if wrong else 'right'} judged {'right' if verdict.correct else 'wrong'}"

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(one, range(count)))
    return {kind: results.count(kind) for kind in sorted(set(results))}


def main() -> None:
    asked, secret = json.loads(sys.argv[1]), secrets.token_hex(16)
    os.environ["HF_TOKEN"] = secret
    sandbox = HostSandbox(asked["backend"], memory=asked["memory"], workers=2)
    with world(secret, sandbox) as outside:
        try:
            with ThreadPoolExecutor(asked["at_once"]) as threads:
                records = list(threads.map(lambda name: attack(sandbox, name, outside), asked["names"]))
            mixed = mix(sandbox, asked["mixed"], outside) if asked["mixed"] else {}
            described = sandbox.describe()
        finally:
            sandbox.close()
        left = wait_for_survivors(outside, sandbox.uids)
    named = dict(zip(asked["names"], map(asdict, records), strict=True))
    print(json.dumps({"records": named, "survivors": left, "mixed": mixed, "described": described}))


if __name__ == "__main__":
    main()
