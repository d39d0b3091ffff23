"""Programs whose verdict is known: what the code judge tries on itself."""

from __future__ import annotations

from agon_judge.code.extract import one_program
from agon_judge.judge import Judge
from agon_judge.unit_tests import UnitTests

ADD = UnitTests((("1 2", "3"), ("40 2", "42")), time_limit=0.5)
"""Print the sum of two numbers."""

KNOWN: tuple[tuple[str, str], ...] = (
    ("print(sum(map(int, input().split())))", "correct"),
    ("```python\nimport sys\nprint(sum(map(int, sys.stdin.read().split())))\n```", "correct"),
    ("print(3)", "wrong_output"),
    ("print(3 3)", "compile_error"),
    ("print(3)\nraise SystemExit(1)", "runtime_error"),
    ("while True: pass", "time_limit"),
    ("x = bytearray(4 << 30)", "memory_limit"),
    ("print('3' * 3_000_000)", "output_limit"),
    ("```cpp\nint main() {}\n```", "no_program"),
    ("", "no_program"),
)


def failures(judge: Judge) -> list[str]:
    """Known programs that the judge gets wrong, in words."""
    verdicts = judge.judge_many([(one_program(f"<answer>{answer}</answer>"), ADD) for answer, _ in KNOWN])
    return [
        f"{answer[:40]!r} is {verdict.reason.value}, not {reason} ({verdict.detail})"
        for (answer, reason), verdict in zip(KNOWN, verdicts, strict=True)
        if verdict.reason.value != reason
    ]
