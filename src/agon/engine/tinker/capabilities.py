"""What a Tinker service can do, measured on a throw-away adapter when a run connects. Nothing is taken on trust.

Services that answer the same calls compute different things: one adds up the losses of tokens and rows, one averages
them; one clips gradients, one ignores the request to. With an epsilon far above every gradient, and a learning rate as
large, Adam's step is the gradient itself, so the difference between two downloads of the weights shows it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from agon.config import Config
from agon.engine.protocol import Draw
from agon.engine.tinker.archive import alpha_of, tensors_of
from agon.engine.tinker.client import AdamStep, AdapterClient, TinkerClient, WeightedRow
from agon.engine.tinker.token_weights import Averaging
from agon.errors import ConfigError, EngineError
from agon.protocols import Tokens
from agon.types import BASE, Sampling

PLAIN = AdamStep(learning_rate=1.0, beta1=0.0, beta2=0.0, eps=1e6)
"""A millionth of the gradient: four of them leave the gradient as it was, and lora_B, which is 0, shows each."""
OTHER = "train with sampler.engine=vllm, or on a different Tinker service"
TOLERANCE = 0.25
"""How far a measured ratio may be from what it is taken for."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What was found out about a service."""

    averaging: Averaging
    clips: bool
    seeds: bool
    prompt_logprobs: bool
    alpha: float
    shares: bool
    """Layers that read the same input (q, k and v; gate and up) have one lora_A together."""


def probe(client: TinkerClient, base: str, rank: int, vocabulary: int, seed: int) -> Capabilities:
    """Measure what the service does."""
    rng = random.Random(seed)
    ids = [rng.randrange(vocabulary) for _ in range(24)]
    even = (-math.log(vocabulary),)
    gradient = _Gradient(client, client.create(base, rank, seed))
    row = Tokens(tuple(ids[:4]), tuple(ids[4:8]), even * 4)
    longer = Tokens(tuple(ids[:4]), tuple(ids[4:]), even * 20)
    one = WeightedRow(row, (1.0, -1.0, 1.0, -1.0))
    alone = gradient.of([one])
    twice = gradient.of([one, one]) / alone
    padded = gradient.of([WeightedRow(longer, (*one.weights, *[0.0] * 16))]) / alone
    clipped = gradient.of([one], clip_norm=alone / 4) / alone
    averaging = Averaging(
        over_positions=_which("a row with more tokens", padded, {False: 1.0, True: (row.size - 1) / (longer.size - 1)}),
        over_rows=_which("a row twice", twice, {False: 2.0, True: 1.0}),
    )
    clips = _which("a gradient to clip", clipped, {False: 1.0, True: 0.25})
    return Capabilities(averaging, clips, *_sampling(client, base, row), alpha=gradient.alpha, shares=gradient.shares)


class _Gradient:
    """Norms of gradients of a throw-away adapter, from the weights before and after a plain step."""

    def __init__(self, client: TinkerClient, adapter: AdapterClient) -> None:
        self._client, self._adapter, self._saved = client, adapter, 0
        archive = self._archive()
        self.alpha, self._weights = alpha_of(archive), tensors_of(archive)
        first = [tensor.tobytes() for name, tensor in self._weights.items() if ".lora_A." in name]
        self.shares = len(set(first)) < len(first)

    def of(self, rows: list[WeightedRow], clip_norm: float | None = None) -> float:
        self._adapter.accumulate(rows)
        rate = PLAIN.learning_rate / PLAIN.eps
        self._adapter.step(AdamStep(PLAIN.learning_rate, clip_norm, PLAIN.beta1, PLAIN.beta2, PLAIN.eps))
        before, self._weights = self._weights, tensors_of(self._archive())
        moved = math.sqrt(sum(float(((self._weights[n] - before[n]) ** 2).sum()) for n in before)) / rate
        if not (math.isfinite(moved) and moved > 0):
            raise EngineError("a step of the service does not move the weights that it hands out", fix=OTHER)
        return moved

    def _archive(self) -> bytes:
        self._saved += 1
        return self._client.archive(self._adapter.save_for_sampler(f"probe-{self._saved}"))


