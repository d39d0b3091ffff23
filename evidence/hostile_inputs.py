"""Hostile inputs: replies of a server, and pairs, runs, bases, templates and run folders that come from strangers.

Replies: 27 kinds, each sent once and then without end to the real sampler and fleet, and in the middle of whole
`agon train` runs, which are resumed after each. What must not happen: a traceback, a finished step that is lost, a wait
without end. Strangers: what they send is given to the commands that a user would type. What must not happen: their code
runs, the base changes in memory or on disk, a local file is sent or copied, a hang, a traceback, a file outside the run
is touched. Every detector is tried first on something that it must find.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

from _faulty_server import AT_START, KINDS, FaultyServer, faulty_server
from _lib import arguments, verdict
from _strangers import (
    CONFIG,
    EVIL,
    SECRET,
    SIZES,
    Case,
    Sender,
    adapter_cases,
    base_cases,
    folder_cases,
    pair_cases,
    run_cases,
)
from agon.cli import main as agon
from agon.engine import fleet, render
from agon.engine.fleet import Fleet
from agon.engine.hf.sampler import HFSampler
from agon.engine.protocol import Draw
from agon.engine.shipped import folder_of
from agon.engine.vllm.sampler import VLLMSampler
from agon.engine.vllm.server import ServerEngine
from agon.errors import AgonError
from agon.rundir.checkpoint import folders
from agon.types import BASE, Sampling, Version

EXTRA_SOURCES = ("src/agon/cli", "configs/tabletop", "tests/engine/helpers", "tests/rundir/helpers")
DEADLINE = 120
"""Seconds after which a command counts as one that hangs; each takes a few on an idle core."""
PATIENCE = 2.0
"""Of the fleet, and for a server to answer; a run has 120 s and 300 s."""
HARMS = ("traceback", "hang", "step lost", "code run", "base changed", "secret out", "outside touched")


class Hang(BaseException):
    """A command took longer than DEADLINE."""


def main() -> None:
    args = arguments(__doc__)
    fleet.GRACE, render.TEMPLATE_SECONDS = 0.05, 2.0
    Fleet.__init__.__kwdefaults__["patience"] = ServerEngine.__init__.__kwdefaults__["ready"] = PATIENCE
    with tempfile.TemporaryDirectory(prefix="agon-hostile-") as scratch, listener() as (url, received):
        sender = Sender(Path(scratch), url)
        sender.prepare()
        watch = Watch(sender, received)
        blind = watch.controls()
        counts = Counter(malformed(watch, args.quick) + strangers(watch, args.quick))
    harms = {harm: sum(found == harm for _, found in watch.found) for harm in HARMS}
    for what, harm in watch.found:
        print(f"{harm.upper()}: {what}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    verdict(
        "malformed replies of a server and hostile pairs, runs, bases, templates and folders of strangers do no harm",
        {**harms, "blind detectors": len(blind)},
        dict.fromkeys([*harms, "blind detectors"], 0),
        holds=not any(harms.values()) and not blind,
        n=counts.total(),
        inputs=dict(counts),
        outcomes=dict(watch.outcomes),
    )


def some(cases: Sequence[Any], quick: bool, every: int) -> list[Any]:
    return list(cases)[::every] if quick else list(cases)


# -- what is looked for -----------------------------------------------------------------------------------------------


class Watch:
    """Runs commands and notes every harm that they do."""

    def __init__(self, sender: Sender, received: list[bytes]) -> None:
        self.sender, self.received = sender, received
        self.found: list[tuple[str, str]] = []
        self.outcomes: Counter[str] = Counter()
        self.sampler = HFSampler(str(folder_of("agon:tiny")))
        self.memory, self.disk, self.outside = (
            self.in_memory(),
            hash_of(folder_of("agon:tiny")),
            hash_of(sender.outside),
        )

    def attempt(self, what: str, work: Callable[[], Any]) -> Any:
        """Do it with a deadline; note what went wrong, and what it left behind."""
        stderr, result = io.StringIO(), None
        signal.signal(signal.SIGALRM, _hang)
        signal.alarm(DEADLINE)
        try:
            with redirected(stderr):
                result = work()
            self.outcomes["done" if result in (None, 0) else "refused"] += 1
        except Hang:
            self.note(what, "hang")
        except AgonError as error:
            self.outcomes["refused" if error.fix else "refused without a fix"] += 1
        except (Exception, SystemExit) as error:
            self.note(f"{what}: {error!r}", "traceback")
        finally:
            signal.alarm(0)
        if "Traceback (most recent" in stderr.getvalue():
            self.note(f"{what}: {stderr.getvalue()[-300:]}", "traceback")
        self.look(what)
        return result

    def look(self, what: str) -> None:
        """Note what a stranger got; put it back, so that it counts once."""
        sender = self.sender
        if sender.ran.exists():
            sender.ran.unlink()
            sys.modules.pop(EVIL, None)
            self.note(what, "code run")
        if self.received:
            self.received.clear()
            self.note(what, "secret out")
        if (now := hash_of(sender.outside)) != self.outside:
            self.outside = now
            self.note(what, "outside touched")
        if (disk := hash_of(folder_of("agon:tiny"))) != self.disk:
            self.disk = disk
            self.note(what, "base changed")

    def note(self, what: str, harm: str) -> None:
        self.found.append((what, harm))

    def in_memory(self) -> str:
        """A hash of the sampler's base, by the tensors it holds and nothing of the code under test."""
        tensors = {id(tensor): tensor for tensor in self.sampler._model.parameters()}
        names = {id(tensor): name for name, tensor in self.sampler._model.named_parameters()}
        digest = hashlib.sha256()
        for key in sorted((key for key in tensors if "lora_" not in names[key]), key=lambda key: _plain(names[key])):
            digest.update(tensors[key].detach().numpy().tobytes())
        return digest.hexdigest()

    def controls(self) -> list[str]:
        """The detectors that do not see what they are for."""
        sender = self.sender
        deeds: dict[str, Callable[[], Any]] = {
            "traceback": lambda: 1 // 0,
            "hang": lambda: signal.raise_signal(signal.SIGALRM),
            "code run": lambda: __import__("runpy").run_path(str(sender.root / "modules" / f"{EVIL}.py")),
            "secret out": lambda: send(sender.url, SECRET),
            "outside touched": lambda: (sender.outside / "file").write_text("gone"),
        }
        for deed in deeds.values():
            self.attempt("control", deed)
        blind = [harm for harm in deeds if ("control", harm) not in [(w.split(":")[0], h) for w, h in self.found]]
        self.found.clear()
        self.outcomes.clear()
        weight = next(self.sampler._model.parameters())
        weight.data[0, 0] += 1
        if self.in_memory() == self.memory:
            blind.append("base changed")
        weight.data[0, 0] -= 1
        self.memory = self.in_memory()
        return blind


