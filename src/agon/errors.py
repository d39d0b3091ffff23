"""Every error that Agon raises on purpose, and what to do about it.

AgonError                 carries `fix`: the sentence that says what to type next
|-- InputError            exit 2: nothing was started
|   |-- ConfigError       a config file or an override; lists every problem at once
|   |-- DataError         problems that cannot be used, or too few of them
|   `-- RunDirError       a run directory, pair or result that cannot be used
`-- RunError              exit 1: something failed after the start
    |-- EngineError       sampler or learner: wrong weights, a dead engine
    |-- VerifierError     a verifier that cannot work at all (not one that says "wrong")
    `-- CheckpointError   a checkpoint that cannot be saved, or does not verify
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

LEARNER = ("torch", "transformers", "peft", "trl", "accelerate")
"""The packages of the learner that trains on this machine."""
EXTRA_OF = {
    **dict.fromkeys((*LEARNER, "safetensors", "huggingface_hub", "numpy"), "train"),
    **{"scipy": "eval", "matplotlib": "plot", "datasets": "data", "vllm": "vllm", "bitsandbytes": "nf4"},
    **dict.fromkeys(("fastapi", "starlette", "uvicorn", "prometheus_client"), "serve"),
}
"""The extra that installs a package which the light install leaves out."""


@runtime_checkable
class Explained(Protocol):
    """An error for a user: ours, or that of a package whose command runs here. The CLI prints it in two lines."""

    message: str
    fix: str
    exit_code: int


class AgonError(Exception):
    """Base of the tree. The CLI prints two lines, what happened and `fix`, and never a traceback; a traceback in Python
    ends with both."""

    exit_code = 1

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.set_fix(fix)

    def set_fix(self, fix: str) -> None:
        """Replace what to do about it, also at the end of a traceback."""
        self.fix = fix
        self.__notes__ = [f"fix: {fix}"] if fix else []


def install(*extras: str) -> str:
    """The command that installs Agon with these extras: from the clone that this is, else by name."""
    options, name = ("-e ", ".") if _in_clone() else ("", "agon-rl")
    return f"pip install {options}'{name}[{','.join(extras)}]'" if extras else f"pip install {options}{name}"


def _in_clone() -> bool:
    from pathlib import Path

    return (Path(__file__).resolve().parents[2] / "pyproject.toml").exists()


def need(*packages: str) -> None:
    """Refuse to start without these packages."""
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise _not_installed(package)


@contextmanager
def naming_extras() -> Iterator[None]:
    """Say what to install where a package of an extra is missing; also a decorator."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        raise _not_installed(package) from error


def _not_installed(package: str) -> InputError:
    extra = EXTRA_OF[package]
    extras = ("train", "eval", "plot") if extra == "train" else (extra,)
    return InputError(f"{package} is not installed: it comes with the extra {extra}", fix=install(*extras))


def upgrade() -> str:
    """The commands that install a newer Agon."""
    here = "git pull, then pip install -e packages/judge -e packages/lens -e ."  # all three have one version
    return f"install a newer Agon: {here if _in_clone() else 'pip install -U agon-rl'}"


def to_utf8(path: object) -> str:
    """The command that makes a file readable which was saved in an old encoding."""
    return f"convert it: iconv -f latin1 -t utf-8 {path} > NEW_FILE"


def first_of(group: ExceptionGroup[Exception]) -> Exception:
    """The first of our own errors among those of tasks that failed together; else the first of all."""
    error: Exception = group.subgroup(AgonError) or group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


class InputError(AgonError):
    exit_code = 2


class ConfigError(InputError):
    """`faults` lists every mistake, each with its place; the message shows them all."""

    def __init__(self, message: str, fix: str = "", faults: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join((message, *faults)), fix)
        self.faults = tuple(faults)


class DataError(InputError):
    pass


class RunDirError(InputError):
    pass


class RunError(AgonError):
    exit_code = 1


class EngineError(RunError):
    pass


class VerifierError(RunError):
    pass


class CheckpointError(RunError):
    pass
