"""A log of 1 GB opens in bounded memory: `diagnose` and `view` of a JSONL file of rollouts in groups of eight.

Each command runs in a process of its own, which reports the largest memory that it ever held. The quick form writes 100
MB, which is above the size up to which a log is kept in memory.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _lib import arguments, verdict

LIMIT = 1000
"""Megabytes of memory that either command may hold."""
RUN = """
import json, resource, sys, time
from agon_lens.cli import main
begin = time.process_time()
code = main(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps({"code": code, "cpu_s": round(time.process_time() - begin, 1), "peak_mb": round(peak)}))
"""


def write(path: Path, size: int) -> int:
    """Rows of about 4 kB until the file has that many bytes; how many rows."""
    rng, words = random.Random(0), [f"word{n}" for n in range(4000)]
    rows = group = 0
    with path.open("w") as file:
        while file.tell() < size:
            group += 1
            prompt = f"Problem {group}: " + " ".join(rng.choices(words, k=60))
            for _ in range(8):
                text = " ".join(rng.choices(words, k=450))
                paid = {"accuracy_reward": float(rng.random() < 0.3), "length_reward": -0.001 * rng.randrange(50)}
                file.write(json.dumps({"step": group // 16, "prompt": prompt, "completion": text, **paid}) + "\n")
                rows += 1
    return rows


def measure(*argv: object) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", RUN, *map(str, argv)], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    args = arguments(__doc__ or "")
    size = 100_000_000 if args.quick else 1_000_000_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.jsonl")
        begin = time.process_time()
        rows = write(log, size)
        print(f"wrote {rows:,} rows in {time.process_time() - begin:.0f} s", flush=True)
        found = {"diagnose": measure("diagnose", log), "view": measure("view", log, "-o", Path(folder, "page.html"))}
        page = Path(folder, "page.html").stat().st_size
    for command, each in found.items():
        print(f"{command}: {each}", flush=True)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")
    holds = all(each["code"] == 0 and each["peak_mb"] <= LIMIT for each in found.values())
    value = {command: each["peak_mb"] for command, each in found.items()}
    claim = f"`agon-lens diagnose` and `view` open a log of {size / 1e9:g} GB in at most {LIMIT} MB of memory"
    verdict(claim, value, f"at most {LIMIT} MB each", holds, rows=rows, page_mb=page / 1e6, cpu=found, quick=args.quick)


main()
