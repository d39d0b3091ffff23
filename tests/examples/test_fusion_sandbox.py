"""The client of a farm judges as the sandbox of this machine does, over an imitation of SandboxFusion's `/run_code`.

The imitation follows the server's source: a shell runs `python FILE`, time is wall time, memory limits are rlimits,
a stream is kept up to 1 MiB, output that is not UTF-8 becomes a message, and every way to end has its own reply.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from agon_judge import CodeJudge, SandboxDown, UnitTests, sandbox
from agon_judge.sandbox import ProgramLimits

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

import fusion_sandbox
from fusion_sandbox import SandboxFusion

Reply = dict[str, Any]


def run_code(asked: Reply) -> Reply:
    assert asked["language"] == "python"
    assert asked.keys() <= {"language", "code", "stdin", "run_timeout", "compile_timeout", "memory_limit_MB"}
    size = asked.get("memory_limit_MB", -1) << 20

    def limit() -> None:
        for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA) if size > 0 else ():
            resource.setrlimit(which, (size, size))

    with TemporaryDirectory() as folder:
        file = Path(folder) / "main.py"
        file.write_text(asked["code"])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        start = time.time()
        process = subprocess.Popen(
            ["/bin/bash", "-c", f"{sys.executable} {file}"],
            cwd=folder,
            start_new_session=True,
            preexec_fn=limit,
            **pipes,
        )
        try:
            streams = process.communicate((asked["stdin"] or "").encode(), timeout=asked["run_timeout"])
            result: Reply = {"status": "Finished", "return_code": process.returncode}
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            streams = process.communicate()
            result = {"status": "TimeLimitExceeded", "return_code": None}
    out, err = (decoded(stream[: 1 << 20]) for stream in streams)
    result |= {"execution_time": time.time() - start, "stdout": out, "stderr": err}
    status = "Success" if result["return_code"] == 0 else "Failed"
    return {"status": status, "message": "", "compile_result": None, "run_result": result, "files": {}}


def decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return f"[DecodeError] {error}"


@pytest.fixture
def farm() -> Iterator[Callable[[Callable[[Reply], Reply]], SandboxFusion]]:
    """Starts a server that answers with a function."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[Reply], Reply]) -> SandboxFusion:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert (self.path, self.headers["Content-Type"]) == ("/run_code", "application/json")
                body = json.dumps(answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None: ...

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return SandboxFusion(f"http://127.0.0.1:{servers[-1].server_port}/")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_every_known_program_is_judged_as_it_is_here(farm: Any) -> None:
    with CodeJudge(farm(run_code)) as judge:
        assert judge.self_test() == []


def test_bytes_that_are_no_text_are_wrong_and_a_surrogate_is_no_crash(farm: Any) -> None:
    room = farm(run_code)
    for program in ("import os; os.write(1, b'\\xff')", "print('\ud800')"):
        assert sandbox.run(program, [("1", "1")], sandbox=room).reason in ("wrong_output", "runtime_error")


@pytest.mark.parametrize(
    "reply",
    [
        {"status": "SandboxError", "message": "no bash", "run_result": None},
        {"status": "Success", "message": "", "run_result": None},
        {"detail": "not found"},
        [],
    ],
)
def test_a_server_that_fails_is_no_verdict(farm: Any, reply: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_sandbox, "TRIES", 1)
    with pytest.raises(SandboxDown):
        next(farm(lambda asked: reply).execute("print(1)", [b""], ProgramLimits()))


def test_a_call_is_tried_again(farm: Any) -> None:
    replies = iter([{"status": "SandboxError", "message": "restarting"}])
    room = farm(lambda asked: next(replies, None) or run_code(asked))
    assert sandbox.run("print(1)", [("", "1")], sandbox=room).correct


def test_nobody_at_the_address_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_sandbox, "TRIES", 1)
    with pytest.raises(SandboxDown, match="ran no program"):
        next(SandboxFusion("http://127.0.0.1:9").execute("print(1)", [b""], ProgramLimits()))


def test_it_is_a_verifier(farm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from agon.types import BASE, Completion, Problem
    from agon.verify.custom import CustomVerifier

    monkeypatch.setattr(fusion_sandbox, "JUDGE", CodeJudge(farm(run_code)))
    problem = Problem("p", "Double it.", "", tests=UnitTests((("2", "4"),)))
    with CustomVerifier(fusion_sandbox.verify) as verifier:
        answers = ("print(2 * int(input()))", "print(5)", "")
        completions = [Completion(f"<think>a</think><answer>{answer}</answer>", BASE, 0, 0) for answer in answers]
        verdicts = [asyncio.run(verifier(problem, one)) for one in completions]
    assert [verdict.reason for verdict in verdicts] == ["correct", "wrong_output", "no_program"]
