"""A split is the same split on every Python, for every order of the file, and however large train grows.

Runs on the real GSM8K rows when they are there, else on tabletop problems. Another Python is started bare: the data
package needs nothing but the standard library to split.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from _lib import ROOT, arguments, data_dir, verdict
from _pythons import interpreters

SPLIT = """
import json, sys
sys.path[:0] = sys.argv[1].split(":")
from types import SimpleNamespace as N
from agon.data import splits
from agon.data.normalise import question_key
def source(take): return N(preset=None, path=sys.argv[2], columns={}, options={}, take=take)
made = splits(N(train=source(int(sys.argv[3])), dev=source(300), held_out=source(300), split_seed=int(sys.argv[4])))
keys = [question_key(problem.question) for part in made.parts.values() for problem in part]
ids = {part: [problem.id for problem in problems] for part, problems in made.parts.items()}
print(json.dumps({"ids": ids, "hashes": made.hashes, "shared": len(keys) - len(set(keys))}))
"""


def main() -> None:
    args = arguments(__doc__ or "")
    rows, name = real_rows()
    pythons = interpreters()
    with tempfile.TemporaryDirectory() as folder:
        found = [compare(Path(folder) / "rows.jsonl", rows, pythons, seed) for seed in range(3 if args.quick else 30)]
    runs, same, shared = (sum(row[place] for row in found) for place in range(3))
    versions = sorted(pythons)
    print(f"{name}: {len(rows)} rows, Python {', '.join(versions)}")
    print(
        f"{same} of {runs} splits of a shuffled file, with two sizes of train, have the ids expected; {shared} shared"
    )
    holds = same == runs and shared == 0 and len(versions) > 1
    goal = "all identical, none shared, on at least two Python versions"
    claim = "splits do not depend on Python version, file order or size of train, and share no problem"
    verdict(claim, same / runs, goal, holds, n=runs, seeds=len(found), shared=shared, pythons=versions, rows=name)


def compare(path: Path, rows: list[dict[str, str]], pythons: dict[str, str], seed: int) -> tuple[int, int, int]:
    """(splits made, splits as expected, problems shared) for one seed: each Python gets its own order of the file."""
    expected: dict[str, Any] = {}
    same = shared = runs = 0
    for version, python in pythons.items():
        random.Random(f"{seed} {version}").shuffle(rows)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for train in (1_000, 3_000):
            made = split(python, path, train, seed)
            wanted = expected.setdefault("held_out and dev", fixed_parts(made))
            same += fixed_parts(made) == wanted and made == expected.setdefault(str(train), made)
            shared += made["shared"]
            runs += 1
    return runs, same, shared


def fixed_parts(made: dict[str, Any]) -> list[Any]:
    """What must not depend on the size of train."""
    return [made["ids"][part] for part in ("held_out", "dev")]


def split(python: str, path: Path, train: int, seed: int) -> dict[str, Any]:
    command = [
        python,
        "-I",
        "-B",
        "-c",
        SPLIT,
        f"{ROOT / 'src'}:{ROOT / 'packages' / 'judge' / 'src'}",
        str(path),
        str(train),
        str(seed),
    ]
    made: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return made


def real_rows() -> tuple[list[dict[str, str]], str]:
    """The questions and solutions of GSM8K's train set, or tabletop problems where it is not there."""
    folder = data_dir()
    if folder and (file := folder / "gsm8k" / "train.jsonl").is_file():
        with file.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines], "gsm8k train"
    from agon.data import tabletop

    made = tabletop.problems("basket", 4, 7_000, seed=0)
    return [{"question": problem.question, "answer": problem.answer} for problem in made], "tabletop basket"


if __name__ == "__main__":
    main()
