"""Ways in which a file of a checkpoint goes bad."""

from __future__ import annotations

import os
import random
from pathlib import Path


def flip(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def truncate(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def grow(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(1 + rng.randrange(9)))


def add(path: Path, rng: random.Random) -> None:
    path.with_name(f"extra-{rng.randrange(100)}").write_bytes(rng.randbytes(5))


def zero(path: Path, rng: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def relink(path: Path, rng: random.Random) -> None:
    moved = path.parents[2] / f"elsewhere-{path.name}"
    path.rename(moved)
    path.symlink_to(moved)


DAMAGES = (flip, truncate, delete, grow, add, zero, relink)


def damage(folder: Path, case: int) -> Path:
    """Damage one file of a checkpoint, chosen by the number of the case; return which."""
    rng = random.Random(case)
    victim = rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))
    DAMAGES[case % len(DAMAGES)](victim, rng)
    return victim
