"""README's quickstart in a clean environment: every command as written, to the written report and viewer, offline.

In full: the committed files are unpacked into an empty folder, `scripts/setup` makes an environment there (timed beside
the rest: it depends on the package index), and README's commands run in it, one after the other, without a network for
models or packages. With --quick they run in this environment, without those that train.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from _lib import ROOT, arguments, verdict

EXTRA_SOURCES = ("README.md", "src/agon/cli/demo.py", "src/agon/matrix/demo.py", "scripts/setup")
CLAIM = (
    "README's quickstart runs as written in a clean environment, offline after install, in 3 minutes on two free cores"
)
SECONDS = 180.0
WRITTEN = ("runs/demo/match.html", "runs/demo/report.html", "runs/demo/report/results.csv", "tabletop.yaml")
LIGHT = ("init", "plan")
"""Commands of the quickstart that need no trained run and no engine."""
BLOCK = re.compile(r"<!-- quickstart: .*?-->\n```\n(.*?)```", re.DOTALL)


def commands(readme: Path = ROOT / "README.md") -> list[list[str]]:
    """The commands of README's quickstart, as words."""
    found = BLOCK.search(readme.read_text(encoding="utf-8"))
    lines = found[1].splitlines() if found else []
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def clean_environment(folder: Path) -> tuple[Path, float]:
    """An environment made by `scripts/setup` from the committed files alone, and the seconds that took."""
    archive = folder / "agon.tar"
    subprocess.run(["git", "archive", "--output", str(archive), "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder / "agon", filter="data")
    began = time.monotonic()
    subprocess.run([folder / "agon" / "scripts" / "setup"], check=True, stdout=subprocess.DEVNULL)
    return folder / "agon" / ".venv" / "bin" / "python", time.monotonic() - began


def run(python: Path, words: list[str], folder: Path) -> float:
    """One command; its seconds. A command that fails ends the measurement."""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "PIP_NO_INDEX": "1"}
    began = time.monotonic()
    done = subprocess.run([python, "-m", "agon", *words], cwd=folder, env=offline, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"agon {shlex.join(words)} ended with {done.returncode}\n{done.stderr[-2000:]}")
    seconds = time.monotonic() - began
    print(f"{seconds:6.1f} s  agon {shlex.join(words)}", flush=True)
    return seconds


def main() -> None:
    quick = arguments(str(__doc__)).quick
    named = [words[1:] for words in commands()]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python, installed = (Path(sys.executable), 0.0) if quick else clean_environment(folder)
        (folder / "desk").mkdir()
        chosen = [words for words in named if words[0] in LIGHT] if quick else named
        spent = [run(python, words, folder / "desk") for words in chosen]
        wanted = [name for name in WRITTEN if not quick or name == "tabletop.yaml"]
        missing = [name for name in wanted if not (folder / "desk" / name).is_file()]
    verdict(
        CLAIM,
        {"seconds": round(sum(spent)), "missing": missing, "commands": len(chosen)},
        {"seconds": SECONDS, "missing": [], "commands": len(chosen)},
        holds=bool(chosen) and not missing and sum(spent) < SECONDS,
        install_s=round(installed),
        demo_s=round(spent[0]) if not quick else None,
    )


if __name__ == "__main__":
    main()
