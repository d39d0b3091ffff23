"""The notebook that trains runs from top to bottom on a fresh kernel, and shows outputs of the kinds that are stored.

`scripts/notebooks --check train_evaluate_ask` trains a small pair, evaluates it, compares and asks it, on a CPU and
offline. --quick is the same: the notebook is the smallest form.
"""

from __future__ import annotations

import subprocess
import time

from _lib import ROOT, arguments, verdict

EXTRA_SOURCES = ("examples/train_evaluate_ask.ipynb", "scripts/notebooks", "configs/tabletop", "src/agon")
CLAIM = "the notebook that trains, evaluates and asks a pair runs as stored, offline, on a CPU"


def main() -> None:
    arguments(__doc__ or "")
    began = time.monotonic()
    command = [ROOT / "scripts" / "notebooks", "--check", "train_evaluate_ask"]
    code = subprocess.run(command, cwd=ROOT).returncode
    verdict(CLAIM, {"exit_code": code, "seconds": round(time.monotonic() - began)}, "exit code 0", code == 0)


if __name__ == "__main__":
    main()
