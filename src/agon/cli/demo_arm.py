"""One arm of the demo, in a process of its own: python -m agon.cli.demo_arm ARM FOLDER SEED."""

from __future__ import annotations

import sys
from pathlib import Path

from agon.cli import reporting_errors


def main(name: str, root: str, seed: str) -> int:
    from agon.matrix.demo import ARMS

    (arm,) = [arm for arm in ARMS if arm.name == name]
    arm.work(Path(root), int(seed))
    return 0


if __name__ == "__main__":
    sys.exit(reporting_errors(lambda: main(*sys.argv[1:])))
