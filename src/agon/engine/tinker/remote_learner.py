"""The learner on a Tinker service: two adapters over one base, moved by the service's importance-sampling loss.

Gradients of both policies are computed before either moves; between the two, the learner's
log-probs of the rows are compared with the sampler's, so that nothing is learnt from samples of different weights.
"""

from __future__ import annotations

import json
import math
import random
import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agon.config import Model, Train
from agon.engine.learner.constants import learning_rate
from agon.engine.synthetic import random_tokens
from agon.engine.tinker.archive import same_weights, write_adapter
from agon.engine.tinker.client import AdamStep, AdapterClient, TinkerClient, WeightedRow
from agon.engine.tinker.saved import SavedWeights
from agon.engine.tinker.token_weights import Averaging, PassMetrics, PolicyRows, rows_by_policy
from agon.errors import CheckpointError, EngineError
from agon.protocols import Gap, Tokens, Update, accept_all, nothing_stops
from agon.types import Policy, Stream, seed_for

STATE_FOLDER, STEP = "trainer_state", "step.json"
FAR = 0.3
"""Nats per token, on average, beyond which sampler and learner hold different weights: rounding to bfloat16 gives
hundredths."""
FAINT = 1e-6
"""Scale of the gradient that makes B's noise: Adam's step has the same size for any, and forgets a faint one soon."""
NOISE_ROWS, NOISE_TOKENS = 4, 24


