"""Which runs are one's own: those whose config this user has started or resumed a run with before.

A folder cannot prove where it comes from, so nothing in it is asked. The user's state folder holds one SHA-256 per
config, and one per file with a verifier: whoever names code, servers and files in the same bytes names nothing new.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from agon.rundir.files import sha256
from agon.rundir.jsonl import append


def state_file() -> Path:
    """One hash per line; `XDG_STATE_HOME` moves it."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "agon", "configs")


def remember(*files: Path) -> None:
    """Note that this user runs these files. Where nothing can be noted, the next command asks once more."""
    for file in files:
        with suppress(OSError, RuntimeError):
            if not is_own(file):
                state_file().parent.mkdir(parents=True, exist_ok=True)
                append(state_file(), f"{sha256(file)}\n".encode())


def is_own(file: Path) -> bool:
    """Whether this user has run these very bytes before."""
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        return sha256(file) in state_file().read_text().split()
    return False
