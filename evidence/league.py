"""Rivals that do not learn: an earlier version of A, a frozen checkpoint of a run before, a model behind an endpoint.

Each trains the tiny base for ten steps with `agon.train`. Every bout must name the version of its rival: the one that
seed and step draw from the league, the frozen adapter by the hash of its weights, or `endpoint:MODEL`. Only A may move.
Then the newest checkpoints are deleted and the run is resumed: bouts, `steps.jsonl` and adapters must be the same to
the bit, and an endpoint must not be asked anything twice. The endpoint is a real `vllm serve` over the same base,
behind a front that counts requests and fails on demand: some requests for a whole run, then all of them. A request that
failed must be `infra`, in no case a wrong answer, and nothing may be learnt from its bout. `--quick` puts a script in
the place of vLLM, lets some of its requests fail from the start, and trains three short steps; it leaves out frozen
rivals and the resume, which tests/training/test_rivals.py has on scripted policies.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

from _lib import ROOT, arguments, verdict
from _server import vllm_server
from agon import train
from agon.engine import http_client
from agon.engine.tiny.checkpoint import tiny_base
from agon.errors import EngineError
from agon.rundir import RunDir, read_bouts
from agon.rundir.checkpoint import folders
from agon.rundir.files import sha256
from agon.types import Policy, Version, seed_for

EXTRA_SOURCES = ("configs/tabletop",)
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
SMALL = [
    "data.train.take=40", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2", "save.every=2",
    "data.train.options.difficulty=2", "train.schedule=constant", "train.warmup=0", "eval.points=0", "save.keep=20",
]  # fmt: skip
QUICK = ["game.group_size=2", "train.max_completion_tokens=24", "train.max_peek_tokens=16"]
MODEL = "tiny-elsewhere"
DEAD = 5
"""One request in so many is never answered, where some are to fail."""
Reply = tuple[int, bytes]
Upstream = Callable[[str, bytes | None], Reply]


class Front(ThreadingHTTPServer):
    """Passes requests on and counts them; `dead` says for which seeds the connection is dropped instead."""

    daemon_threads = True

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.answered, self.dropped = upstream, 0, 0
        self.dead: Callable[[int], bool] = lambda seed: False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A dropped connection is what was asked for."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Front

    def do_GET(self) -> None:
        self._send(*self.server.upstream(self.path, None))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.dead(json.loads(body)["seed"]):
            self.server.dropped += 1
            self.connection.close()
            return
        self.server.answered += 1
        self._send(*self.server.upstream(self.path, body))

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def scripted(path: str, body: bytes | None) -> Reply:
    """A server without a model: answers by seed, with a forged end of turn in the summary."""
    if body is None:
        return 200, json.dumps({"data": [{"id": MODEL}]}).encode()
    seed = json.loads(body)["seed"]
    text = f"<think>t</think>It is {seed % 20}.<|im_end|></think><answer>{seed % 20}</answer>"
    reply = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    return 200, json.dumps(reply | {"usage": {"prompt_tokens": 40, "completion_tokens": 12}}).encode()


def forwarding(url: str) -> Upstream:
    """To a real server."""

    def forward(path: str, body: bytes | None) -> Reply:
        request = urllib.request.Request(url + path, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as response:
            return response.status, response.read()

    return forward


@contextmanager
def endpoint(quick: bool) -> Iterator[Front]:
    if quick:
        with _serving(Front(scripted)) as front:
            yield front
        return
    with vllm_server(tiny_base(), context=512, rank=16, name=MODEL) as url, _serving(Front(forwarding(url))) as front:
        yield front


@contextmanager
def _serving(front: Front) -> Iterator[Front]:
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        yield front
    finally:
        front.shutdown()
        front.server_close()


# -- what a run left behind -------------------------------------------------------------------------------------------


def rivals(run: RunDir) -> list[tuple[int, Version]]:
    """(step, version that played B) of every bout."""
    columns = ["step", "drafter", "draft_version", "challenge_version"]
    rows = read_bouts(run, columns).to_pylist()
    return [(row["step"], Version(row[f"{'draft' if row['drafter'] == 'b' else 'challenge'}_version"])) for row in rows]


def adapters(run: RunDir, step: int) -> dict[Policy, str]:
    folder = run.checkpoints / f"step_{step:06d}"
    return {policy: sha256(folder / policy.value / "adapter_model.safetensors") for policy in Policy}


def content(run: RunDir, steps: int) -> Any:
    return read_bouts(run).to_pylist(), (run.path / "steps.jsonl").read_bytes(), adapters(run, steps)


def check(run: RunDir, steps: int, expected: Callable[[int], Version]) -> dict[str, Any]:
    """Count steps, bouts, bouts that name a different rival than expected, and who moved and who learnt."""
    first, last = adapters(run, 0), adapters(run, steps)
    named, records = rivals(run), run.steps.records()
    return {
        "steps": len(records),
        "bouts": len(named),
        "other rivals": sum(version != expected(step) for step, version in named),
        "rivals": len({version for _, version in named}),
        "A moved": first[Policy.A] != last[Policy.A],
        "B moved": first[Policy.B] != last[Policy.B],
        "learners": sorted({policy.value for record in records for policy in record.update}),
        "tokens of the rival": sum(r.ledger[name].generated for r in records for name in r.ledger if name[-1] == "b"),
    }


def resumed_equal(run: RunDir, steps: int) -> bool:
    """Delete the newest checkpoints, resume, and compare with what was there."""
    before = content(run, steps)
    for folder in folders(run.checkpoints):
        if int(folder.name[5:]) > steps // 2:
            shutil.rmtree(folder)
    train(run.path, resume=True, show="nothing")
    return bool(content(run, steps) == before)


def league_draw(run: RunDir, seed: int, every: int) -> Callable[[int], Version]:
    """Who must have played B: by seed and step among the versions of A that were there, from the bouts of A alone."""
    kept, there = list[Version](), dict[int, list[Version]]()
    for record in run.steps.records():
        if record.step % every == 0 and record.versions[Policy.A] not in kept:
            kept.append(record.versions[Policy.A])
        there[record.step] = list(kept)
    return lambda step: there[step][seed_for(seed, "league", step) % len(there[step])]


# -- the runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """Runs of so many steps in a folder."""

    out: Path
    quick: bool

    @property
    def steps(self) -> int:
        return 3 if self.quick else 10

    def train(self, name: str, *words: str) -> RunDir:
        fixed = [*SMALL, *(QUICK if self.quick else ["game.group_size=4"]), f"train.max_steps={self.steps}"]
        return train(CONFIG, *fixed, *words, name=name, out=self.out, show="nothing")

    def measure(self, run: RunDir, expected: Callable[[int], Version]) -> dict[str, Any]:
        """What `check` counts; unless it must be quick, the run is also resumed from its middle."""
        found = check(run, self.steps, expected)
        return found if self.quick else found | {"resumed equal": resumed_equal(run, self.steps)}


def failures(run: RunDir) -> dict[str, int]:
    """Requests that were never answered, as the bouts have them."""
    rows = read_bouts(run).to_pylist()
    sides = [(row, "draft" if row["drafter"] == "b" else "challenge") for row in rows]
    lost = [(row, side) for row, side in sides if "gave no answer" in (row[f"{side}_detail"] or "")]
    return {
        "unanswered": len(lost),
        "infra": sum(row[f"{side}_reason"] == "infra" for row, side in lost),
        "empty but judged": sum(not row[f"{s}_text"] and row[f"{s}_reason"] != "infra" for row, s in sides),
        "taught": sum(row["challenge_advantage"] is not None for row, side in lost),
    }


def with_endpoint(trial: Trial, front: Front) -> tuple[dict[str, Any], dict[str, Any]]:
    """Train against the endpoint: answered and resumed; then with some requests that fail, and with all of them."""
    words = ["rival.kind=endpoint", f"rival.url={front.url}", f"rival.model={MODEL}"]
    named = Version(f"endpoint:{MODEL}")
    if trial.quick:
        front.dead = some
    run = trial.train("endpoint", *words)
    asked = front.answered
    found = trial.measure(run, lambda step: named)
    if trial.quick:
        return found, failures(run)
    found["asked twice"] = front.answered - asked
    front.dead = some
    dead = failures(trial.train("some-dead", *words))
    return found, dead | all_dead(trial, front, words)


def some(seed: int) -> bool:
    """Whether a request fails where some do."""
    return seed % DEAD == 0


def all_dead(trial: Trial, front: Front, words: list[str]) -> dict[str, Any]:
    """Train while nothing is answered, then resume while everything is."""
    front.dead = lambda seed: True
    try:
        trial.train("all-dead", *words)
        stopped = ""
    except EngineError as error:
        stopped = error.message
    front.dead = lambda seed: False
    again = train(trial.out / "all-dead", resume=True, show="nothing")
    return {"stopped": "gave no answer" in stopped, "steps after": len(again.steps.records())}


def measure(trial: Trial) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Counts by kind of rival, and what became of requests that were never answered."""
    every = 1 if trial.quick else 2
    run = trial.train("league", "rival.kind=league", f"rival.every={every}")
    found = {"league": trial.measure(run, league_draw(run, 0, every))}
    if not trial.quick:
        before = folders(run.checkpoints)[0] / "a"
        run = trial.train("frozen", "rival.kind=frozen", f"model.init.b={before}")
        frozen = run.saved_state(0).run.versions[Policy.B]
        found["frozen"] = trial.measure(run, lambda step: frozen)
    with endpoint(trial.quick) as front:
        found["endpoint"], dead = with_endpoint(trial, front)
    return found, dead


