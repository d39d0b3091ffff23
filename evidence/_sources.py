"""Which files a result depends on: those that its script imports, directly or through others, and those that it names.

The assets beside an imported module count too. A script that starts other programs, or reads files of this repository,
names them in EXTRA_SOURCES: paths relative to the repository, a folder for all that it holds. `scripts/prove --changed`
compares the fingerprint of all these files with the one in the kept result.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.architecture import tree


def sources(script: Path) -> list[Path]:
    """The script and every file that it depends on, in a stable order."""
    imported = tree.reachable([script])
    named = {path for parent in imported for path in extra_sources(parent)}
    imported |= tree.reachable(path for path in named if path.suffix == ".py")
    assets = {path for folder in {path.parent for path in imported} for path in _files(folder / "assets")}
    return sorted(imported | named | assets)


def extra_sources(path: Path) -> list[Path]:
    """The files that a script names in EXTRA_SOURCES."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EXTRA_SOURCES":
            places = [tree.ROOT / name for name in ast.literal_eval(node.value)]
            if missing := [str(place.relative_to(tree.ROOT)) for place in places if not place.exists()]:
                raise FileNotFoundError(f"EXTRA_SOURCES of {path.name} names {', '.join(missing)}")
            return [file for place in places for file in _files(place)]
    return []


def _files(place: Path) -> list[Path]:
    """A file, or every file in a folder."""
    inside = [place] if place.is_file() else place.rglob("*")
    return [path for path in inside if path.is_file() and "__pycache__" not in path.parts]


def fingerprint(paths: Iterable[Path]) -> str:
    """A hash of names and contents."""
    total = hashlib.sha256()
    for path in paths:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(tree.ROOT).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]


def why_changed(script: Path) -> str | None:
    """Why the kept result of a script is not current; None when it is."""
    kept = tree.ROOT / "evidence" / "results" / f"{script.stem}.json"
    if not kept.exists():
        return "no result is kept"
    result, paths = json.loads(kept.read_text()), sources(script)
    if "sources" not in result:
        return "the kept result does not say what it depends on"
    if result["sources"] == fingerprint(paths):
        return None
    return _difference(result, paths)


def _difference(result: dict[str, Any], paths: list[Path]) -> str:
    """Which of these files changed since the result was kept, as far as git knows."""
    changed = [name for name in _changed_since(result["commit"]) if tree.ROOT / name in paths]
    if not changed:
        return f"its {len(paths)} source files differ from those that were measured"
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"{len(changed)} of {len(paths)} source files changed: {', '.join(changed[:3])}{more}"


def _changed_since(commit: str) -> list[str]:
    """Files that differ from a revision, also new ones; none when git does not know the revision."""
    changed = _git("diff", "--name-only", commit)
    return sorted({*changed, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*argv: str) -> list[str]:
    done = subprocess.run(["git", *argv], cwd=tree.ROOT, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []
