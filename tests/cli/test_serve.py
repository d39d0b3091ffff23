"""`agon serve`: the command it prints, what it refuses, and a process without torch."""

from __future__ import annotations

import json
import os
import pty
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the gateway needs the extra `serve`")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "evidence"))
from _serve import serving, stubs, write_halves
from _server import free_port
from agon.cli import main
from agon.game.prompts import challenge_prompt, draft_prompt
from agon.types import Problem

pytestmark = pytest.mark.slow

DOCS = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_halves(tmp_path_factory.mktemp("pair"))


def agon(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    quiet = os.environ | {"HF_HUB_OFFLINE": "1"} | variables
    return subprocess.run(
        [sys.executable, "-m", "agon", *words], capture_output=True, text=True, env=quiet, timeout=120
    )


def test_the_printed_command_serves_both_adapters_under_their_versions(pair: Path) -> None:
    done = agon("serve", str(pair), "--print-command", "--dtype", "float32")
    assert done.returncode == 0, done.stderr
    words = shlex.split(done.stdout)
    assert words[:2] == ["vllm", "serve"]
    versions = json.loads((pair / "agon.json").read_text())["versions"]
    for policy in "ab":
        assert f"{versions[policy]}={(pair / policy).resolve()}" in words
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert int(words[words.index("--max-num-queued-reqs") + 1]) > 0
    assert words[words.index("--max-model-len") + 1] == "1024"


@pytest.mark.parametrize(
    ("keys", "said"), [(" ", "needs an API key"), ("5f3a9c1e77b04d215f3a9c1e77b04d21,x", "too easy to guess")]
)
def test_listening_to_others_needs_keys_that_are_hard_to_guess(pair: Path, keys: str, said: str) -> None:
    done = agon("serve", str(pair), "--host", "0.0.0.0", "--backend", "http://127.0.0.1:9", AGON_SERVE_KEYS=keys)
    assert done.returncode == 2
    assert said in done.stderr
    assert "export AGON_SERVE_KEYS=" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backend", "gpu1:8001"], "--backend gpu1:8001 is not the URL of a server"),
        (["--backend", "http://gpu1:port"], "is not the URL of a server"),
        (["--port", "99999"], "'99999' is not a whole number from 1 to 65535"),
        (["--port", "65535"], "vLLM cannot listen on port 65536"),
        (["--vllm-port", "8000"], "vLLM cannot listen on port 8000"),
        (["--slots", "0"], "'0' is not a whole number of at least 1"),
        (["--queue", "-1"], "'-1' is not a whole number of at least 0"),
        (["--deadline", "nan"], "'nan' is not a number of seconds above 0"),
        (["--stall", "soon"], "'soon' is not a number of seconds above 0"),
    ],
)
def test_what_cannot_be_served_with_is_refused_before_loading(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "nowhere", *words]) == 2
    assert said in capsys.readouterr().err


def test_no_process_that_it_starts_inherits_the_keys_of_clients(pair: Path) -> None:
    code = (
        "import os\n"
        "from agon.cli import main\n"
        "from agon.deploy.serve import serving, vllm_command\n"
        "vllm_command.VllmProcess = lambda command, key: print(os.environ.get('AGON_SERVE_KEYS'), len(key) >= 32)\n"
        "serving.serve = lambda gateway, keys, address, children: print(bool(keys))\n"
        f"main(['serve', {str(pair)!r}])\n"
    )
    variables = os.environ | {"AGON_SERVE_KEYS": "secret"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=variables)
    assert done.stdout.splitlines() == ["None True", "True"], done.stderr


