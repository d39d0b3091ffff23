"""What users will install: the wheels, in an empty environment, away from the repository; judge and lens also alone.

In full: the wheels are built, and for each declared version of Python that is found here a new virtual environment
installs them with their dependencies from the package index; then the commands of the light install run in an empty
folder, without a network where bubblewrap can take it away. One more for each of agon-judge and agon-lens installs it
alone. Versions that are not found are named; `--python 3.12`, which may be repeated, tries that one alone. With
--quick wheels are unpacked beside the dependencies that are
installed here, for this Python alone. Programs are judged where bubblewrap is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from _lib import ROOT, arguments, verdict
from _pythons import interpreters
from agon_judge.sandbox import cgroups

EXTRA_SOURCES = (
    "pyproject.toml", "src/agon/cli/__init__.py",
    "packages/judge/pyproject.toml", "packages/judge/src", "packages/lens/pyproject.toml", "packages/lens/src",
)  # fmt: skip
CLAIM = (
    "on every declared Python the wheels install without torch in an empty environment, the light commands run "
    "offline, and agon-judge and agon-lens run without agon"
)
HEAVY = ("torch", "transformers", "vllm", "trl", "peft", "datasets", "scipy", "tinker")
COMMANDS = (
    "--version", "init tabletop", "plan tabletop.yaml", "plan tabletop.yaml --show", "data check tabletop.yaml",
    "diagnose log.jsonl", "view log.jsonl", "report",
    "sandbox --help",
)  # fmt: skip
REFUSED = {"demo": "pip install 'agon-rl[", "eval tabletop.yaml": "fix:"}
"""Commands that need more than the light install: two lines, no traceback."""
WRITTEN = ("tabletop.yaml", "log.html")
MEMORY = "cgroup" if cgroups.places() else "per_process"
PROGRAM = f"code add.py --tests tests.json --memory {MEMORY}"
ALONE = {
    "agon_judge": ("--version", "math --gold x+1 --answer 1+x", *([PROGRAM] if shutil.which("bwrap") else [])),
    "agon_lens": ("--version", "diagnose log.jsonl --html page.html", "view log.jsonl"),
}
"""The other packages, and what they do where neither agon nor anything heavy can be imported."""
EXTRAS = {"agon_judge": "[sandbox]"}
DESK = {
    "add.py": "a, b = map(int, input().split())\nprint(a + b)\n",
    "tests.json": '[["1 2", "3"], ["40 2", "42"]]',
}
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


def environment(
    wheels: Iterable[Path], folder: Path, interpreter: str, quick: bool, extras: str = ""
) -> tuple[Path, dict[str, str]]:
    """A Python that has these wheels with these extras, and its variables."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if quick:
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(folder)
        return Path(sys.executable), {**bare, "PYTHONPATH": str(folder)}
    subprocess.run([interpreter, "-m", "venv", folder], env=bare, check=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "install", *(f"{wheel}{extras}" for wheel in wheels)], env=bare, check=True)
    subprocess.run([*pip, "check"], env=bare, check=True)
    return python, bare


def offline() -> list[str]:
    """The words before a command that take the network from it; none where this machine does not allow that."""
    for words in (["unshare", "--net"], ["unshare", "--map-current-user", "--net"]):
        if shutil.which("unshare") and not subprocess.run([*words, "true"], capture_output=True).returncode:
            return words
    return []


def failures_alone(package: str, python: Path, variables: dict[str, str], desk: Path, before: list[str]) -> list[str]:
    """The commands of a package that do not answer without agon, or packages that came with it."""
    code = BLOCKED.format(package=package, heavy=", ".join(map(repr, HEAVY)))
    found = []
    for words in ALONE[package]:
        command = [*before, python, "-c", code, *shlex.split(words)]
        done = subprocess.run(command, cwd=desk, env=variables, capture_output=True, text=True)
        if done.returncode or done.stderr:
            print(f"{package} {words}: {done.returncode}\n{done.stderr[-1000:]}", flush=True)
            found.append(f"{package} {words}")
    return found


def brought(package: str, python: Path, variables: dict[str, str]) -> list[str]:
    """Packages that a package must not bring, and its command, if that is not installed."""
    script = python.parent / package.replace("_", "-")
    found = [] if script.is_file() else [f"{script.name} is not a command"]
    for name in ("agon", *HEAVY):
        if not subprocess.run([python, "-c", f"import {name}"], env=variables, capture_output=True).returncode:
            found.append(f"{package} brings {name}")
    return found


