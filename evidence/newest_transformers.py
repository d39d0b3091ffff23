"""Whether the learner runs on the newest transformers 5.x, and not only on the version that constraints/ name.

Installs it in a folder of its own, without its dependencies, and runs the contract tests of the learner with it: names
that are not public, packs, traps and adapters. The quick form runs the contract alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from _lib import ROOT, arguments, cannot_run, verdict

EXTRA_SOURCES = ("src/agon/engine/trl", "src/agon/engine/vllm", "src/agon/engine/adapters.py", "tests/engine")
CONTRACT = ("tests/engine/test_compat.py", "tests/engine/trl/test_contract.py")
MORE = ("tests/engine/trl/test_pack.py", "tests/engine/trl/test_traps.py", "tests/engine/test_adapters.py")


def main() -> None:
    args = arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix="agon-evidence-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "transformers>=5,<6"]
        installed = subprocess.run(pip, capture_output=True, text=True)
        if installed.returncode:
            cannot_run(f"no package index with transformers: {installed.stderr.strip().splitlines()[-1]}")
        version = next(Path(folder).glob("transformers-*.dist-info")).name.split("-")[1].removesuffix(".dist")
        path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CONTRACT]
        command += [] if args.quick else MORE
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
        used = subprocess.run(
            [sys.executable, "-c", "import transformers; print(transformers.__version__)"],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?)", done.stdout)}
    if done.returncode:
        print(done.stdout[-4000:])
    print(f"transformers {used}: {counts}")
    verdict(
        "the learner's contract with other libraries holds on the newest transformers 5.x",
        {"transformers": used, **counts},
        {"failed": 0},
        holds=done.returncode == 0 and used == version and counts.get("passed", 0) > 0,
        n=sum(counts.values()),
        quick=args.quick,
    )


if __name__ == "__main__":
    main()
