"""A fake of the part of the Tinker SDK that `engine/tinker/client.py` calls, over a tiny bigram model in NumPy.

CI has no Tinker server, and the SDK is not installed there. `evidence/tinker_contract.py` runs the same engine with the
real SDK on a real server; what is faked here is what that server was seen to do, and what the hosted service documents.
"""

from __future__ import annotations

import copy
import io
import json
import tarfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlparse

import numpy as np
from safetensors.numpy import save

NAME = "base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight"
WIDTH = 8
BASE = "fake/base"


@dataclass
class Behaviour:
    """How a service behaves where services differ."""

    over_positions: bool = False
    over_rows: bool = False
    clips: bool = True
    seeds: bool = True
    alpha: float = 32.0
    one_slot: bool = False
    """Sampling loads weights into the adapter that trains, as SkyRL's JAX backend does."""
    hands_out_weights: bool = True
    shares: bool = False
    noise_works: bool = True


@dataclass
class Slot:
    """One adapter with its optimizer and accumulated gradient."""

    a: np.ndarray
    b: np.ndarray
    moments: list[np.ndarray] = field(default_factory=list)
    count: int = 0
    gradient: list[np.ndarray] = field(default_factory=list)
    rows: int = 0
    loaded: str | None = None


class FakeService:
    """Everything on the far side of the SDK."""

    def __init__(self, folder: Path, vocabulary: int, behaviour: Behaviour) -> None:
        rng = np.random.default_rng(0)
        self.folder, self.behaviour, self.vocabulary = folder, behaviour, vocabulary
        self.embedding = rng.normal(size=(vocabulary, WIDTH))
        self.head = rng.normal(size=(WIDTH, vocabulary)) * 0.5
        self.slots: dict[str, Slot] = {}
        self.files: dict[str, Slot] = {}
        self.calls: list[str] = []
        self.base = BASE
        self.fails_at: int | None = None
        """The call that fails, counted over gradients and steps."""
        self.draws = 0
        self.lock = threading.Lock()

    def logps(self, slot: Slot | None, before: list[int]) -> np.ndarray:
        hidden = self.embedding[before]
        logits = hidden @ self.head
        if slot is not None:
            scale = self.behaviour.alpha / len(slot.a)
            logits = logits + scale * hidden @ slot.a.T @ slot.b.T
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def backward(self, slot: Slot, datum: Any) -> list[float]:
        ids, inputs = datum.model_input.ids, datum.loss_fn_inputs
        targets, advantages = inputs["target_tokens"], np.array(inputs["advantages"])
        logps = self.logps(slot, ids)
        own = logps[np.arange(len(ids)), targets]
        weight = np.exp(own - np.array(inputs["logprobs"])) * advantages
        if self.behaviour.over_positions:
            weight = weight / len(ids)
        slope = np.exp(logps) * weight[:, None]
        slope[np.arange(len(ids)), targets] -= weight
        hidden, scale = self.embedding[ids], self.behaviour.alpha / len(slot.a)
        gradient = [scale * (slope @ slot.b).T @ hidden, scale * slope.T @ (hidden @ slot.a.T)]
        slot.gradient = [old + new for old, new in zip(slot.gradient or [0.0, 0.0], gradient, strict=True)]
        slot.rows += 1
        return own.tolist()

    def step(self, slot: Slot, adam: Any) -> float:
        gradient = [g / slot.rows if self.behaviour.over_rows else g for g in slot.gradient]
        norm = float(np.sqrt(sum((g**2).sum() for g in gradient)))
        if self.behaviour.clips and 0 < adam.grad_clip_norm < norm:
            gradient = [g * adam.grad_clip_norm / norm for g in gradient]
        moments = slot.moments or [np.zeros_like(g) for g in gradient for _ in range(2)]
        slot.count += 1
        for i, (name, g) in enumerate(zip("ab", gradient, strict=True)):
            first = moments[2 * i] = adam.beta1 * moments[2 * i] + (1 - adam.beta1) * g
            second = moments[2 * i + 1] = adam.beta2 * moments[2 * i + 1] + (1 - adam.beta2) * g * g
            hats = first / (1 - adam.beta1**slot.count), second / (1 - adam.beta2**slot.count)
            step = adam.learning_rate * hats[0] / (np.sqrt(hats[1]) + adam.eps)
            if self.behaviour.noise_works or adam.eps > 1e-15:
                setattr(slot, name, getattr(slot, name) - step)
        slot.moments, slot.gradient, slot.rows = moments, [], 0
        return norm

    def to_draw_from(self, path: str) -> Slot:
        run = urlparse(path).netloc
        if not self.behaviour.one_slot:
            return self.files[path]
        slot = self.slots[run]
        if slot.loaded != path:
            slot.a, slot.b, slot.loaded = self.files[path].a.copy(), self.files[path].b.copy(), path
        return slot

    def archive(self, path: str) -> str:
        if not self.behaviour.hands_out_weights:
            raise RuntimeError("404 Not Found")
        slot = self.files[path]
        tensors = {NAME.format("A"): slot.a.astype("f4"), NAME.format("B"): slot.b.astype("f4")}
        if self.behaviour.shares:
            tensors[NAME.format("A").replace("up_proj", "gate_proj")] = tensors[NAME.format("A")]
        settings = json.dumps({"r": len(slot.a), "lora_alpha": self.behaviour.alpha, "target_modules": None}).encode()
        file = self.folder / f"{len(list(self.folder.iterdir()))}.tar.gz"
        with tarfile.open(file, "w:gz") as tar:
            for name, data in (("adapter_model.safetensors", save(tensors)), ("adapter_config.json", settings)):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return file.as_uri().replace("file://", "http://files")


