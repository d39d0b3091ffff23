"""What the proofs of the gateway share: a pair that ships with the package, stub servers, a gateway as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _lib import ROOT, smollm2
from _server import free_port
from agon.engine.shipped import folder_of
from agon.game.prompts import PROMPTS_HASH
from agon.rundir.files import weights_hash
from agon.rundir.pair import PairInfo, write_pair
from agon.types import Direction, Policy, Version

if TYPE_CHECKING:
    from agon.deploy.serve.served_pair import ServedPair

EXTRA_SOURCES = ("src/agon/deploy", "src/agon/cli", "evidence/_stub_vllm.py", "tests/fixtures/serve")
BASE = "agon:halves"
RECORDING = ROOT / "tests" / "fixtures" / "serve" / "vllm-0.32.json"
"""Answers of a real vLLM to some questions put to that pair; `evidence/serve_parity.py --record` writes it."""
KEY = "k-evidence"


def write_halves(folder: Path) -> Path:
    """The adapters that ship beside the base `agon:halves`, as a pair."""
    base = folder_of(BASE)
    versions = {policy: Version.of(policy, 1, (weights_hash(base / policy.value) or "")[:8]) for policy in Policy}
    return write_pair(folder, base / "a", base / "b", pair_info(BASE, versions))


def smollm2_pair(folder: Path) -> Path:
    """Two adapters of random weights over SmolLM2."""
    return random_pair(folder, str(smollm2(folder / "base")))


def random_pair(folder: Path, base: str) -> Path:
    """Two adapters of random weights over a base."""
    for number, policy in enumerate(Policy):
        random_adapter(folder_of(base), folder / policy.value, seed=number)
    versions = {policy: Version.of(policy, 1, "0" * 8) for policy in Policy}
    return write_pair(folder, folder / "a", folder / "b", pair_info(base, versions))


def pair_info(base: str, versions: dict[Policy, Version]) -> PairInfo:
    """What a pair says of itself."""
    from agon.engine.render import Renderer

    return PairInfo(
        versions=versions,
        base=base,
        base_hash=weights_hash(folder_of(base)),
        direction=Direction.AB,
        prompts_hash=PROMPTS_HASH,
        chat_template_hash=Renderer.load(str(folder_of(base))).hash,
        arm="agon",
    )


def random_adapter(base: Path, folder: Path, seed: int) -> None:
    """An adapter of small random weights."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.005)
    adapted.save_pretrained(folder)


def questions(count: int) -> list[str]:
    """Problems that the pair knows something about."""
    from agon.data.generated import generate

    return [problem.question for problem in generate("tabletop", {}, count, seed=7).problems]


def recording() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDING.read_text())
    return found


@dataclass
class Process:
    """A server as a child process."""

    command: list[str]
    url: str
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    """Variables beside our own."""
    child: subprocess.Popen[bytes] | None = None

    def start(self, path: str, seconds: float = 300.0) -> None:
        """Start it and wait until a path answers 200."""
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True, env=os.environ | self.environment
            )
        began = time.monotonic()
        while (waited := time.monotonic() - began) < seconds and self.child.poll() is None:
            with suppress(OSError, urllib.error.URLError):
                urllib.request.urlopen(self.url + path, timeout=5)
                return
            time.sleep(min(0.05 + waited / 20, 1))
        raise RuntimeError(f"{self.command[1]} did not start; its log ends: {self.log.read_text()[-2000:]}")

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, number)
            self.child.wait(60)


def stub(folder: Path, delay: float = 0.0, port: int | None = None, answers: Path = RECORDING) -> Process:
    """A stub server, not started yet."""
    port = port or free_port()
    command = [
        sys.executable,
        str(ROOT / "evidence" / "_stub_vllm.py"),
        str(port),
        str(answers),
        "--delay",
        str(delay),
    ]
    return Process(command, f"http://127.0.0.1:{port}", folder / f"stub-{port}.log")


def vllm(pair: ServedPair, folder: Path) -> Process:
    """A real vLLM in float32 over a pair, not started yet."""
    from agon.deploy.serve.vllm_command import VllmSettings, vllm_command
    from agon.engine.vllm.local import QUIET

    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    port = free_port()
    command = vllm_command(pair, VllmSettings(port=port, dtype="float32"))
    command[0] = str(Path(sys.executable).with_name("vllm"))
    return Process(command, f"http://127.0.0.1:{port}", folder / f"vllm-{port}.log")


def control(url: str, **fields: Any) -> dict[str, Any]:
    """Change what a stub does; what it is doing."""
    request = urllib.request.Request(f"{url}/control", json.dumps(fields).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=10) as reply:
        found: dict[str, Any] = json.load(reply)
        return found


def plugin_environment(folder: Path, pair: Path) -> dict[str, str]:
    """Variables with which a vLLM loads examples/vllm_plugin as if it were installed."""
    facts = folder / "agon_vllm_plugin-0.1.0.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: agon-vllm-plugin\nVersion: 0.1.0\n")
    (facts / "entry_points.txt").write_text("[vllm.endpoint_plugins]\nagon = agon_vllm_plugin:AgonPlugin\n")
    places = (folder, ROOT / "examples" / "vllm_plugin", ROOT / "src", os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(map(str, places)), "VLLM_PLUGINS": "agon", "AGON_PAIR": str(pair)}


@contextmanager
def serving(
    pair: Path,
    backends: list[str],
    folder: Path,
    *options: str,
    seconds: float = 300.0,
    environment: dict[str, str] | None = None,
) -> Iterator[Process]:
    """`agon serve` over some backends, or over a vLLM of its own; all ask for KEY. Ended at the end."""
    port = free_port()
    command = [sys.executable, "-m", "agon", "serve", str(pair), "--port", str(port), *options]
    for url in backends:
        command += ["--backend", url]
    variables = {**dict.fromkeys(("AGON_SERVE_KEYS", "AGON_API_KEY", "VLLM_API_KEY"), KEY), **(environment or {})}
    gateway = Process(command, f"http://127.0.0.1:{port}", folder / f"gateway-{port}.log", variables)
    try:
        gateway.start("/ready", seconds)
        yield gateway
    finally:
        gateway.kill(signal.SIGINT if not backends else signal.SIGKILL)


@contextmanager
def stubs(folder: Path, count: int, delay: float = 0.0, answers: Path = RECORDING) -> Iterator[list[Process]]:
    """Some stub servers that run."""
    with ExitStack() as stack:
        started = [stub(folder, delay, answers=answers) for _ in range(count)]
        for each in started:
            stack.callback(each.kill)
            each.start("/health")
        yield started
