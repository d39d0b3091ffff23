"""How long the command line takes to answer: its help, and a config with three mistakes (warm, whole processes)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _lib import arguments, median, verdict

EXTRA_SOURCES = ("src/agon/cli/__init__.py", "src/agon/cli/plan.py")
HELP_GOAL, MISTAKES_GOAL = 0.4, 1.0
CONFIG = """\
schema: 1
arm: agno
model: {name: Qwen/Qwen3-0.6B}
data:
  train: {preset: deepmath-hard, take: 3000}
  dev: {preset: deepmath-hard, take: 300}
  held_out: {preset: deepmath-hard, take: 300}
verifier: math
game:
  grop_size: 8
train:
  learning_rate: fast
"""
WANTED = {
    2: "did you mean agon?",
    10: "did you mean game.group_size?",
    12: "should be a valid number, not 'fast'",
}


def agon(*argv: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run the installed command; seconds from start to exit, and what it printed."""
    command = Path(sys.executable).with_name("agon")
    start = time.perf_counter()
    done = subprocess.run([str(command), *argv], capture_output=True, text=True)
    return time.perf_counter() - start, done


def reports_all_three(done: subprocess.CompletedProcess[str], path: Path) -> bool:
    """Exit code 2, one line for each mistake with its place and hint, no other mistake, no traceback."""
    reported = [line.strip() for line in done.stderr.splitlines() if line.strip().startswith(f"{path}:")]
    places = [(f"{path}:{line}: ", hint) for line, hint in WANTED.items()]
    matched = [any(line.startswith(place) and hint in line for line in reported) for place, hint in places]
    return done.returncode == 2 and len(reported) == len(WANTED) and all(matched) and "Traceback" not in done.stderr


def main() -> None:
    runs = 5 if arguments(str(__doc__)).quick else 10
    agon("--help")
    helped = [agon("--help") for _ in range(runs)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "three.yaml"
        path.write_text(CONFIG)
        agon("plan", str(path))
        refused = [agon("plan", str(path)) for _ in range(runs)]
    help_seconds = median([seconds for seconds, _ in helped])
    refusal_seconds = median([seconds for seconds, _ in refused])
    helps = all(done.returncode == 0 and "usage: agon" in done.stdout for _, done in helped)
    complete = all(reports_all_three(done, path) for _, done in refused)
    print(f"agon --help               {help_seconds:.3f} s (goal {HELP_GOAL})")
    print(f"a config with 3 mistakes  {refusal_seconds:.3f} s (goal {MISTAKES_GOAL}); all reported: {complete}")
    print(refused[0][1].stderr.replace(folder, ""))
    verdict(
        "agon --help answers in under 0.4 s; a config with 3 mistakes is refused with all 3, exit code 2, no traceback",
        round(help_seconds, 3),
        HELP_GOAL,
        holds=helps and complete and help_seconds < HELP_GOAL and refusal_seconds < MISTAKES_GOAL,
        unit="seconds",
        n=runs,
        slowest_help=round(max(seconds for seconds, _ in helped), 3),
        refusal_seconds=round(refusal_seconds, 3),
        refusal_goal=MISTAKES_GOAL,
        all_three_reported=complete,
        load_average=round(os.getloadavg()[0], 1),
    )


if __name__ == "__main__":
    main()
