"""What users will install: the wheels, in an empty environment, away from the repository; and agon-lens alone.

In full: the wheels are built, a new virtual environment installs them with their dependencies from the package index,
and the commands of the light install run in an empty folder. A second one installs a sibling of agon alone. With
--quick wheels are unpacked beside the dependencies that are installed here.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

from _lib import ROOT, arguments, verdict

EXTRA_SOURCES = ("pyproject.toml", "src/agon/cli/__init__.py", "packages/lens/pyproject.toml", "packages/lens/src")
CLAIM = (
    "the wheels install without torch in an empty environment, the light commands run, and agon-lens runs without agon"
)
HEAVY = ("torch", "transformers", "vllm", "trl", "peft", "datasets", "scipy", "ray", "tinker")
COMMANDS = (
    "--version", "init tabletop", "plan tabletop.yaml", "config show tabletop.yaml", "data check tabletop.yaml",
    "verify math --gold x+1 '<answer>1+x</answer>'", "diagnose log.jsonl", "view log.jsonl", "explain peek", "runs",
)  # fmt: skip
REFUSED = {"demo": "pip install", "eval tabletop.yaml": "fix:"}
"""Commands that need more than the light install: two lines, no traceback."""
WRITTEN = ("tabletop.yaml", "log.html")
ALONE = {"agon_lens": ("--version", "diagnose log.jsonl --html page.html", "view log.jsonl")}
"""Siblings of agon, and what they do where neither agon nor anything heavy can be imported."""
BLOCKED = """
import sys
for name in ("agon", {heavy}):
    sys.modules[name] = None
from {package}.cli import main
sys.exit(main(sys.argv[1:]))
"""


def build(folder: Path) -> dict[str, Path]:
    """The wheels of this tree, by the name of their package."""
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    for place in (ROOT, *sorted((ROOT / "packages").iterdir())):
        subprocess.run([sys.executable, "-c", code, str(folder)], cwd=place, check=True, stdout=subprocess.DEVNULL)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def environment(wheels: Iterable[Path], folder: Path, quick: bool) -> tuple[Path, dict[str, str]]:
    """A Python that has these wheels, and its variables."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if quick:
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(folder)
        return Path(sys.executable), {**bare, "PYTHONPATH": str(folder)}
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", *map(str, wheels)], check=True)
    subprocess.run([*pip, "check"], check=True)
    return python, bare


def failures_alone(package: str, python: Path, variables: dict[str, str], desk: Path, quick: bool) -> list[str]:
    """The commands of a sibling that do not answer without agon, or packages that came with it."""
    code = BLOCKED.format(package=package, heavy=", ".join(map(repr, HEAVY)))
    found = []
    for words in ALONE[package]:
        command = [python, "-c", code, *shlex.split(words)]
        done = subprocess.run(command, cwd=desk, env=variables, capture_output=True, text=True)
        if done.returncode or done.stderr:
            print(f"{package} {words}: {done.returncode}\n{done.stderr[-1000:]}", flush=True)
            found.append(f"{package} {words}")
    for name in () if quick else ("agon", *HEAVY):
        if not subprocess.run([python, "-c", f"import {name}"], env=variables, capture_output=True).returncode:
            found.append(f"{package} brings {name}")
    return found


def failures(python: Path, variables: dict[str, str], desk: Path) -> list[str]:
    """The commands that do not answer as they should."""
    found = []
    for words in (*COMMANDS, *REFUSED):
        command = [python, "-m", "agon", *shlex.split(words)]
        done = subprocess.run(command, cwd=desk, env=variables, capture_output=True, text=True)
        wanted = REFUSED.get(words)
        fine = done.returncode == 0 if wanted is None else done.returncode == 2 and wanted in done.stderr
        if not fine or "Traceback" in done.stderr:
            print(f"agon {words}: {done.returncode}\n{done.stderr[-1000:]}", flush=True)
            found.append(words)
    return found + [name for name in WRITTEN if not (desk / name).is_file()]


def facts(python: Path, variables: dict[str, str], desk: Path) -> tuple[Path, list[str], int]:
    """Where `agon` comes from, which heavy packages are beside it, and how many packages there are."""
    code = (
        "import agon, importlib.metadata as m, json; "
        "print(json.dumps([agon.__file__, sorted({d.name.lower() for d in m.distributions()})]))"
    )
    done = subprocess.run([python, "-c", code], cwd=desk, env=variables, capture_output=True, text=True, check=True)
    place, names = json.loads(done.stdout)
    return Path(place), [name for name in HEAVY if name in names], len(names)


def main() -> None:
    quick = arguments(str(__doc__)).quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        desk = folder / "desk"
        desk.mkdir()
        (desk / "log.jsonl").write_bytes((ROOT / "examples" / "grpo_log.jsonl").read_bytes())
        wheels, began = build(folder), time.monotonic()
        python, variables = environment(wheels.values(), folder / "all", quick)
        installed = time.monotonic() - began
        if quick:
            REFUSED.pop("demo")  # what it needs is installed here
        failed = failures(python, variables, desk)
        for package in ALONE:
            alone_in = environment([wheels[package]], folder / package, quick)
            failed += failures_alone(package, *alone_in, desk, quick)
        place, heavy, packages = facts(python, variables, desk)
        alone = place.is_relative_to(folder)
        size = wheels["agon_rl"].stat().st_size
    heavy = [] if quick else heavy
    value = {
        "failed": failed,
        "heavy": heavy,
        "from the wheel": alone,
        "commands": len(COMMANDS) + len(REFUSED) + sum(map(len, ALONE.values())),
    }
    goal = {**value, "failed": [], "heavy": [], "from the wheel": True}
    more = {"wheel_mb": round(size / 1e6, 1), "packages": packages, "install_s": round(installed)}
    verdict(CLAIM, value, goal, not failed and not heavy and alone, **({} if quick else more))


if __name__ == "__main__":
    main()