def test_a_server_that_cannot_be_started_ends_the_gateway_and_says_why(pair: Path) -> None:
    code = (
        "import signal, sys\n"
        "from agon.cli import main\n"
        "from agon.deploy.serve import vllm_command\n"
        "vllm_command.vllm_command = lambda pair, settings: ['no-such-vllm']\n"
        "signal.alarm(60)\n"
        f"sys.exit(main(['serve', {str(pair)!r}, '--port', '{free_port()}']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "no-such-vllm cannot be started: No such file or directory" in done.stderr
    assert "--backend URL" in done.stderr


def test_a_gateway_loads_no_torch(pair: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from agon.deploy.serve.served_pair import ServedPair\n"
        "from agon.deploy.serve import serving\n"
        "serving.without_torch()\n"
        f"pair = ServedPair.load(Path({str(pair)!r}), weights=False)\n"
        "serving.build_gateway(pair, [], pair.folder.info.versions, serving.GatewaySettings())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'vllm', 'peft', 'trl') "
        "and sys.modules[name]])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def on_a_terminal(command: list[str], until: bytes, then: Callable[[], None]) -> tuple[str, int]:
    """What a command prints on a terminal: up to some words, then after a call and Ctrl-C; and its exit code."""
    process, screen = pty.fork()
    if not process:
        os.execvpe(command[0], command, os.environ | {"HF_HUB_OFFLINE": "1"})
    shown, stopped, deadline = b"", False, time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([screen], [], [], 0.2)[0]:
            try:
                shown += os.read(screen, 4096)
            except OSError:  # the terminal's way to say that nobody is left
                break
        if until in shown and not stopped:
            stopped = True
            then()
            os.write(screen, b"\x03")
    if time.monotonic() >= deadline:
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    os.close(screen)
    return shown.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def test_a_person_is_told_when_it_is_ready_and_how_to_stop_it(pair: Path, tmp_path: Path) -> None:
    port, statuses = free_port(), list[int]()
    body = json.dumps({"model": "a", "messages": [{"role": "user", "content": "1 + 1?"}]}).encode()

    def ask() -> None:
        kind = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", body, kind)
        with urllib.request.urlopen(asked, timeout=30) as reply:
            statuses.append(reply.status)

    with stubs(tmp_path, 1) as [server]:
        command = [sys.executable, "-m", "agon", "serve", str(pair), "--port", str(port), "--backend", server.url]
        shown, code = on_a_terminal(command, b"ready at", ask)
    assert (statuses, code) == ([200], 0), shown
    assert f"ready at http://127.0.0.1:{port}/v1" in shown
    assert "stop it with Ctrl-C" in shown
    assert "200  a  " in shown
    assert shown.splitlines()[-1] == "stopped"
    assert "{" not in shown


def test_a_pipe_gets_json_lines_only(pair: Path, tmp_path: Path) -> None:
    with stubs(tmp_path, 1) as [server], serving(pair, [server.url], tmp_path) as up:
        up.kill(signal.SIGINT)
        lines = up.log.read_text().splitlines()
    assert [line["event"] for line in map(json.loads, lines)][-2:] == ["stopping", "stopped"]


def test_a_port_in_use_is_found_before_a_server_is_started(pair: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = agon("serve", str(pair), "--port", str(taken.getsockname()[1]), "--vllm-port", str(free_port()))
    assert done.returncode == 2
    assert "choose another with --host and --port" in done.stderr
    assert "vllm started" not in done.stderr


def test_the_capacity_on_the_page_is_that_of_the_kept_result() -> None:
    page = DOCS.read_text()
    kept = json.loads((DOCS.parents[1] / "evidence" / "results" / "serve_overhead.json").read_text())
    found = kept["value"]
    assert kept["commit"][:7] in page
    middle, low, high = (round(each, 1) for each in found["1 at once"]["added p50 ms"])
    assert f"p50 {middle} ms [{low}, {high}]" in page
    rates = [found[name]["answers per second"] for name in ("one gateway", "two gateways")]
    assert f"{rates[0]} and {rates[1]}" in page


def test_the_calls_on_the_page_are_the_trained_prompts(tmp_path: Path) -> None:
    _, _, code = DOCS.read_text().partition("```python\nFORMAT")
    asked: list[tuple[str, str]] = []

    def ask(model: str, prompt: str) -> str:
        asked.append((model, prompt))
        return "<think>\nseven eights\n</think>\n7 times 8 is known.\n<answer>56</answer>"

    (tmp_path / "page.py").write_text("FORMAT" + code.partition("```")[0])
    cascade = runpy.run_path(str(tmp_path / "page.py"))["cascade"]
    problem = Problem("", "What is 7 times 8?", "")
    assert "56" in cascade(ask, problem.question)
    prompts = draft_prompt(problem), challenge_prompt(problem, "7 times 8 is known.")
    assert asked == list(zip("ab", (prompt.messages[0].text for prompt in prompts), strict=True))
