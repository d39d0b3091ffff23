"""Verifiers: c(y) and phi(y) of a completion, with a reason and without a float.

`load_verifier("math")` and `load_verifier("code")` are built in; `load_verifier("package.module:function")` is yours.
See docs/verifiers.md.
"""

from __future__ import annotations

from agon.errors import InputError
from agon.protocols import Verifier
from agon_judge.sandbox.settings import SandboxSettings

__all__ = ["Verifier", "check_verifier", "load_verifier"]


def check_verifier(name: str, sandbox: SandboxSettings | None = None) -> None:
    """Raise what `load_verifier` would raise. Code is checked with a sandbox only: without one it runs elsewhere."""
    if ":" in name or (name == "code" and sandbox):  # math always loads, but starts processes
        load_verifier(name, sandbox=sandbox).close()


def load_verifier(
    name: str, workers: int | None = None, *, boxed_answers: bool = False, sandbox: SandboxSettings | None = None
) -> Verifier:
    """The verifier called `math` or `code`, or a function named `package.module:function`.

    `workers` is the number of processes (math, default one per core up to 8) or threads (a function, default 1).
    `boxed_answers` lets the math verifier read `\\boxed{}` where there is no answer block. `sandbox` is where the code
    verifier runs programs; it is opened, probed, and refused if a probe leaks.
    """
    if name == "math":
        from agon.verify.judged import MathVerifier, errors_of_the_judge
        from agon_judge.math.judge import MathJudge

        with errors_of_the_judge():
            return MathVerifier(MathJudge(workers=workers), boxed_answers=boxed_answers)
    if ":" in name:
        from agon.verify.custom import CustomVerifier, find

        return CustomVerifier(find(name), workers=workers)
    if name == "code":
        from agon.verify.judged import CodeVerifier, errors_of_the_judge
        from agon_judge.code.judge import CodeJudge
        from agon_judge.sandbox.leaks import checked_sandbox

        settings = sandbox or SandboxSettings(workers=workers)
        with errors_of_the_judge():
            return CodeVerifier(CodeJudge(checked_sandbox(settings), time_factor=settings.time_factor))
    raise InputError(f"unknown verifier '{name}'", fix="write `verifier: math`, `code` or `FILE.py:function`")
