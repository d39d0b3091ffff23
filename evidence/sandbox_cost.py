"""What does the sandbox cost? CPU time per test at 20 tests per program, and what a whole training step needs.

1. Trivial programs with 20 tests each, in the sandbox (one box per program, a fork per test) and as one plain Python
   process per test without any sandbox, alternating. CPU time of everything: supervisor, launchers, boxes, programs.
   The claim is the ratio, 0.5 or less; CPU time hardly depends on what else the machine does.
2. Programs that use 100 ms per test: the CPU seconds of 25,600 tests (16 rollouts x 8 problems x 200 tests), and the
   cores that keep up with a GPU whose step takes 60, 120 or 300 seconds.
3. The first result of a box that had already started, in wall milliseconds: printed, not judged.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

from _lib import arguments, median, need_bubblewrap, ratio_interval, verdict
from agon.sandbox import HostSandbox, ProgramLimits
from agon.sandbox.bwrap import find_interpreter

GOAL = 0.5
TESTS, STEP_TESTS = 20, 25_600
PROGRAM = "print(sum(map(int, input().split())))"
BUSY = "import time\nwhile time.process_time() < {seconds}: pass\nprint(input())"
INPUTS = [f"{n} {n * n}".encode() for n in range(TESTS)]
LIMITS = ProgramLimits(cpu=5.0, wall=60.0)


def total(sandbox: HostSandbox) -> float:
    """CPU seconds of this process and of all slots so far."""
    return time.process_time() + sandbox.cpu()


def boxed(sandbox: HostSandbox, program: str, inputs: list[bytes]) -> float:
    before = total(sandbox)
    assert all(run.finished for run in sandbox.execute(program, inputs, LIMITS))
    return total(sandbox) - before


def bare(program: str, inputs: list[bytes]) -> float:
    """The same with a process per test and no protection."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    before = time.process_time() + used.ru_utime + used.ru_stime
    for data in inputs:
        subprocess.run([find_interpreter(), "-I", "-c", program], input=data, capture_output=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + used.ru_utime + used.ru_stime - before


def first_result(sandbox: HostSandbox) -> float:
    """Wall milliseconds from a program to its first output, when a box is ready."""
    time.sleep(0.3)
    started = time.perf_counter()
    next(sandbox.execute(PROGRAM, INPUTS[:1], LIMITS))
    return (time.perf_counter() - started) * 1000


def main() -> None:
    quick = arguments(__doc__ or "").quick
    need_bubblewrap()
    sandbox = HostSandbox(workers=1)
    try:
        boxed(sandbox, PROGRAM, INPUTS)
        inside, outside = [], []
        for _ in range(5 if quick else 40):
            inside.append(boxed(sandbox, PROGRAM, INPUTS))
            outside.append(bare(PROGRAM, INPUTS))
        waits = [first_result(sandbox) for _ in range(5 if quick else 20)]
        busy = [boxed(sandbox, BUSY.format(seconds=0.1), INPUTS[:5]) / 5 for _ in range(2 if quick else 10)]
    finally:
        sandbox.close()
    ratio, low, high = ratio_interval(inside, outside)
    per_test, seconds = median(inside) / TESTS * 1000, median(busy) * STEP_TESTS
    cores = {f"step of {length} s": round(seconds / length, 1) for length in (60, 120, 300)}
    print(f"CPU per test: {per_test:.2f} ms in a box, {median(outside) / TESTS * 1000:.2f} ms as a plain process")
    print(f"ratio {ratio:.2f} [{low:.2f}, {high:.2f}]; first result of a ready box: {median(waits):.1f} ms (median)")
    print(f"a step of {STEP_TESTS:,} tests of 100 ms: {seconds:.0f} CPU seconds; cores per GPU: {cores}")
    verdict(
        "a test in a box costs at most half the CPU time of a plain process per test, at 20 tests per program",
        value=round(ratio, 3),
        goal=GOAL,
        holds=high <= GOAL,
        interval=[round(low, 3), round(high, 3)],
        cpu_ms_per_test=round(per_test, 2),
        step_cpu_seconds=round(seconds),
        cores_per_gpu=cores,
        first_result_ms=round(median(waits), 1),
        python=sys.version.split()[0],
    )


if __name__ == "__main__":
    main()
