from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
import uvicorn

from agon_judge import http_front
from agon_judge.code.judge import limits_of
from agon_judge.errors import InputError
from agon_judge.http_front import server_config
from agon_judge.sandbox import Ending, HostSandbox, ProgramLimits, SandboxDown, remote, run, service
from agon_judge.sandbox.remote import RemoteSandbox
from agon_judge.sandbox.service import application, serve
from agon_judge.unit_tests import UnitTests

LIMITS = ProgramLimits(cpu=1.0, wall=20.0)
HEADERS = {"Authorization": "Bearer key", "Content-Type": "application/json"}
PRODUCT = "a, b = map(int, input().split())\nprint(a * b)"


@pytest.fixture(scope="module")
def address(sandbox: HostSandbox) -> Iterator[str]:
    """Our own service, with a key."""
    with running(sandbox, "key") as url:
        yield url


@contextmanager
def running(sandbox: HostSandbox, key: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(server_config(application(sandbox, key), "127.0.0.1", 0, log_level="error"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGON_SANDBOX_KEY", "key")


@pytest.fixture(params=[True, False], ids=["batch", "SandboxFusion"])
def room(address: str, request: pytest.FixtureRequest) -> Iterator[RemoteSandbox]:
    room = RemoteSandbox(address, grace=20.0)
    room._batches = request.param
    yield room
    room.close()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (PRODUCT, "correct"),
        ("print(6)", "wrong_output"),
        ("print(6); exit(1)", "runtime_error"),
        ("while True: pass", "time_limit"),
        ("print(", "compile_error"),
        ("print('6' * 2_000_000)", "output_limit"),
    ],
)
def test_a_grade_is_the_same_over_http(room: RemoteSandbox, program: str, reason: str) -> None:
    if reason == "output_limit" and not room._batches:
        pytest.skip("SandboxFusion's reply has no such status: it is a runtime error there")
    tests = [(f"{n} 3", str(3 * n)) for n in range(2, 12)]
    assert run(program, tests, limits=LIMITS, sandbox=room).reason == reason


def test_bytes_survive_a_batch(address: str) -> None:
    room = RemoteSandbox(address)
    program = "import os; os.write(1, os.read(0, 100))"
    assert [one.stdout for one in room.execute(program, [b"\xff\0\n", b"x"], LIMITS)] == [b"\xff\0\n", b"x"]
    room.close()


@pytest.mark.parametrize("seconds", [None, 30.0, 1e9])
def test_every_limit_of_a_code_judge_is_taken(address: str, seconds: float | None) -> None:
    room = RemoteSandbox(address)
    limits = limits_of(UnitTests(time_limit=seconds), 2.0)
    assert [one.stdout for one in room.execute("print(input())", [b"7"], limits)] == [b"7\n"]
    room.close()


def test_large_inputs_are_sent_in_several_bodies(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (remote, service):
        monkeypatch.setattr(module, "MAX_BODY", 1 << 20)
    with running(sandbox, "key") as url:
        room = RemoteSandbox(url)
        runs = list(room.execute("print(len(input()))", [b"1" * 300_000] * 8, LIMITS))
        room.close()
    assert [one.stdout for one in runs] == [b"300000\n"] * 8


def test_a_wrong_key_is_refused_and_not_tried_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGON_SANDBOX_KEY", "wrong")
    started = time.monotonic()
    with pytest.raises(SandboxDown, match="401") as refusal:
        next(RemoteSandbox(address).execute("print(1)", [b""], LIMITS))
    assert "AGON_SANDBOX_KEY" in refusal.value.fix
    assert time.monotonic() - started < 30  # it is tried again for 60


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/run_code", b"{", 422),
        ("/run_code", b'{"code": "print(1)", "language": "cpp"}', 422),
        ("/run_code", b'{"code": "print(1)", "language": "python", "files": {"a": "b"}}', 422),
        ("/run_code", b'{"code": "print(1)", "language": "python", "run_timeout": NaN}', 422),
        ("/run_code", b'{"code": "print(1)", "language": "python", "run_timeout": 1e9}', 422),
        ("/run_code", b'{"code": "print(1)", "language": "python", "memory_limit_MB": 16385}', 422),
        ("/run_code", b'{"code": "print(1)", "language": "python", "memory_limit_MB": 100000000000000000}', 422),
        ("/run_code", b"[" * 100_000, 422),
        ("/v1/run_batch", b'{"program": "print(1)", "inputs": []}', 422),
        ("/v1/run_batch", b'{"program": "print(1)", "inputs": ["\\u00e9"]}', 422),
        ("/v1/run_batch", b'{"program": "print(1)", "inputs": [""], "memory": 1}', 422),
        ("/nothing", b"{}", 404),
    ],
)
def test_a_bad_request_is_refused(address: str, path: str, body: bytes, status: int) -> None:
    reply = httpx2.post(address + path, content=body, headers=HEADERS, timeout=60)
    assert reply.status_code == status, reply.text


@pytest.mark.parametrize("megabytes", [-1, 0, 1, 31, 16384])
def test_no_limit_of_memory_that_is_taken_makes_a_right_program_wrong(address: str, megabytes: int) -> None:
    body = {"code": "print(7)", "language": "python", "memory_limit_MB": megabytes}
    reply = httpx2.post(address + "/run_code", json=body, headers=HEADERS, timeout=60).json()
    assert (reply["status"], reply["run_result"]["stdout"]) == ("Success", "7\n")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_must_be_sent_as_json(address: str, kind: str) -> None:
    """A page in a browser may send any other kind without asking us first."""
    body = b'{"code": "print(7)", "language": "python"}'
    reply = httpx2.post(address + "/run_code", content=body, headers=HEADERS | {"Content-Type": kind}, timeout=60)
    assert reply.status_code == 415


@pytest.mark.parametrize("given", [None, "key", "Basic key", "Bearer wrong", b"Bearer \xff\xfe"])
def test_every_route_but_health_needs_the_key(address: str, given: str | bytes | None) -> None:
    assert httpx2.get(address + "/healthz", timeout=60).status_code == 200
    body = {"code": "print(1)", "language": "python", "program": "print(1)", "inputs": [""]}
    headers = {} if given is None else {"Authorization": given}
    for path in ("/run_code", "/v1/run_batch"):
        assert httpx2.post(address + path, json=body, headers=headers, timeout=60).status_code == 401


def test_without_a_key_only_this_machines_names_are_answered(sandbox: HostSandbox) -> None:
    body = {"code": "print(7)", "language": "python"}
    with running(sandbox, "") as url:
        assert httpx2.post(url + "/run_code", json=body, timeout=60).status_code == 200
        foreign = httpx2.post(url + "/run_code", json=body, headers={"Host": "evil.example"}, timeout=60)
        assert foreign.status_code == 403


def test_bodies_that_do_not_end_take_bounded_memory_and_keep_nobody_out(
    sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "HELD", 1_000_000)
    head = "POST /v1/run_batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\nContent-Type: application/json\r\n"
    unfinished = f"{head}Content-Length: 600000\r\n\r\n".encode() + b" " * 500_000
    with running(sandbox, "key") as url, ExitStack() as stack:
        open_ones = []
        for _ in range(6):
            link = stack.enter_context(socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20))
            link.sendall(unfinished)
            open_ones.append(link)
        body = {"code": "print(7)", "language": "python"}
        assert httpx2.post(url + "/run_code", json=body, headers=HEADERS, timeout=60).status_code == 200
        assert b" 429 " in open_ones[0].recv(100)


