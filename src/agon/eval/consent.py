"""What a run directory may make us do only if whoever evaluates or resumes it says so: it may come from a stranger.

Its config may name code to import, a server or a service to talk to, files to read, and a sandbox that stops less;
each must be named again on the command line. A file is read without being named if the manifest holds a hash of its
problems: who made the run knew them, and other problems are refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from pathlib import Path

from agon.config import Config
from agon.data.split import PARTS
from agon.engine.backend import backend_of
from agon.errors import InputError
from agon.formatting import show_hidden
from agon.verify.given import is_given

LOCAL_TRACKERS = {"tensorboard"}
"""Trackers that write into the run directory and send nothing."""
CODE, ACCOUNT = "is code, and would be imported", "would be used with your account"
WHY = {
    "verifier": CODE,
    "reward.terms": CODE,
    "env": CODE,
    "path": "is a file, and the run does not say what it held",
    "sampler.urls": "would be sent problems",
    "sampler.engine": ACCOUNT,
    "report_to": ACCOUNT,
    "sandbox.memory": "gives programs less protection",
}
"""What is wrong with a value of a stranger's config, by its key, or by the last part of it."""


def to_name(
    config: Config, hashed: Container[str], *, url: str | None = None, data: str | None = None, trains: bool = False
) -> dict[str, str]:
    """The values by key that must be named again; of the splits in `hashed` the manifest knows the problems.

    `url` and `data` take the place of what the config names. Only training pays reward terms and reports to trackers.
    """
    found: dict[str, str] = {}
    if ":" in config.verifier and not is_given(config.verifier):
        found["verifier"] = config.verifier
    if trains and not all(map(is_given, config.reward.terms)):
        found["reward.terms"] = f"[{','.join(config.reward.terms)}]"
    contacts = backend_of(config).contacts()
    found |= {key: value for key, value in contacts.items() if not (url and key.startswith("sampler."))}
    if trains and set(config.report_to) - LOCAL_TRACKERS:
        found["report_to"] = f"[{','.join(config.report_to)}]"
    if config.verifier == "code" and config.sandbox.memory == "per_process":
        found["sandbox.memory"] = "per_process"
    if data is None:
        sources = {part: getattr(config.data, part) for part in PARTS}
        found |= {f"data.{part}.path": s.path for part, s in sources.items() if s.path and part not in hashed}
        found |= {f"data.{part}.env": s.env for part, s in sources.items() if s.env and s.env.startswith("verifiers:")}
    return found


def words(named: dict[str, str]) -> str:
    """Values by key, as they are typed."""
    return "".join(f" {shlex.quote(f'{key}={value}')}" for key, value in named.items())


def check_consent(path: Path, named: dict[str, str], overrides: Sequence[str], command: str) -> None:
    """Refuse what must be named again and no override repeats."""
    unnamed = {key: value for key, value in named.items() if not any(word.startswith(f"{key}=") for word in overrides)}
    for key, value in unnamed.items():
        why = WHY.get(key) or WHY[key.rpartition(".")[2]]
        typed = "".join(f" {shlex.quote(word)}" for word in overrides)
        fix = f"if you trust it, name it yourself: {command}{typed}{words(unnamed)}"
        message = f"the config of {path}, which may come from somebody else, names {value}: it {why}"
        raise InputError(show_hidden(message), fix=show_hidden(fix))
