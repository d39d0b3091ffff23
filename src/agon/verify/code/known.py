"""Programs whose verdict is known: what the code verifier tries on itself before a run."""

from __future__ import annotations

from agon.protocols import Verifier
from agon.types import BASE, Completion, Problem, UnitTests

ADD = Problem(
    "self-test", "Print the sum of two numbers.", "", tests=UnitTests((("1 2", "3"), ("40 2", "42")), time_limit=0.5)
)

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


def completion_of(answer: str) -> Completion:
    """A completion that gives an answer."""
    text = f"<think>\n\n</think>\n<answer>{answer}</answer>"
    return Completion(text, BASE, prompt_tokens=1, generated_tokens=1)


def failures(verifier: Verifier) -> list[str]:
    """Known programs that the verifier gets wrong, in words."""
    verdicts = verifier.verify_many([(ADD, completion_of(answer)) for answer, _ in KNOWN])
    return [
        f"{answer[:40]!r} is {verdict.reason.value}, not {reason} ({verdict.detail})"
        for (answer, reason), verdict in zip(KNOWN, verdicts, strict=True)
        if verdict.reason.value != reason
    ]