class TinkerLearner:
    """Implements `agon.protocols.Learner`. One process: the service is what is parallel."""

    def __init__(
        self,
        client: TinkerClient,
        base: str,
        model: Model,
        train: Train,
        averaging: Averaging,
        *,
        total_steps: int,
        vocabulary: int,
    ) -> None:
        self.step, self.consistent, self.total_steps = 0, True, total_steps
        self._client, self._base, self._model, self._train = client, base, model, train
        self._averaging, self._vocabulary = averaging, vocabulary
        self._adapters: dict[Policy, AdapterClient] = {}
        self._saved: dict[Policy, SavedWeights] = {}
        self._copies = 0

    @property
    def adapters(self) -> Mapping[Policy, AdapterClient]:
        """Both adapters on the service, made when they are first needed: a resumed run loads them instead."""
        if not self._adapters:
            seeds = {policy: seed_for(self._train.seed, "lora", policy) for policy in Policy}
            made = {policy: self._client.create(self._base, self._model.lora.rank, seeds[policy]) for policy in Policy}
            add_noise(made[Policy.B], self._model.init.b_noise_std, self._vocabulary, self._train.seed)
            check_different(made, self._vocabulary)
            self._adapters = made
        return self._adapters

    def update(
        self,
        streams: Sequence[Stream],
        check: Callable[[], None] = nothing_stops,
        accept: Callable[[Sequence[Gap]], None] = accept_all,
    ) -> Update:
        """One optimizer step for both policies."""
        batches = rows_by_policy(streams, self._train, self._averaging)
        metrics = {policy: self._accumulate(policy, batch) for policy, batch in batches.items()}
        accept([gap for policy in metrics if (gap := _gap(policy, metrics[policy]))])
        check()
        self._move(batches, metrics)
        return Update(self.step - 1, metrics)

    def _accumulate(self, policy: Policy, batch: PolicyRows) -> dict[str, float]:
        """The gradient of one policy's rows, and what the pass measured."""
        counts = {"rows": len(batch.rows) + batch.masked, "masked_rows": batch.masked, "tokens": batch.tokens}
        metrics = {name: float(count) for name, count in counts.items()} | {"updated": float(bool(batch.rows))}
        if not batch.rows:
            return metrics
        passed = PassMetrics.of(batch, self.adapters[policy].accumulate(batch.rows)).values()
        if not passed["logp_diff_mean"] < FAR:
            raise EngineError(
                f"policy {policy.value.upper()} was drawn from other weights than it learns with: log-probs differ by "
                f"{passed['logp_diff_mean']:.3g} nats per token at step {self.step}",
                fix="nothing was learnt from this step; resume with: agon train RUN --resume",
            )
        return {**metrics, **passed}

    def _move(self, batches: Mapping[Policy, PolicyRows], metrics: Mapping[Policy, dict[str, float]]) -> None:
        """One optimizer step for every policy with a live row; the others keep weights and Adam state."""
        self.consistent = False
        step = AdamStep(learning_rate(self._train, self.step, self.total_steps), self._train.clip_norm)
        for policy, batch in batches.items():
            metrics[policy]["learning_rate"] = step.learning_rate
            if batch.rows:
                self._saved.pop(policy, None)
                if (norm := self.adapters[policy].step(step)) is not None:
                    metrics[policy]["grad_norm"] = norm
        self.step, self.consistent = self.step + 1, True

    def hash(self, policy: Policy) -> str:
        """The name of the saved copy of the policy's weights, as a hash; the weights themselves stay on the service."""
        return self._copy(policy).digest

    def export(self, policy: Policy, folder: Path) -> str:
        """Write where the weights are, for the sampler; of first versions also the state that they are pinned from."""
        saved = self._copy(policy)
        if self.step == 0 and saved.state is None:
            saved = saved.model_copy(update={"state": self.adapters[policy].save_state(self._name(policy))})
            self._saved[policy] = saved
        saved.write(folder)
        return saved.digest

    def save(self, folder: Path) -> None:
        """Download both adapters as PEFT directories; `trainer_state/` names the states that the service keeps."""
        for policy in Policy:
            saved = self._copy(policy)
            state = saved.state or self.adapters[policy].save_state(self._name(policy))
            self._saved[policy] = saved = saved.model_copy(update={"state": state})
            write_adapter(self._client.archive(saved.sampler), folder / policy.value, self._model.name)
            saved.write(folder / STATE_FOLDER / policy.value)
        (folder / STATE_FOLDER / STEP).write_text(json.dumps({"step": self.step}) + "\n")

    def load(self, folder: Path) -> None:
        """Restore what `save` named, optimizer included, if the service still keeps it.

        A service that hands out other weights than it was asked to restore is refused: it would start a new run.
        """
        found = {policy: SavedWeights.read(folder / STATE_FOLDER / policy.value) for policy in Policy}
        try:
            step = int(json.loads((folder / STATE_FOLDER / STEP).read_bytes())["step"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            fix = "resume from an earlier checkpoint"
            raise CheckpointError(f"{folder / STATE_FOLDER / STEP}: {error!r}", fix=fix) from error
        self._adapters = {policy: self._client.restore(str(saved.state)) for policy, saved in found.items()}
        self._saved, self.step = {}, step
        for policy, saved in found.items():
            fresh = self._copy(policy)
            if not same_weights(self._client.archive(fresh.sampler), folder / policy.value):
                raise CheckpointError(
                    f"the service restored {saved.state} as an adapter with other weights than {folder} holds",
                    fix="restore the service's storage, or start a new run under a different --name",
                )
            self._saved[policy] = fresh.model_copy(update={"digest": saved.digest, "state": saved.state})

    def score(self, policy: Policy | None, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under a policy's weights; a service does not score the base here."""
        if policy is None:
            raise EngineError("a Tinker service does not score the bare base", fix="train with sampler.engine=vllm")
        return self.adapters[policy].score(rows)

    def rehearse(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Nothing to rehearse: the memory is the service's."""

    def memory(self) -> Mapping[str, int]:
        """Peak bytes of this process; what the service uses is not known."""
        return {"process_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def _copy(self, policy: Policy) -> SavedWeights:
        """The saved copy of the policy's weights as they are now."""
        if policy not in self._saved:
            self._saved[policy] = SavedWeights.of(self.adapters[policy].save_for_sampler(self._name(policy)))
        return self._saved[policy]

    def _name(self, policy: Policy) -> str:
        """A name that this adapter has not used."""
        self._copies += 1
        return f"{policy.value}-{self.step:06d}-{self._copies}"


def _gap(policy: Policy, metrics: Mapping[str, float]) -> Gap | None:
    """How far the service's learner is from its sampler."""
    mean = metrics.get("logp_diff_mean")
    return None if mean is None else Gap(policy, "the service", mean, int(metrics["tokens"]))


def add_noise(adapter: AdapterClient, size: float, vocabulary: int, seed: int) -> None:
    """Move every weight of lora_B by `size` in a direction that random tokens choose: Adam's first step is its rate."""
    rng = random.Random(seed_for(seed, "noise"))
    rows = [random_tokens(rng, vocabulary, 8, NOISE_TOKENS) for _ in range(NOISE_ROWS)]
    even = (-math.log(vocabulary),) * NOISE_TOKENS
    weighted = [
        WeightedRow(
            Tokens(row.prompt_ids, row.completion_ids, even),
            tuple(FAINT * rng.choice((-1.0, 1.0)) for _ in row.completion_ids),
        )
        for row in rows
    ]
    adapter.accumulate(weighted)
    adapter.step(AdamStep(size, eps=1e-20))


def check_different(adapters: Mapping[Policy, AdapterClient], vocabulary: int) -> None:
    """Refuse adapters that are one: servers start all of them from the same weights."""
    rng = random.Random(0)
    rows = [random_tokens(rng, vocabulary, 8, NOISE_TOKENS) for _ in range(NOISE_ROWS)]
    scores = [adapters[policy].score(rows) for policy in Policy]
    if scores[0] == scores[1]:
        raise EngineError(
            "A and B are the same adapter on this service: no token's log-prob differs",
            fix="raise model.init.b_noise_std, or train with sampler.engine=vllm",
        )
