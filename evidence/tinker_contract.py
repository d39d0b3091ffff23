"""The Tinker engine on a real server: the contract of sampler and learner, the first gradient against TRL's, a run.

The server is SkyRL 0.3.0 on the CPU over a float32 copy of `agon:tiny`, reached through the official SDK;
`_tinker_server.py` says what it needs. The gradient is read off the weights: with an epsilon of 1e6, and a learning
rate as large, the service's Adam step is the gradient itself, before Adam; TRL's is the difference that plain SGD
makes. Both learners start from the same adapters, which are downloaded from the service, and learn from the same
rollouts, which the service drew. Where the server shares one lora_A between layers, its gradient is compared with the
sum of TRL's. The run is stopped by SIGTERM in its middle and resumed.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}

import numpy as np

from _lib import ROOT, arguments, verdict
from _tinker_server import tinker_server
from agon.config import Config, load_config
from agon.data import splits
from agon.engine.base import context_of
from agon.engine.learner.learner import PairLearner
from agon.engine.shipped import folder_of
from agon.engine.synthetic import rollout, stream
from agon.engine.tinker.archive import tensors_of, write_adapter
from agon.engine.tinker.client import AdamStep, TinkerClient
from agon.engine.tinker.door import Tinker
from agon.engine.tinker.saved import SavedWeights
from agon.engine.tinker.token_weights import rows_by_policy
from agon.game.prompts import draft_prompt
from agon.types import BASE, Policy, Request, Rollout, Sampling, Stream, Version

EXTRA_SOURCES = ("src/agon/cli", "src/agon/training", "src/agon/engine/tinker")
GOAL = 0.99
GAP = 1e-3
"""Nats between sampler and learner in float32."""
TIMES = 100
"""How much farther B's noise must take it from A than rounding takes a sampler from its learner."""
STEPS, STOP_AFTER, ROWS = 10, 4, 6
PLAIN = AdamStep(1e6, None, 0.0, 0.0, 1e6)
Gradient = dict[str, np.ndarray]


