"""Which files a result depends on: those that its script imports, directly or through others, and those that it names.

The assets beside an imported module count too. A script that starts other programs, or reads files of this repository,
names them in EXTRA_SOURCES: paths relative to the repository, a folder for all that it holds. `scripts/prove --changed`
and docs/evidence.md compare the fingerprint of all these files with the one in the kept result. Comments and docstrings
of Python files do not count, nor do pages of text among the assets.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.architecture import tree

GENERATED = re.compile(rb"<!-- (\w+): written by scripts/docs --write -->.*?<!-- end of \1 -->", re.DOTALL)

GUARDS = {
    *("all_bases", "cli_start", "engine_faults"),
    *("matrix_budget", "newest_transformers", "notebook_trains"),
    *(
        "peek_fuzz",
        "publish_ratio",
        "quickstart",
        "sandbox_cost",
        "splits",
        "streaming_ratio",
    ),
    *("two_processes", "verifiers_rewards", "viewer"),
}
"""Scripts that guard against a regression, and whose numbers nobody chooses Agon by: they run weekly, and keep none."""


def sources(script: Path) -> list[Path]:
    """The script and every file that it depends on, in a stable order."""
    imported = tree.reachable([script])
    named = {path for parent in imported for path in extra_sources(parent)}
    imported |= tree.reachable(path for path in named if path.suffix == ".py")
    assets = {path for folder in {path.parent for path in imported} for path in _files(folder / "assets")}
    return sorted(imported | named | {path for path in assets if path.suffix != ".md"})


def extra_sources(path: Path) -> list[Path]:
    """The files that a script names in EXTRA_SOURCES."""
    text = path.read_text()
    for node in ast.parse(text).body if "EXTRA_SOURCES" in text else ():
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
        content = _content_hash(path.suffix, path.read_bytes())
        total.update(f"{path.relative_to(tree.ROOT).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]


@cache
def _content_hash(suffix: str, content: bytes) -> str:
    """Of a file; of a Python file its code alone, of a page nothing that `scripts/docs --write` writes into it."""
    if suffix == ".py":
        content = code_of(content.decode()).encode()
    if suffix == ".md":
        content = GENERATED.sub(b"", content)
    return hashlib.sha256(content).hexdigest()


def code_of(text: str) -> str:
    """A Python file without comments, docstrings and blank lines; the same under every version of Python."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(text)):
        stands_alone = isinstance(node, ast.Expr) and not lines[node.lineno - 1][: node.col_offset].strip()
        if stands_alone and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())


def is_current(result: dict[str, Any], script: Path) -> bool:
    """Whether a kept result was measured on its sources as they are."""
    return result.get("sources") == fingerprint(sources(script))


def why_changed(script: Path) -> str | None:
    """Why the kept result of a script is not current; None when it is."""
    kept = tree.ROOT / "evidence" / "results" / f"{script.stem}.json"
    if not kept.exists():
        return "no result is kept"
    result = json.loads(kept.read_text())
    if "sources" not in result:
        return "the kept result does not say what it depends on"
    return None if is_current(result, script) else _difference(result, sources(script))


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