def done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class FakeTrainingClient:
    def __init__(self, service: FakeService, run: str) -> None:
        self.service, self.run = service, run

    @property
    def slot(self) -> Slot:
        return self.service.slots[self.run]

    def forward_backward(self, data: list[Any], loss_fn: str) -> Future[Any]:
        assert loss_fn == "importance_sampling"
        self.service.calls.append(f"backward {self.run}")
        if len(self.service.calls) == self.service.fails_at:
            raise RuntimeError("503 Service Unavailable")
        rows = [self.service.backward(self.slot, datum) for datum in data]
        return done(SimpleNamespace(loss_fn_outputs=[{"logprobs": np.array(row)} for row in rows]))

    def forward(self, data: list[Any], loss_fn: str) -> Future[Any]:
        assert loss_fn == "cross_entropy"
        rows = []
        for datum in data:
            ids, targets = datum.model_input.ids, datum.loss_fn_inputs["target_tokens"]
            rows.append({"logprobs": self.service.logps(self.slot, ids)[np.arange(len(ids)), targets]})
        return done(SimpleNamespace(loss_fn_outputs=rows))

    def optim_step(self, params: Any) -> Future[Any]:
        self.service.calls.append(f"step {self.run}")
        return done(SimpleNamespace(metrics={"skyrl.ai/grad_norm": self.service.step(self.slot, params)}))

    def save_state(self, name: str) -> Future[Any]:
        return self._save(f"tinker://{self.run}/weights/{name}")

    def save_weights_for_sampler(self, name: str) -> Future[Any]:
        return self._save(f"tinker://{self.run}/sampler_weights/{name}")

    def _save(self, path: str) -> Future[Any]:
        assert path not in self.service.files, f"{path} was saved before"
        self.service.files[path] = copy.deepcopy(self.slot)
        return done(SimpleNamespace(path=path))


class FakeSamplingClient:
    def __init__(self, service: FakeService, path: str | None) -> None:
        self.service, self.path = service, path

    def sample(self, prompt: Any, num_samples: int, sampling_params: Any) -> Future[Any]:
        with self.service.lock:
            slot = self.service.to_draw_from(self.path) if self.path else None
            self.service.draws += 1
            seed = sampling_params.seed if self.service.behaviour.seeds else self.service.draws
            rng, last = np.random.default_rng(seed), prompt.ids[-1]
            tokens, logprobs = [], []
            while len(tokens) < sampling_params.max_tokens and last not in [*sampling_params.stop, None][: len(tokens)]:
                logps = self.service.logps(slot, [last])[0]
                last = int(rng.choice(self.service.vocabulary, p=np.exp(logps) / np.exp(logps).sum()))
                tokens.append(last)
                logprobs.append(float(logps[last]))
        ended = "stop" if tokens[-1] in sampling_params.stop else "length"
        return done(SimpleNamespace(sequences=[SimpleNamespace(tokens=tokens, logprobs=logprobs, stop_reason=ended)]))

    def compute_logprobs(self, prompt: Any) -> Future[Any]:
        ids = prompt.ids
        return done([None, *self.service.logps(None, ids[:-1])[np.arange(len(ids) - 1), ids[1:]].tolist()])


class FakeServiceClient:
    def __init__(self, service: FakeService, **options: Any) -> None:
        self.service, self.options = service, options

    def get_server_capabilities(self) -> Any:
        return SimpleNamespace(supported_models=[SimpleNamespace(model_name=self.service.base)])

    def create_lora_training_client(self, base: str, rank: int, seed: int, train_unembed: bool) -> FakeTrainingClient:
        assert base == self.service.base
        assert not train_unembed
        run = f"run{len(self.service.slots)}"
        a = np.random.default_rng(seed).normal(size=(rank, WIDTH)) / WIDTH
        self.service.slots[run] = Slot(a, np.zeros((self.service.vocabulary, rank)))
        return FakeTrainingClient(self.service, run)

    def create_training_client_from_state_with_optimizer(self, path: str) -> FakeTrainingClient:
        run = f"run{len(self.service.slots)}"
        self.service.slots[run] = copy.deepcopy(self.service.files[path])
        self.service.slots[run].loaded = None
        return FakeTrainingClient(self.service, run)

    def create_sampling_client(self, model_path: str | None = None, base_model: str | None = None) -> Any:
        return FakeSamplingClient(self.service, model_path)

    def create_rest_client(self) -> Any:
        def url(run: str, checkpoint: str) -> Future[Any]:
            return done(SimpleNamespace(url=self.service.archive(f"tinker://{run}/{checkpoint}")))

        return SimpleNamespace(get_checkpoint_archive_url=url)


class _Ids(SimpleNamespace):
    @classmethod
    def from_ints(cls, ids: list[int]) -> _Ids:
        return cls(ids=ids)


def fake_sdk(service: FakeService, clients: list[FakeServiceClient]) -> Any:
    """What `import tinker` gives; every client that is made is added to `clients`."""

    def connect(**options: Any) -> FakeServiceClient:
        clients.append(FakeServiceClient(service, **options))
        return clients[-1]

    types = SimpleNamespace(
        Datum=SimpleNamespace, AdamParams=SimpleNamespace, SamplingParams=SimpleNamespace, ModelInput=_Ids
    )
    return SimpleNamespace(ServiceClient=connect, types=types, __version__="fake")
