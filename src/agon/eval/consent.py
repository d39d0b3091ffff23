"""What a run directory may make us do only if whoever evaluates or resumes it says so: it may come from a stranger.

Its config may name code to import, a server or a service to talk to, files to read, and a sandbox that stops less;
each must be named again on the command line, unless the run is one's own (`rundir/own.py`). A file is read without
being named if the manifest holds a hash of its problems: who made the run knew them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from agon.config import Config, SandboxConfig
from agon.data.split import PARTS
from agon.engine.backend import backend_of
from agon.errors import InputError
from agon.rundir.directory import CONFIG
from agon.rundir.own import is_own
from agon.verify.custom import file_of
from agon.verify.given import is_given

LOCAL_TRACKERS = {"tensorboard"}
"""Trackers that write into the run directory and send nothing."""


def check_consent(
    path: Path,
    config: Config,
    overrides: Sequence[str],
    hashes: Mapping[str, str],
    url: str | None = None,
    data: str | None = None,
    *,
    command: str = "agon eval {}",
    trains: bool = False,
) -> None:
    """Refuse what the run's config names and no override repeats; `url` and `data` take the place of what it names.

    Only training asks a rival's endpoint and reports to trackers.
    """
    if is_own(path / CONFIG):
        _check_unchanged(path, config, overrides, command, trains)
        return
    wanted: dict[str, str] = {}
    if ":" in config.verifier and not is_given(config.verifier):
        wanted["verifier"] = config.verifier
    if trains and not all(map(is_given, config.reward.terms)):
        wanted["reward.terms"] = f"[{','.join(config.reward.terms)}]"
    contacts = backend_of(config).contacts()
    wanted |= {key: value for key, value in contacts.items() if not (url and key.startswith("sampler."))}
    if trains and set(config.report_to) - LOCAL_TRACKERS:
        wanted["report_to"] = f"[{','.join(config.report_to)}]"
    if config.rival.url and trains:
        wanted["rival.url"] = config.rival.url
    if config.verifier == "code":
        wanted |= _weaker(config.sandbox)
    if data is None:
        sources = {part: getattr(config.data, part) for part in PARTS}
        wanted |= {f"data.{part}.path": s.path for part, s in sources.items() if s.path and part not in hashes}
        wanted |= {f"data.{part}.env": s.env for part, s in sources.items() if s.env and s.env.startswith("verifiers:")}
    unnamed = {key: value for key, value in wanted.items() if not any(word.startswith(f"{key}=") for word in overrides)}
    if not unnamed:
        return
    key, value = next(iter(unnamed.items()))
    repeated = [*overrides, *(f"{name}={text}" for name, text in unnamed.items())]
    fix = f"if you trust it, name it yourself: {command.format(path)} {' '.join(map(shlex.quote, repeated))}"
    raise InputError(f"{_what(key, value)}: {path} may come from somebody else", fix=fix)


def _weaker(sandbox: SandboxConfig) -> dict[str, str]:
    """What programs of a stranger's policies would gain by: a judge elsewhere, or protection that is left out."""
    values = {
        "sandbox.url": sandbox.url,
        "sandbox.backend": "unsafe" if sandbox.backend == "unsafe" else None,
        "sandbox.memory": "per_process" if sandbox.memory == "per_process" else None,
    }
    return {key: value for key, value in values.items() if value}


def _check_unchanged(path: Path, config: Config, overrides: Sequence[str], command: str, trains: bool) -> None:
    """Refuse one's own functions in a file that was not run as it is now, unless they are named again."""
    terms = config.reward.terms if trains else []
    named = {"verifier": ([config.verifier], config.verifier), "reward.terms": (terms, f"[{','.join(terms)}]")}
    for key, (names, written) in named.items():
        changed = [file for file in map(file_of, names) if file and file.exists() and not is_own(file)]
        if not changed or any(word.startswith(f"{key}=") for word in overrides):
            continue
        words = [*overrides, f"{key}={written}"]
        fix = f"if that is right, name it again: {command.format(path)} {' '.join(map(shlex.quote, words))}"
        raise InputError(f"{changed[0]} has changed since {path} was last trained: verdicts may differ", fix=fix)


def _what(key: str, value: str) -> str:
    if key == "sandbox.url":
        return f"the run's config names a server, {value}, and programs and tests would be sent to it"
    if key.startswith("sandbox."):
        return f"the run's config has {key}: {value}, and programs would run with less protection"
    if key.endswith(".env"):
        return f"the run's environment {value} is code, and would be imported"
    if key == "reward.terms":
        return f"the run's reward functions {value} are code, and would be imported"
    if key == "verifier":
        return f"the run's verifier {value} is code, and would be imported"
    if key == "cluster.address":
        return f"the run's config names a cluster, {value}, and this process would join it"
    if key == "sampler.urls":
        return f"the run's config names servers, {value}, and problems would be sent to them"
    if key == "sampler.engine":
        return f"the run's config names the hosted service of {value}, and it would be used with your account"
    if key == "report_to":
        return f"the run's config names trackers, {value}, and the run would be reported there with your account"
    if key == "rival.url":
        return f"the run's config names a server, {value}, and problems would be sent to it"
    return f"the run's config names a file, {value}, without saying what it held ({key})"
