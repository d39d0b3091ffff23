"""What users will install: the wheel alone, in an empty environment, away from the repository.

In full: the wheel is built, a new virtual environment installs it with its dependencies from the package index, and the
commands of the light install run in an empty folder. With --quick the wheel is unpacked beside the dependencies that
are installed here.
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
from pathlib import Path

from _lib import ROOT, arguments, verdict

EXTRA_SOURCES = ("pyproject.toml", "src/agon/cli/__init__.py")
CLAIM = "the wheel installs without torch in an empty environment, and the light commands run from it alone"
HEAVY = ("torch", "transformers", "vllm", "trl", "peft", "datasets", "scipy", "ray", "tinker")
COMMANDS = (
    "--version", "init tabletop", "plan tabletop.yaml", "config show tabletop.yaml", "data check tabletop.yaml",
    "verify math --gold x+1 '<answer>1+x</answer>'", "diagnose log.jsonl", "view log.jsonl", "explain peek", "runs",
)  # fmt: skip
REFUSED = {"demo": "pip install", "eval tabletop.yaml": "fix:"}
"""Commands that need more than the light install: two lines, no traceback."""
WRITTEN = ("tabletop.yaml", "log.html")


def build(folder: Path) -> Path:
    """The wheel of this tree."""
    code = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment(wheel: Path, folder: Path, quick: bool) -> tuple[Path, dict[str, str]]:
    """A Python that has the wheel, and its variables."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if quick:
        zipfile.ZipFile(wheel).extractall(folder / "site")
        return Path(sys.executable), {**bare, "PYTHONPATH": str(folder / "site")}
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)], check=True)
    subprocess.run([python, "-m", "pip", "check", "-q", "--disable-pip-version-check"], check=True)
    return python, bare


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
        wheel, began = build(folder), time.monotonic()
        python, variables = environment(wheel, folder, quick)
        installed = time.monotonic() - began
        if quick:
            REFUSED.pop("demo")  # what it needs is installed here
        failed = failures(python, variables, desk)
        place, heavy, packages = facts(python, variables, desk)
        alone = place.is_relative_to(folder)
        size = wheel.stat().st_size
    heavy = [] if quick else heavy
    value = {"failed": failed, "heavy": heavy, "from the wheel": alone, "commands": len(COMMANDS) + len(REFUSED)}
    goal = {**value, "failed": [], "heavy": [], "from the wheel": True}
    more = {"wheel_mb": round(size / 1e6, 1), "packages": packages, "install_s": round(installed)}
    verdict(CLAIM, value, goal, not failed and not heavy and alone, **({} if quick else more))


if __name__ == "__main__":
    main()
