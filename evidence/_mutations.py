"""Would the tests notice? Edits of the source, each of which must make a test fail.

A mutation replaces one piece of text, which must occur exactly once, in a copy of the packages. Tests then run on the
copy in a fork of this process, which has imported the heavy packages once for all. Only failing tests count as caught:
tests that cannot run, or hang, are an error of the script.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _lib import ROOT

LIMIT = 1800
"""Seconds after which tests hang."""
PYTEST = ("-x", "-q", "-p", "no:cacheprovider")


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    """Files or tests that run against it, in this order, until one fails."""


def edits(file: str, tests: Sequence[str], *named: tuple[str, str, str]) -> list[Mutation]:
    """Mutations of one file of the package: name, text, and what replaces it."""
    return [Mutation(name, file, old, new, tuple(tests)) for name, old, new in named]


def judged(where: str, mutations: Sequence[Mutation], least: int, quick: bool, imports: Sequence[str] = ()) -> Any:
    """Run all; what the verdict says of them. A full run needs at least so many."""
    missed = survivors(mutations, imports)
    return {
        "claim": f"every hand-made mutation of {where} makes a test fail",
        "value": len(mutations) - len(missed),
        "goal": len(mutations),
        "holds": not missed and (quick or len(mutations) >= least),
        "missed": missed,
        "quick": quick,
    }


def survivors(mutations: Sequence[Mutation], imports: Sequence[str] = ()) -> list[str]:
    """Run all; the names of those that no test catches. `imports` are packages that many of the tests need."""
    for module in ("pytest", "hypothesis", *imports):
        importlib.import_module(module)
    missed = []
    with tempfile.TemporaryDirectory() as scratch:
        _demand_that_tests_pass(Path(scratch), mutations)
        for mutation, caught in _outcomes(Path(scratch), mutations):
            print(f"{'caught ' if caught else 'MISSED '} {mutation.file:26} {mutation.name}", flush=True)
            missed += [] if caught else [mutation.name]
    return sorted(missed)


def _demand_that_tests_pass(scratch: Path, mutations: Iterable[Mutation]) -> None:
    tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    child = _start(_copy(scratch / "unmutated"), tuple(tests))
    if _failed(os.waitpid(child, 0)[1], scratch / "unmutated"):
        sys.exit(f"the tests fail on the unmutated package:\n{_output(scratch / 'unmutated')}")


def _outcomes(scratch: Path, mutations: Sequence[Mutation]) -> Iterator[tuple[Mutation, bool]]:
    """Each mutation and whether it was caught, as many at a time as there are cores."""
    waiting, running = list(enumerate(mutations)), dict[int, tuple[Path, Mutation]]()
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            number, mutation = waiting.pop(0)
            folder = _copy(scratch / str(number))
            _apply(mutation, folder)
            running[_start(folder, mutation.tests)] = folder, mutation
        child, status = os.wait()
        folder, mutation = running.pop(child)
        yield mutation, _failed(status, folder)
        shutil.rmtree(folder)


def _copy(folder: Path) -> Path:
    for package in (ROOT / "src" / "agon", ROOT / "packages" / "judge" / "src" / "agon_judge"):
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _apply(mutation: Mutation, folder: Path) -> None:
    target = folder / ("" if mutation.file.startswith("agon_judge/") else "agon") / mutation.file
    source = target.read_text()
    if (count := source.count(mutation.old)) != 1 or mutation.old == mutation.new:
        sys.exit(f"mutation {mutation.name!r}: its text occurs {count} times in {mutation.file}")
    target.write_text(source.replace(mutation.old, mutation.new))


def _start(folder: Path, tests: Sequence[str]) -> int:
    """Fork, and run tests on the package in `folder` there; return the process."""
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 3
    try:
        code = _run(folder, tests)
    finally:
        os._exit(code)


def _run(folder: Path, tests: Sequence[str]) -> int:
    import pytest

    signal.alarm(LIMIT)
    out = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in ("agon", "agon_judge")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    code = int(pytest.main([*PYTEST, *tests]))
    sys.stdout.flush()
    used = Path(sys.modules["agon"].__file__ or "").parent
    return code if used == folder / "agon" else 3


def _failed(status: int, folder: Path) -> bool:
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        sys.exit(f"the tests could not run (exit {code}):\n{_output(folder)}")
    return code == 1


def _output(folder: Path) -> str:
    return (folder / "output").read_text(errors="replace")[-3000:]