def test_heads_are_bounded(sandbox: HostSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_front, "HEAD_SECONDS", 1.0)
    with running(sandbox, "key") as url:
        for head, reply in {b"X: a": b"", b"X: " + b"a" * 100_000: b"HTTP/1.1 400"}.items():
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20) as link:
                link.sendall(b"POST /run_code HTTP/1.1\r\n" + head)
                assert link.recv(12) == reply


@pytest.mark.parametrize(("key", "said"), [("", "needs a key"), ("k3y", "too easy to guess")])
def test_listening_for_others_needs_a_key_that_is_hard_to_guess(sandbox: HostSandbox, key: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        serve(sandbox, host="0.0.0.0", port=1, key=key)
    assert "AGON_SANDBOX_KEY" in refused.value.fix


Answer = Callable[[str, dict[str, str]], tuple[int, dict[str, object]]]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], RemoteSandbox]]:
    """A fake SandboxFusion whose answers a test decides; the canaries pass unless it says otherwise."""
    servers: list[ThreadingHTTPServer] = []
    monkeypatch.setattr(remote, "LONGEST_PAUSE", 0.01)

    def start(answer: Answer) -> RemoteSandbox:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_error(404)

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, reply = answer(body["code"], body)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, *_: object) -> None:
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return RemoteSandbox(f"http://127.0.0.1:{servers[-1].server_port}", grace=20.0)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def finished(stdout: str, code: int = 0) -> tuple[int, dict[str, object]]:
    run = {"status": "Finished", "return_code": code, "stdout": stdout, "stderr": "", "execution_time": 0.1}
    return 200, {"status": "Success" if code == 0 else "Failed", "message": "", "run_result": run}


