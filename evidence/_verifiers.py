"""An environment of its own for real verifiers: its pins conflict with our lock.

It is installed from the package index once and kept under ~/.cache/agon; agon-judge's dependencies are in it, and
agon-judge itself is not: put a wheel or a source folder on PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from _lib import ROOT, cannot_run

VERIFIERS = "verifiers==0.4.0"
CACHE = Path("~/.cache/agon").expanduser()


def bare_environment(*folders: Path) -> dict[str, str]:
    """The variables of this process, with these folders alone on PYTHONPATH."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**bare, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def python_with_verifiers() -> Path:
    """The Python of that environment. AGON_VERIFIERS names a different one; without a package index the script ends."""
    if named := os.environ.get("AGON_VERIFIERS"):
        return Path(named)
    judge = tomllib.loads((ROOT / "packages" / "judge" / "pyproject.toml").read_text())
    wanted = [VERIFIERS, *judge["project"]["dependencies"]]
    key = hashlib.sha256("\n".join([sys.version, *wanted]).encode()).hexdigest()[:12]
    folder = CACHE / f"verifiers-{key}"
    if not folder.exists():
        print(f"installing {VERIFIERS} in an environment of its own", file=sys.stderr, flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="verifiers-", dir=CACHE))
        try:
            _install(unfinished, wanted)
            # renamed when complete, so that no other script uses half of it; `python -m` does not mind the move
            unfinished.rename(folder)
        except OSError:
            if not folder.exists():  # else a second script was faster
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder / "bin" / "python"


def _install(folder: Path, wanted: list[str]) -> None:
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q", "install", "--retries", "1"]
    done = subprocess.run([*pip, *wanted], env=bare_environment(), stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        cannot_run(
            f"pip cannot install {VERIFIERS}. {' '.join(said[-1:])}\n"
            "Connect to a package index (PIP_INDEX_URL names a different one), or set AGON_VERIFIERS to the Python of "
            f"an environment with {', '.join(wanted)}"
        )