def failures(agon: list[str | Path], variables: dict[str, str], desk: Path, commands: Iterable[str]) -> list[str]:
    """The commands that do not answer as they should."""
    found = []
    for words in commands:
        done = subprocess.run([*agon, *shlex.split(words)], cwd=desk, env=variables, capture_output=True, text=True)
        wanted = REFUSED.get(words)
        fine = done.returncode == 0 if wanted is None else done.returncode == 2 and wanted in done.stderr
        if not fine or "Traceback" in done.stderr:
            print(f"agon {words}: {done.returncode}\n{done.stderr[-1000:]}", flush=True)
            found.append(words)
    return found + [name for name in WRITTEN if not (desk / name).is_file()]


def facts(python: Path, variables: dict[str, str], desk: Path) -> tuple[Path, list[str], int, list[str]]:
    """Where `agon` comes from, which heavy packages are beside it, how many packages there are, and its commands."""
    code = (
        "import agon, importlib.metadata as m, json; from agon.cli import commands; "
        "print(json.dumps([agon.__file__, sorted({d.name.lower() for d in m.distributions()}), "
        "sorted(name for group in commands()[0].values() for name in group)]))"
    )
    done = subprocess.run([python, "-c", code], cwd=desk, env=variables, capture_output=True, text=True, check=True)
    place, names, commands = json.loads(done.stdout)
    return Path(place), [name for name in HEAVY if name in names], len(names), commands


def try_wheels(wheels: dict[str, Path], folder: Path, interpreter: str, quick: bool) -> dict[str, object]:
    """Install the wheels under one Python, run each command, and say what failed and what came along."""
    desk = folder / "desk"
    desk.mkdir(parents=True)
    (desk / "log.jsonl").write_bytes((ROOT / "examples" / "grpo_log.jsonl").read_bytes())
    for file, text in DESK.items():
        (desk / file).write_text(text)
    began, before = time.monotonic(), [] if quick else offline()
    python, variables = environment(wheels.values(), folder / "all", interpreter, quick)
    installed = time.monotonic() - began
    place, heavy, packages, names = facts(python, variables, desk)
    refused = [words for words in REFUSED if not (quick and words == "demo")]  # what the demo needs is installed here
    helps = [] if quick else [f"{name} --help" for name in names]
    agon: list[str | Path] = [python, "-m", "agon"] if quick else [*before, python.parent / "agon"]
    failed = failures(agon, variables, desk, (*COMMANDS, *refused, *helps))
    for package in ALONE:
        alone_in = environment([wheels[package]], folder / package, interpreter, quick, EXTRAS.get(package, ""))
        failed += failures_alone(package, *alone_in, desk, before)
        failed += [] if quick else brought(package, *alone_in)
    return {
        "failed": failed,
        "heavy": [] if quick else heavy,
        "from the wheel": place.is_relative_to(folder),
        "offline": bool(before),
        "commands": len(COMMANDS) + len(refused) + len(helps) + sum(map(len, ALONE.values())),
        "packages": packages,
        "install_s": round(installed),
    }


def declared() -> list[str]:
    """The versions of Python that pyproject.toml names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--python", action="append")
    chosen, sys.argv[1:] = parser.parse_known_args()
    args = arguments(str(__doc__))
    here = ".".join(map(str, sys.version_info[:2]))
    found = {here: sys.executable} if args.quick else interpreters()
    wanted = [here] if args.quick else chosen.python or declared()
    missing = [version for version in wanted if version not in found]
    value = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        wheels = build(folder)
        for version in wanted:
            if version not in missing:
                value[version] = try_wheels(wheels, folder / version, found[version], args.quick)
                print(version, value[version], flush=True)
        size = wheels["agon_rl"].stat().st_size
    good = {"failed": [], "heavy": [], "from the wheel": True} | ({} if args.quick else {"offline": True})
    holds = bool(value) and all(good.items() <= facts.items() for facts in value.values())
    verdict(CLAIM, value, good, holds, not_found=missing, **({} if args.quick else {"wheel_mb": round(size / 1e6, 1)}))


if __name__ == "__main__":
    main()