def canary(code: str, body: dict[str, str]) -> tuple[int, dict[str, object]] | None:
    """What an honest service answers to the canaries."""
    if "a * b" in code:
        a, b = map(int, body["stdin"].split())
        return finished(str(a * b))
    return finished(body["stdin"], 3) if "SystemExit(3)" in code else None


@pytest.mark.parametrize(
    "fault",
    [
        (500, {}),
        (429, {}),
        (503, {}),
        (200, {"status": "SandboxError", "message": "pod died", "run_result": None}),
        (200, {"status": "Success", "run_result": {"status": "Error"}}),
        (200, {"nonsense": 1}),
    ],
    ids=["500", "429", "503", "SandboxError", "Error", "nonsense"],
)
def test_a_temporary_fault_is_tried_again_and_never_a_result(
    fake: Callable[[Answer], RemoteSandbox], fault: tuple[int, dict[str, object]]
) -> None:
    calls = iter([fault, fault, finished("42")])
    room = fake(lambda code, body: canary(code, body) or next(calls))
    assert run("print(42)", [("", "42")], sandbox=room).correct


def test_a_service_that_is_down_is_left_alone_after_some_failures(fake: Callable[[Answer], RemoteSandbox]) -> None:
    asked: list[str] = []

    def answer(code: str, body: dict[str, str]) -> tuple[int, dict[str, object]]:
        asked.append(code)
        return canary(code, body) or (500, {})

    room = fake(answer)
    for _ in range(10):
        with pytest.raises(SandboxDown):
            next(room.execute("print(1)", [b""], LIMITS))
    assert asked.count("print(1)") == remote.FAILURES


@pytest.mark.parametrize("lie", ["0", ""])
def test_a_service_that_fails_its_canaries_judges_nothing(fake: Callable[[Answer], RemoteSandbox], lie: str) -> None:
    """One that says Success to everything would pay for every empty output; one without exit codes, for crashes."""
    room = fake(lambda code, body: finished(lie) if "a * b" in code or lie == "" else finished(body["stdin"]))
    with pytest.raises(SandboxDown, match="right program"):
        next(room.execute("print(1)", [b""], LIMITS))


def test_a_service_without_exit_codes_is_refused(fake: Callable[[Answer], RemoteSandbox]) -> None:
    room = fake(lambda code, body: canary(code, body) if "a * b" in code else finished(body["stdin"]))  # type: ignore[arg-type, return-value]
    with pytest.raises(SandboxDown, match="exit code"):
        next(room.execute("print(1)", [b""], LIMITS))


def test_no_service_at_all_ends_at_the_deadline() -> None:
    room = RemoteSandbox("http://127.0.0.1:1", grace=0.5)
    with pytest.raises(SandboxDown):
        next(room.execute("print(1)", [b""], LIMITS))


def test_a_time_limit_of_the_service_is_one_of_ours(fake: Callable[[Answer], RemoteSandbox]) -> None:
    late = 200, {"status": "Failed", "run_result": {"status": "TimeLimitExceeded", "stdout": "", "stderr": ""}}
    room = fake(lambda code, body: canary(code, body) or late)  # type: ignore[return-value]
    assert next(room.execute("print(1)", [b""], LIMITS)).ending is Ending.WALL