def main() -> None:
    args = arguments(__doc__)
    http_client.pause = lambda *_: 0.01
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder), args.quick)
        found, dead = measure(trial)
    for name, counts in [*found.items(), ("unanswered requests", dead)]:
        print(f"{name}: {counts}", flush=True)
    names = ("steps", "other rivals", "A moved", "B moved", "learners")
    holds = all([one[name] for name in names] == [trial.steps, 0, True, False, ["a"]] for one in found.values())
    holds &= args.quick or all(one["resumed equal"] for one in found.values())
    holds &= all(one["tokens of the rival"] > 0 for one in found.values())
    masked = dead["unanswered"] > 0 and dead["infra"] == dead["unanswered"]
    masked &= (dead["empty but judged"], dead["taught"]) == (0, 0)
    masked &= args.quick or (dead["stopped"], dead["steps after"]) == (True, trial.steps)
    several = found["league"]["rivals"] > 1 and (args.quick or found["endpoint"]["asked twice"] == 0)
    verdict(
        "frozen, past and endpoint rivals train; bouts name their rival; a dead endpoint is infra and teaches nobody",
        {name: one["bouts"] - one["other rivals"] for name, one in found.items()},
        {name: one["bouts"] for name, one in found.items()},
        holds and masked and several,
        endpoint="a script" if args.quick else "vllm serve",
        found=found,
        unanswered=dead,
    )


if __name__ == "__main__":
    main()
