"""Verifiers: c(y) and phi(y) of a completion, with a reason and without a float.

`math`, `math-verify`, `code` and `environment` are built in; `load_verifier("package.module:function")` is yours. A
package adds one by name with an entry point of the group `agon.verifiers`.
See docs/verifiers.md.
"""

from __future__ import annotations

from agon.doors import door
from agon.protocols import Verifier
from agon_judge.sandbox.settings import SandboxSettings

__all__ = ["Verifier", "check_verifier", "load_verifier"]


GRADED = ("environment", "reasoning-gym")
"""Verifiers of ours whose scores are numbers: what is right is a threshold."""


def check_verifier(name: str, sandbox: SandboxSettings | None = None) -> None:
    """Raise what `load_verifier` would raise. Code is checked with a sandbox only."""
    if ":" in name or (name == "code" and sandbox):  # math always loads, but starts processes
        load_verifier(name, sandbox=sandbox).close()


def load_verifier(
    name: str,
    workers: int | None = None,
    *,
    boxed_answers: bool = False,
    sandbox: SandboxSettings | None = None,
    right: float = 1.0,
) -> Verifier:
    """The verifier of that name (`math`, `code`, ...), or a function named `package.module:function`.

    `workers` is the number of processes (math, default one per core up to 8) or threads (a function, default 1).
    `boxed_answers` lets the math verifier read `\\boxed{}` where there is no answer block. `sandbox` is where the code
    verifier runs programs; it is opened, probed, and refused if a probe leaks. `right` is the least number that a
    function of yours or an environment returns for a right answer.
    """
    if ":" in name:
        from agon.verify.custom import CustomVerifier, find

        return CustomVerifier(find(name), workers=workers, right=right)
    settings = {"workers": workers, "boxed_answers": boxed_answers, "sandbox": sandbox}
    opened: Verifier = door("agon.verifiers", name)(**settings, **({"right": right} if name in GRADED else {}))
    return opened


def math(*, workers: int | None, boxed_answers: bool, sandbox: SandboxSettings | None) -> Verifier:
    from agon.verify.judged import MathVerifier, errors_of_the_judge
    from agon_judge.math.judge import MathJudge

    with errors_of_the_judge():
        return MathVerifier(MathJudge(workers=workers), boxed_answers=boxed_answers)


def math_verify(*, workers: int | None, boxed_answers: bool, sandbox: SandboxSettings | None) -> Verifier:
    from agon.verify.judged import MathVerifyVerifier, errors_of_the_judge
    from agon_judge.math.plain import PlainMathJudge

    with errors_of_the_judge():
        return MathVerifyVerifier(PlainMathJudge(workers=workers))


def code(*, workers: int | None, boxed_answers: bool, sandbox: SandboxSettings | None) -> Verifier:
    from agon.verify.judged import CodeVerifier, errors_of_the_judge
    from agon_judge.code.judge import CodeJudge
    from agon_judge.sandbox.leaks import checked_sandbox

    settings = sandbox or SandboxSettings(workers=workers)
    with errors_of_the_judge():
        return CodeVerifier(CodeJudge(checked_sandbox(settings), time_factor=settings.time_factor))
