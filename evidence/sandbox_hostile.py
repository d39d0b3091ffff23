"""Do hostile programs get out of the sandbox, get paid, survive, or hang? 148 of them, started as root and as a user.

1. Every program of `_hostile_programs.py` in the bwrap backend, started as root (uid of its own, cgroup) and, if there
   is a Python for everyone at /usr/bin/python3, unprivileged (no cgroup, `memory: per_process`). Expected outputs are
   64-bit random numbers. An escape is anything that a program could do outside its box, see or signal; 0 may be paid,
   0 processes survive, and CPU time stays within the limit (plus what the supervisor needs to notice).
   What one limit per process cannot stop is named in UNSTOPPABLE and allowed for the unprivileged start alone.
2. The same for landlock, as root only (unprivileged, it would share the user's own processes): a table of what is
   stopped. It is weaker and may fail; only bwrap is claimed.
3. 2,000 runs in parallel, one in ten hostile: every right program is judged right and every wrong one wrong.

4. Every verdict of bwrap comes at most 0.5 s after the wall limit, with one program at a time. The quick version, which
   runs beside tests and two programs at a time, does not judge that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from _hostile_programs import PROGRAMS, QUICK
from _lib import ROOT, arguments, need_bubblewrap, verdict

EXTRA_SOURCES = ("evidence/_hostile_run.py", "evidence/_hostile_programs.py", "packages/judge/src/agon_judge/sandbox")
USER = 60699
"""The uid of the unprivileged start: one that nobody has."""
CPU_LIMIT, NOTICE, BUSY = 0.5, 0.5, 1.5
"""CPU seconds that a program may use, and that may pass until the supervisor has noticed: alone, and beside the tests
that run at the same time as a quick version."""
LATE = 0.5
"""Seconds after its wall limit at which the verdict on a program must be known."""
UNSTOPPABLE = {"P4 memory over six processes"}
"""What needs a cgroup."""
SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True)
class Start:
    """A backend and who starts it."""

    backend: str
    memory: str
    user: bool = False

    @property
    def name(self) -> str:
        return f"{self.backend} {'user' if self.user else 'root' if os.getuid() == 0 else 'user'}"


def starts(quick: bool) -> list[Start]:
    """What can be started here; the weaker backends only with a uid of their own."""
    if os.getuid() != 0:
        return [Start("bwrap", "per_process", user=True)]
    weaker = [] if quick else [Start("landlock", "cgroup")]
    return [Start("bwrap", "cgroup"), *([Start("bwrap", "per_process", user=True)] if system_python() else []), *weaker]


def system_python() -> bool:
    """Whether any uid can run our code with the system's Python."""
    check = [SYSTEM_PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    return Path(SYSTEM_PYTHON).exists() and subprocess.run(check, check=False).returncode == 0


def attack(start: Start, names: list[str], at_once: int, mixed: int) -> dict[str, object]:
    """Run the programs in a process of their own; what it prints."""
    asked = json.dumps(
        {"backend": start.backend, "memory": start.memory, "names": names, "at_once": at_once, "mixed": mixed}
    )
    if not start.user or os.getuid() != 0:
        command = [sys.executable, str(ROOT / "evidence" / "_hostile_run.py"), asked]
        return result(subprocess.run(command, capture_output=True, text=True, check=False))
    with tempfile.TemporaryDirectory() as name:
        folder = copy_code(Path(name))
        code = f"import sys; sys.path.insert(0, {str(folder)!r}); import _hostile_run; _hostile_run.main()"
        uid = {"user": USER, "group": USER, "extra_groups": []}
        command = [SYSTEM_PYTHON, "-I", "-c", code, asked]
        return result(subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False, **uid))  # type: ignore[call-overload]


def copy_code(folder: Path) -> Path:
    """The judge, whose sandbox needs one package, where every uid can read it."""
    import pyseccomp

    folder.chmod(0o755)
    shutil.copytree(ROOT / "packages" / "judge" / "src" / "agon_judge", folder / "agon_judge")
    for path in (Path(pyseccomp.__file__), *(ROOT / "evidence").glob("_hostile_*.py")):
        shutil.copy(path, folder)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


def result(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    if done.returncode:
        raise SystemExit(f"the run failed:\n{done.stderr[-3000:]}")
    printed: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return printed


def faults(start: Start, found: dict[str, object], notice: float) -> dict[str, list[str]]:
    """What went wrong, by program."""
    wrong: dict[str, list[str]] = {}
    for name, record in found["records"].items():  # type: ignore[attr-defined]
        told = [f"escaped: {what}" for what in record["escaped"][:3]] + (["paid"] if record["paid"] else [])
        told += ["the machine failed"] if record["endings"] == ["infra"] else []
        told += [f"{record['cpu']:.2f} CPU seconds"] if record["cpu"] > CPU_LIMIT + notice else []
        if told and not (start.memory == "per_process" and name in UNSTOPPABLE):
            wrong[name] = told
    return wrong


def table(columns: dict[str, dict[str, list[str]]], names: list[str]) -> str:
    """Per kind of attack and start: stopped, of how many."""
    kinds = list(dict.fromkeys(name.split()[0] for name in names))
    lines = [f"{'attack':<10}" + "".join(f"{column:>16}" for column in columns)]
    for kind in kinds:
        of = [name for name in names if name.split()[0] == kind]
        cells = [f"{sum(name not in wrong for name in of)} of {len(of)}" for wrong in columns.values()]
        lines.append(f"{kind:<10}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def main() -> None:
    quick = arguments(__doc__ or "").quick
    need_bubblewrap()
    names = QUICK if quick else list(PROGRAMS)
    columns: dict[str, dict[str, list[str]]] = {}
    survivors: dict[str, int] = {}
    mixed: dict[str, int] = {}
    late = 0.0
    for start in starts(quick):
        found = attack(start, names, 2 if quick else 1, (40 if quick else 2000) if not columns else 0)
        columns[start.name] = faults(start, found, BUSY if quick else NOTICE)
        survivors[start.name] = len(found["survivors"])  # type: ignore[arg-type]
        mixed = mixed or found["mixed"]  # type: ignore[assignment]
        if start.backend == "bwrap":
            late = max(late, *(record["late"] for record in found["records"].values()))  # type: ignore[attr-defined]
        print(
            f"{start.name}: {len(columns[start.name])} of {len(names)} not stopped; {survivors[start.name]} survivors"
        )
        print(*(f"    {name}: {'; '.join(told)}" for name, told in columns[start.name].items()), sep="\n")
    print(table(columns, names))
    print(f"mixed runs: {mixed}; the latest verdict came {late:.2f} s after its wall limit")
    claimed = [name for name in columns if name.startswith("bwrap")]
    healthy = not {"right judged wrong", "wrong judged right", "hostile paid", "machine failed"} & mixed.keys()
    verdict(
        "no hostile program escapes from a bwrap box, is paid, outlives its verdict or exceeds its CPU time",
        value={name: {"not stopped": len(columns[name]), "survivors": survivors[name]} for name in claimed},
        goal={"not stopped": 0, "survivors": 0, "latest verdict": LATE},
        holds=healthy
        and (quick or late <= LATE)
        and bool(claimed)
        and not any(len(columns[name]) + survivors[name] for name in claimed),
        programs=len(names),
        mixed=mixed,
        stopped={name: len(names) - len(wrong) for name, wrong in columns.items()},
        latest_verdict=round(late, 2),
    )


if __name__ == "__main__":
    main()
