"""One stage of one cell of a matrix, in a process of its own:

python -m agon.cli.cell STAGE SOURCE ARM SEED OUT [key=value ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from agon.cli import reporting_errors


def main(stage: str, source: str, arm: str, seed: str, out: str, *overrides: str) -> int:
    from agon.matrix.cells import cell

    cell(Path(source), overrides, arm, int(seed), Path(out)).run("train" if stage == "train" else "eval")
    return 0


if __name__ == "__main__":
    sys.exit(reporting_errors(lambda: main(*sys.argv[1:])))
