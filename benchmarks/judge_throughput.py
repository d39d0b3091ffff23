"""What judging mathematics costs: rows per CPU second beside bare math-verify, poison, and a worker that is killed.

The rows have symbolic golds made here, so that only a worker can decide them. The reference of rows per CPU second is
math-verify in one process with its own timers, on the same rows; that of the seconds with 5% of hostile answers is the
same rows without them; that of the next answer after a kill is the first answer of a new judge, which imports SymPy.
Intervals are of repeated chunks, by Student's t. `--full` takes more rows.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from _table import Row, arguments, mean_of, report
from agon_judge.math.judge import MathJudge

TICK = os.sysconf("SC_CLK_TCK")


def rows(count: int, seed: int, hostile: float = 0.0) -> list[tuple[str, str, str]]:
    """Polynomials, roots and logarithms, and the same value or a near one in other notation."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        a, b, c = (rng.randint(2, 99) for _ in range(3))
        other = rng.choice((a, a + 1))
        gold, answer = rng.choice(
            (
                (f"{a}x^2+{b}x-{c}", f"-{c}+{b}x+{other}x^{{2}}"),
                (rf"{a}+{b}\sqrt{{{c}}}", rf"{b}\sqrt{{{c}}}+{other}"),
                (rf"\frac{{{a}x+{b}}}{{{c}}}", rf"\frac{{{other}x}}{{{c}}}+\frac{{{b}}}{{{c}}}"),
                (rf"\ln({a})+{b}", rf"{b}+\ln({other})"),
            )
        )
        tower = f"{rng.randint(3, 9)}^{{{rng.randint(3, 9)}^{{{rng.randint(60, 99)}}}}}"  # the gate lets it pass here
        made.append(("e^{x^2}", tower, "") if rng.random() < hostile else (gold, answer, ""))
    return made


def cpu(judge: MathJudge) -> float:
    """CPU seconds of this process, of the fork server with its dead children, and of the workers."""
    total = time.process_time()
    for place, pid in enumerate(judge.workers()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11 : 15 if place == 0 else 13]) / TICK
    return total


def bare(chunk: list[tuple[str, str, str]]) -> float:
    from math_verify import parse, verify

    began = time.process_time()
    for gold, answer, _ in chunk:
        verify(parse(f"${gold}$"), parse(rf"\boxed{{{answer}}}"))
    return time.process_time() - began


def main() -> None:
    full = arguments(__doc__).full
    size, chunks = (200, 10) if full else (50, 5)
    found, clean, poisoned, after = [], [], [], []
    with MathJudge(workers=1) as judge:
        began = time.perf_counter()
        judge.judge("x+1", "1+x")
        first = time.perf_counter() - began
        bare(rows(size, -1))
        plain = []
        for seed in range(chunks):
            chunk = rows(size, seed)
            before = cpu(judge)
            judge.judge_many(chunk)
            found.append(size / (cpu(judge) - before))
            plain.append(size / bare(chunk))
        for seed in range(chunks):
            for share, times in ((0.0, clean), (0.05, poisoned)):
                began = time.perf_counter()
                judge.judge_many(rows(size, 100 + seed, share))
                times.append(time.perf_counter() - began)
        for seed in range(chunks):
            judge.judge_many(rows(1, 300 + seed))  # one that was killed at its deadline is replaced at the next row
            os.kill(judge.workers()[1], signal.SIGKILL)
            began = time.perf_counter()
            judge.judge_many(rows(1, 200 + seed))
            after.append(time.perf_counter() - began)
    (rate, spread), (reference, _) = mean_of(found), mean_of(plain)
    (slow, slower), (restart, restarts) = mean_of(poisoned), mean_of(after)
    measured = [
        Row("rows per CPU second", rate, reference, size * chunks, spread),
        Row(f"seconds per {size} rows with 5% poison", slow, mean_of(clean)[0], chunks, slower),
        Row("seconds from a killed worker to an answer", restart, first, chunks, restarts),
    ]
    report("judge_throughput", measured, packages=("math-verify", "sympy"), full=full)


if __name__ == "__main__":
    main()