def _which(what: str, ratio: float, meanings: dict[bool, float]) -> bool:
    """Which of the meanings a measured ratio has."""
    for meaning, expected in meanings.items():
        if abs(ratio - expected) <= TOLERANCE * expected:
            return meaning
    values = " or ".join(f"{value:.3g}" for value in meanings.values())
    raise EngineError(f"{what} changes the service's gradient by a factor of {ratio:.3g}, not {values}", fix=OTHER)


def _sampling(client: TinkerClient, base: str, row: Tokens) -> tuple[bool, bool]:
    """Whether seeds fix what is drawn, and whether prompts are scored."""
    sampler = client.base_sampler(base)
    drawn = [sampler.draw_now(_draw(row, seed), frozenset()).ids for seed in (1, 1, 2, 3)]
    try:
        known = [value for value in sampler.prompt_logprobs(row.prompt_ids) if value is not None]
        scored = bool(known) and all(map(math.isfinite, known))
    except EngineError:
        scored = False
    return drawn[0] == drawn[1] and len(set(drawn)) > 1, scored


def _draw(row: Tokens, seed: int) -> Draw:
    return Draw(row.prompt_ids, BASE, seed, Sampling(temperature=1.0, top_p=1.0, max_tokens=8))


def refuse(config: Config) -> None:
    """Refuse what no Tinker service can do, before anything is connected to."""
    train, model = config.train, config.model
    broken = {
        "train.beta=0": train.beta > 0,
        "train.temperature=1": train.temperature != 1,
        "train.importance=token_truncate": train.importance == "none",
        "model.lora.targets=all-linear": model.lora.targets != "all-linear",
        "model.lora.layers=null": model.lora.layers is not None,
        "model.init.a=zero": model.init.a != "zero",
        "model.init.b=noise": model.init.b != "noise",
    }
    reasons = {
        "train.beta=0": "no KL term: a service holds no reference",
        "train.temperature=1": "log-probs are those of temperature 1, whatever was drawn",
        "train.importance=token_truncate": "the loss always corrects",
        "model.lora.targets=all-linear": "the service chooses the layers",
        "model.lora.layers=null": "the service chooses the layers",
        "model.init.a=zero": "weights cannot be uploaded",
        "model.init.b=noise": "weights cannot be uploaded",
    }
    if faults := [f"{key.partition('=')[0]}: {reasons[key]}" for key, found in broken.items() if found]:
        needed = " ".join(key for key, found in broken.items() if found)
        raise ConfigError("sampler.engine tinker cannot do what this config asks for:", f"write {needed}", faults)


def check_alpha(config: Config, capabilities: Capabilities) -> None:
    """Refuse an alpha that the service does not have."""
    theirs, ours = capabilities.alpha, config.model.lora.alpha
    if theirs != ours:
        raise ConfigError(
            f"the service scales adapters by alpha {theirs:g}, and model.lora.alpha is {ours}",
            fix=f"write model.lora.alpha={theirs:g}",
        )


def lost(config: Config, capabilities: Capabilities) -> list[str]:
    """What a run on this service does without, compared with the TRL learner; one sentence each."""
    sentences = [
        "tinker: importance ratios are not truncated; no entropy metric",
        "tinker: B's noise is one Adam step of b_noise_std on random tokens (plus or minus that size, not Gaussian)",
        "tinker: a version's digest names the saved copy, not its bytes; the canary does not run",
        "tinker: memory is the service's: nothing is rehearsed, and train.tokens_per_pass is not used",
    ]
    if config.train.clip_norm is not None and not capabilities.clips:
        sentences.append("tinker: this server ignores gradient clipping; train.clip_norm is not applied")
    if capabilities.shares:
        sentences.append("tinker: on this server q, k and v share one lora_A, and so do gate and up: a smaller adapter")
    if not capabilities.seeds:
        sentences.append("tinker: this server's draws do not follow their seeds: a resumed run plays different bouts")
    if not capabilities.prompt_logprobs:
        sentences.append("tinker: this server does not score prompts")
    return sentences