def _plain(name: str) -> str:
    return name.removeprefix("base_model.model.").replace(".base_layer.", ".")


def _hang(*_: Any) -> None:
    raise Hang


@contextlib.contextmanager
def redirected(stderr: io.StringIO) -> Iterator[None]:
    """What is printed goes nowhere; what is asked is answered with yes; a stranger's module could be imported."""
    before, path = sys.stdin, list(sys.path)
    sys.stdin = io.StringIO("y\n" * 99)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(stderr):
            yield
    finally:
        sys.stdin, sys.path[:] = before, path


def hash_of(folder: Path) -> str:
    """Names and contents of everything below a folder."""
    files = sorted(path for path in folder.rglob("*"))
    texts = [f"{path.relative_to(folder)} {path.read_bytes()!r}" if path.is_file() else str(path) for path in files]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


@contextlib.contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """An address of a stranger, and what arrives there."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    connection.settimeout(2)
                    with connection, contextlib.suppress(OSError):
                        received.append(connection.recv(1 << 16))

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received


def send(url: str, text: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(text.encode())
    time.sleep(0.3)


# -- replies ----------------------------------------------------------------------------------------------------------


def malformed(watch: Watch, quick: bool) -> list[str]:
    """Every kind of reply through sampler and fleet, and in whole runs."""
    kinds, trained = some(KINDS, quick, 8), some(KINDS, quick, 14)
    with faulty_server() as server:
        for kind in kinds:
            sampled(watch, server, kind)
        run = watch.sender.root / "trained"
        for kind in trained:
            in_a_run(watch, server, kind, run)
        server.fault = ""
    return ["replies to a sampler"] * len(kinds) + ["replies in a run"] * len(trained)


def sampled(watch: Watch, server: FaultyServer, kind: str) -> None:
    """A fault that comes once must be survived, unless it is a refusal; one that stays must stop with an error."""
    draws = [Draw((5, 6, 7), BASE, 3, Sampling(max_tokens=2))]

    def connect() -> VLLMSampler:
        return VLLMSampler(str(folder_of("agon:tiny")), Fleet(ServerEngine(server.url)))

    server.fault = kind if kind in AT_START else ""
    if kind in AT_START:
        watch.attempt(f"{kind}, at the start", connect)
        return
    sampler = connect()
    server.fault, server.sent, server.armed = kind, 0, lambda: server.sent == 0
    watch.attempt(f"{kind}, once", lambda: sampler.draw_all(draws) and None)
    server.armed = lambda: True
    watch.attempt(f"{kind}, without end", lambda: sampler.draw_all(draws) and None)
    server.fault = ""
    sampler.close()


def in_a_run(watch: Watch, server: FaultyServer, kind: str, run: Path) -> None:
    """Resume a run, let it finish one more step, and misbehave from then on."""
    begun = steps_of(run)
    server.fault = kind
    server.armed = lambda: kind in AT_START or steps_of(run) > begun
    words = [*SIZES[1:], "data.train.take=1000", "train.max_steps=1000", "save.every=1000"]
    words += ["sampler.engine=vllm", f"sampler.urls=[{server.url}]", "sampler.max_model_len=512"]
    command = ["train", str(CONFIG), *words, "--out", str(run.parent), "--name", run.name, "--resume"]
    code = watch.attempt(f"{kind}, in a run", lambda: agon(command))
    if code == 0 or (kind not in AT_START and steps_of(run) != begun + 1):
        watch.note(f"{kind}, in a run: {steps_of(run) - begun} steps, exit code {code}", "step lost")
    saved = int(found[0].name[5:]) if (found := folders(run / "checkpoints")) else 0
    if saved != steps_of(run):
        watch.note(f"{kind}, in a run: saved {saved} of {steps_of(run)} steps", "step lost")


def steps_of(run: Path) -> int:
    log = run / "steps.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


# -- strangers --------------------------------------------------------------------------------------------------------


def strangers(watch: Watch, quick: bool) -> list[str]:
    """Everything that a stranger sends, through the commands."""
    sender, kinds = watch.sender, []
    sys.path.insert(0, str(sender.root / "modules"))
    for name, make in some(list(adapter_cases(sender).items()), quick, 12):
        kinds.append("adapters")
        published(watch, name, make)
    cases = some(pair_cases(sender), quick, 5) + some(run_cases(sender), quick, 8)
    cases += some(base_cases(sender), quick, 9) + some(folder_cases(sender), quick, 19)
    for case in cases:
        kinds.append(f"{case.kind}s")
        tried(watch, case, quick)
    return kinds


def published(watch: Watch, name: str, make: Callable[[Path], Path]) -> None:
    """Load an adapter beside others on a base that is hashed before and after."""
    with tempfile.TemporaryDirectory(dir=watch.sender.root) as folder:
        version = Version(f"a@{len(watch.outcomes) + time.monotonic_ns() % 10**9}-x")
        before = watch.outcomes["done"]
        watch.attempt(f"adapter, {name}", lambda: watch.sampler.publish(version, make(Path(folder))))
        if watch.outcomes["done"] > before:
            watch.note(f"adapter, {name}: accepted", "base changed")
        if (now := watch.in_memory()) != watch.memory:
            watch.memory = now
            watch.note(f"adapter, {name}", "base changed")


def tried(watch: Watch, case: Case, quick: bool) -> None:
    """Give a case to its commands, each in turn; look for the secret in all that they write."""
    with tempfile.TemporaryDirectory(dir=watch.sender.root) as name:
        folder = Path(name)
        commands = case.make(folder)
        before = set(folder.rglob("*"))
        for command in commands[:2] if quick else commands:
            watch.attempt(f"{case.kind}, {case.name}: agon {command[0]}", lambda command=command: agon(command))
        written = [path for path in folder.rglob("*") if path not in before and path.is_file()]
        if any(SECRET.encode() in path.read_bytes() for path in written):
            watch.note(f"{case.kind}, {case.name}", "secret out")


if __name__ == "__main__":
    main()
