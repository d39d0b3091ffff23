"""The server that `agon serve` starts: which keys it knows, and what is shown of what it prints."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agon.deploy.serve import vllm_command
from agon.deploy.serve.vllm_command import VllmProcess, vllm_key
from agon.errors import InputError
from tests.waiting import until

SERVER = """
import json, os, signal, sys, time
def end(*_):
    print("nanobind: leaked 3 instances!", file=sys.stderr, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
keys = {name: value for name, value in os.environ.items() if "KEY" in name}
print(json.dumps({"keys": keys, "session": os.getsid(0)}), file=sys.stderr, flush=True)
time.sleep(60)
"""


def run(command: list[str], done: Callable[[list[str]], bool], records: list[logging.LogRecord]) -> list[str]:
    """Start a command as the server, stop it once its lines say so, and give all lines that were logged."""

    def lines() -> list[str]:
        return [vars(record)["line"] for record in records if record.msg == "vllm"]

    async def scenario() -> None:
        task = asyncio.create_task(VllmProcess(command, "the key").run())
        await until(lambda: done(lines()))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.2)

    asyncio.run(scenario())
    return lines()


def test_it_gets_a_key_of_its_own_and_none_of_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AGON_SERVE_KEYS", "a client's")
    monkeypatch.setenv("AGON_API_KEY", "a backend's")
    with caplog.at_level(logging.INFO, logger="agon.deploy.serve"):
        [line] = run(["python", "-c", SERVER], bool, caplog.records)
    told: dict[str, Any] = json.loads(line)
    assert told["keys"]["VLLM_API_KEY"] == "the key"
    assert not {"AGON_SERVE_KEYS", "AGON_API_KEY"} & told["keys"].keys()
    assert told["session"] != os.getsid(0), "Ctrl-C would reach it too"


def test_what_it_prints_before_it_dies_explains_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vllm_command, "PAUSES", (0.0,))
    with caplog.at_level(logging.INFO, logger="agon.deploy.serve"):
        run(
            ["python", "-c", "print('no such base'); raise SystemExit(3)"], lambda lines: len(lines) > 1, caplog.records
        )
    ended = next(record for record in caplog.records if record.msg == "vllm ended")
    assert vars(ended)["exit_code"] == 3
    assert vars(ended)["output"] == ["no such base"]


def test_its_key_is_the_users_or_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    assert len(vllm_key()) >= 32
    assert vllm_key() != vllm_key()
    monkeypatch.setenv("VLLM_API_KEY", "mine")
    assert vllm_key() == "mine"


def test_a_program_that_is_missing_is_an_error() -> None:
    with pytest.raises(InputError, match="no-such-vllm cannot be started: No such file"):
        asyncio.run(VllmProcess(["no-such-vllm"], "the key").run())


def test_an_environment_that_sees_the_systems_packages_starts_the_systems_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "vllm"
    program.touch(mode=0o755)
    monkeypatch.setattr(vllm_command, "OrphanReaper", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    assert VllmProcess(["vllm"], "the key")._command == [str(program)]
