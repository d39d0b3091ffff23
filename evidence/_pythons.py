"""The versions of Python that are installed here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def interpreters() -> dict[str, str]:
    """This Python and every other version from 3.11 on, by "3.12"."""
    candidates = [sys.executable, *(path for minor in range(11, 20) if (path := shutil.which(f"python3.{minor}")))]
    candidates += map(str, sorted((Path.home() / ".pyenv" / "versions").glob("3.1[1-9]*/bin/python")))
    found: dict[str, str] = {}
    for python in candidates:
        asked = subprocess.run(
            [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.returncode == 0:
            found.setdefault(asked.stdout.strip(), python)
    return found