def write_base(folder: Path) -> Path:
    """A float32 copy of the tiny base: the server takes its precision from config.json."""
    shutil.copytree(folder_of("agon:tiny"), folder)
    settings = json.loads((folder / "config.json").read_text()) | {"dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def write_config(path: Path, base: str, url: str) -> Path:
    source = {"preset": "tabletop", "options": {"family": "chain", "difficulty": 5}}
    settings: dict[str, Any] = {
        "schema": 1,
        "arm": "agon",
        "model": {"name": base, "dtype": "float32", "lora": {"rank": 8, "alpha": 32}},
        "data": {name: source | {"take": take} for name, take in (("train", 40), ("dev", 4), ("held_out", 4))},
        "verifier": "math",
        "game": {"group_size": 4},
        "train": {"problems_per_step": 2, "max_steps": STEPS, "warmup": 0.0, "learning_rate": 1e-3, "clip_norm": None},
        "sampler": {"engine": "tinker", "urls": [url]},
        "eval": {"points": 1, "temperature": 1.0, "top_p": 1.0, "max_completion_tokens": 96},
        "save": {"every": 2},
    }
    settings["train"] |= {"max_completion_tokens": 96, "max_peek_tokens": 64}
    path.write_text(json.dumps(settings))  # which is YAML, without aliases
    return path


class Contract:
    """Sampler and learner of one session, and what was found to hold of them."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.folder = config, folder
        self.backend = Tinker(config)
        self.remote_learner = self.backend.learner(STEPS)
        self.remote_sampler = self.backend.sampler(context_of(config))
        self.client = TinkerClient(next(iter(config.sampler.urls), None))
        self.problems = splits(config.data).train
        self.held: dict[str, bool] = {}
        self.gaps: list[float] = []
        self.noise = 0.0
        """The largest difference between the log-probs of B and A, in nats."""

    def publish(self) -> dict[Policy, Version]:
        learner, sampler = self.remote_learner, self.remote_sampler
        versions = {policy: Version.of(policy, learner.step, learner.hash(policy)[:8]) for policy in Policy}
        for policy, version in versions.items():
            learner.export(policy, self.folder / version)
            sampler.publish(version, self.folder / version)
        return versions

    def draw(self, seat: Policy | Version, count: int = 1, seed: int = 0) -> list[Rollout]:
        """Drafts of one policy or version, drawn together; advantages alternate."""
        policy = seat if isinstance(seat, Policy) else seat.policy
        sampling = Sampling(1.0, 1.0, 96)
        prompts = [draft_prompt(self.problems[index]) for index in range(count)]

        async def together() -> list[Any]:
            requests = [Request(prompt, seat, seed + i, sampling) for i, prompt in enumerate(prompts)]
            return await asyncio.gather(*map(self.remote_sampler.sample, requests))

        drawn = asyncio.run(together())
        rows = [rollout(policy or Policy.A, i, c.tokens, (-1.0) ** i * (1 + i / 4)) for i, c in enumerate(drawn)]
        return [replace(row, completion=completion) for row, completion in zip(rows, drawn, strict=True)]

    def gap(self, policy: Policy, rows: Sequence[Rollout]) -> float:
        """The largest difference between the sampler's log-probs and the learner's."""
        scores = self.remote_learner.score(policy, [row.completion.tokens for row in rows])
        pairs = [
            zip(score, row.completion.tokens.logprobs, strict=True) for score, row in zip(scores, rows, strict=True)
        ]
        return max(abs(now - then) for pair in pairs for now, then in pair)

    def sampler(self) -> dict[Policy, list[Rollout]]:
        """Versions, log-probs and seeds."""
        versions = self.publish()
        rows = {policy: self.draw(policy, ROWS) for policy in Policy}
        bare = self.draw(BASE, ROWS)
        self.held["versions are named"] = all(
            row.completion.version == versions[policy] for policy in Policy for row in rows[policy]
        )
        logprobs = [value for batch in rows.values() for row in batch for value in row.completion.tokens.logprobs]
        self.held["log-probs are finite"] = all(map(math.isfinite, logprobs))
        self.gaps = [self.gap(policy, rows[policy]) for policy in Policy]
        self.held["sampler and learner agree"] = max(self.gaps) < GAP
        self.held["A is the base"] = self.gap(Policy.A, bare) < GAP
        self.noise = self.gap(Policy.A, rows[Policy.B])
        self.held["B is not A"] = self.noise > TIMES * max(self.gaps)
        again = self.draw(Policy.A, ROWS), self.draw(Policy.A, ROWS, seed=99)
        ids = [[row.completion.tokens.completion_ids for row in batch] for batch in (rows[Policy.A], *again)]
        self.held["seeds fix a draw"] = ids[0] == ids[1] != ids[2]
        return rows

    def learner(self, rows: Mapping[Policy, Sequence[Rollout]]) -> None:
        """An update moves one policy, and is sampled from after publication; pinned versions do not disturb it."""
        learner, sampler = self.remote_learner, self.remote_sampler
        first = {policy: Version.of(policy, 0, learner.hash(policy)[:8]) for policy in Policy}
        for version in first.values():
            sampler.pin(version, self.folder / version)
        tokens = [row.completion.tokens for row in rows[Policy.B]]
        before = {policy: learner.score(policy, tokens) for policy in Policy}
        dead = [replace(row, advantage=None) for row in rows[Policy.A]]
        learner.update([stream(Policy.A, [dead]), stream(Policy.B, [rows[Policy.B]])])
        after = {policy: learner.score(policy, tokens) for policy in Policy}
        self.held["an update moves its policy"] = after[Policy.B] != before[Policy.B]
        self.held["a dead stream moves nothing"] = after[Policy.A] == before[Policy.A]
        version = Version.of(Policy.B, 1, learner.hash(Policy.B)[:8])
        learner.export(Policy.B, self.folder / version)
        sampler.publish(version, self.folder / version)
        fresh = self.draw(Policy.B, 2, seed=7)
        self.held["publication shows new weights"] = self.gap(Policy.B, fresh) < GAP
        self.draw(first[Policy.B], 2)
        self.held["a pinned version leaves training alone"] = learner.score(Policy.B, tokens) == after[Policy.B]

    def cosines(self, rows: Mapping[Policy, Sequence[Rollout]]) -> dict[str, float]:
        """First gradients of both learners on the same rows, from the same adapters."""
        folders = {policy: self.folder / "start" / policy.value for policy in Policy}
        streams = [stream(policy, [rows[policy]]) for policy in Policy]
        service: dict[Policy, Gradient] = {}
        shared: dict[Policy, list[list[str]]] = {}
        for policy, batch in rows_by_policy(streams, self.config.train, self.backend.capabilities.averaging).items():
            version = next(path for path in self.folder.iterdir() if path.name.startswith(f"{policy.value}@000000"))
            adapter = self.client.restore(str(SavedWeights.read(version).state))
            start = self.client.archive(adapter.save_for_sampler("start"))
            write_adapter(start, folders[policy], self.config.model.name)
            adapter.accumulate(batch.rows)
            adapter.step(PLAIN)
            moved = tensors_of(self.client.archive(adapter.save_for_sampler("moved")))
            service[policy] = {name: tensor - moved[name] for name, tensor in tensors_of(start).items()}
            shared[policy] = groups(tensors_of(start))
        trl = trl_gradients(self.config, folders, streams, self.folder / "trl")
        for policy in Policy:
            service[policy] = {names[0]: service[policy][names[0]] for names in shared[policy]}
            trl[policy] = {names[0]: sum(trl[policy][name] for name in names) for names in shared[policy]}
        return {policy.value: cosine(service[policy], trl[policy]) for policy in Policy} | {
            f"{policy.value} norm ratio": norm(service[policy]) / norm(trl[policy]) for policy in Policy
        }


def groups(start: Gradient) -> list[list[str]]:
    """Names of tensors that are one on the service: layers with the same input share their lora_A, whose gradient is
    the sum of theirs."""
    found: dict[object, list[str]] = {}
    for name, tensor in start.items():
        found.setdefault(tensor.tobytes() if ".lora_A." in name else name, []).append(name)
    return list(found.values())


def trl_gradients(
    config: Config, folders: Mapping[Policy, Path], streams: Sequence[Stream], out: Path
) -> dict[Policy, Gradient]:
    """What one step of SGD at rate 1 takes from the adapters."""
    train = config.train.model_copy(update={"learning_rate": 1.0, "schedule": "constant"})
    learner = PairLearner(config.model, train, total_steps=1, optimizer="sgd")
    for policy, folder in folders.items():
        learner.pair.load(policy, folder)
        learner.export(policy, out / "before" / policy.value)
    learner.update(streams)
    gradients = {}
    for policy in Policy:
        learner.export(policy, out / "after" / policy.value)
        before, after = (weights(out / when / policy.value) for when in ("before", "after"))
        gradients[policy] = {name: before[name] - after[name] for name in before}
    return gradients


def weights(folder: Path) -> Gradient:
    from safetensors.numpy import load_file

    return load_file(folder / "adapter_model.safetensors")


def norm(gradient: Gradient) -> float:
    return math.sqrt(sum(float((tensor.astype("f8") ** 2).sum()) for tensor in gradient.values()))


def cosine(one: Gradient, two: Gradient) -> float:
    if one.keys() != two.keys():
        raise RuntimeError(f"the learners adapt different layers: {sorted(one.keys() ^ two.keys())[:4]}")
    return sum(float((one[name].astype("f8") * two[name]).sum()) for name in one) / (norm(one) * norm(two))


def run(config: Path, folder: Path) -> dict[str, Any]:
    """A run of ten steps through the command line, stopped in its middle and resumed."""
    name = [sys.executable, "-m", "agon", "train"]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
    command = [*name, str(config), "--name", "run", "--out", str(folder)]
    log = folder / "run" / "steps.jsonl"
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=sys.stderr) as process:
        while process.poll() is None and lines(log) < STOP_AFTER:
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
    stopped = lines(log)
    resumed = subprocess.run([*name, str(folder / "run"), "--resume"], cwd=folder, env=environment, stdout=sys.stderr)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    gaps = [update["logp_diff_max"] for r in records for update in r["update"].values() if "logp_diff_max" in update]
    return {
        "stopped with": process.returncode,
        "stopped after": stopped,
        "resumed with": resumed.returncode,
        "steps": [record["step"] for record in records],
        "largest gap": max(gaps, default=math.inf),
        "updates": len(gaps),
        "pair": (folder / "run" / "pair" / "a" / "adapter_model.safetensors").is_file(),
    }


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def main() -> None:
    quick = arguments(__doc__ or "").quick
    with tempfile.TemporaryDirectory(prefix="agon-tinker-") as scratch:
        folder = Path(scratch)
        with tinker_server(write_base(folder / "base"), folder) as url:
            base = TinkerClient(url).bases()[0]
            path = write_config(folder / "run.yaml", base, url)
            contract = Contract(load_config(path), folder / "published")
            found = contract.backend.capabilities
            print(found, flush=True)
            rows = contract.sampler()
            cosines = contract.cosines(rows)
            print(cosines, flush=True)
            contract.learner(rows)
            print(contract.held, flush=True)
            ran = {} if quick else run(path, folder)
            print(ran, flush=True)
    whole = quick or (
        (ran["stopped with"], ran["resumed with"], ran["steps"]) == (130, 0, list(range(STEPS)))
        and ran["largest gap"] < GAP
        and ran["pair"]
        and STOP_AFTER <= ran["stopped after"] < STEPS
    )
    least = min(cosines[policy.value] for policy in Policy)
    failed = [name for name, holds in contract.held.items() if not holds]
    verdict(
        "on a real SkyRL server: the engine contract, the first gradient of TRL's learner, ten steps with a resume",
        {
            "cosine": round(least, 6),
            "contract failed": failed,
            "steps": len(ran.get("steps", [])),
            "gap": max(contract.gaps),
            "B from A": contract.noise,
        },
        {
            "cosine": GOAL,
            "contract failed": [],
            "steps": 0 if quick else STEPS,
            "gap": GAP,
            "B from A": f"{TIMES} gaps",
        },
        least >= GOAL and not failed and bool(whole),
        contract=contract.held,
        gradients={name: round(value, 6) for name, value in cosines.items()},
        capabilities=str(found),
        run=ran,
    )


if __name__ == "__main__":
    main()
