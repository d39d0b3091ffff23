"""What Agon asks of a Tinker service, in token ids. The only file that imports the SDK.

`AdapterClient` is one LoRA adapter that the service holds and trains, `DrawClient` draws from saved weights. Every call
waits for its answer; what the SDK raises becomes an EngineError.
"""

from __future__ import annotations

import asyncio
import os
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from agon.engine.protocol import Draw, DrawResult, finish_of, then_resume
from agon.errors import AgonError, ConfigError, EngineError, install
from agon.protocols import Tokens

LOSS = "importance_sampling"
ANONYMOUS = "tml-none"
"""The key for a server of your own that asks for none: the SDK does not start without one."""
THEN_RESUME = then_resume("the server's log")
SEEDS = 1 << 31
"""Seeds of a service are below this."""
PATIENCE = 600.0
"""Seconds that the download of an archive may take."""


@dataclass(frozen=True, slots=True)
class WeightedRow:
    """A completion, and what multiplies the importance ratio of each of its tokens in the service's loss."""

    tokens: Tokens
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class AdamStep:
    """One step of the service's AdamW, without weight decay. `clip_norm` None turns clipping off."""

    learning_rate: float
    clip_norm: float | None = None
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8


class TinkerClient:
    """A session of the service. Keys come from the environment: TINKER_API_KEY for the hosted service alone, so that no
    URL in a config can ask for it; AGON_API_KEY for a server of your own."""

    def __init__(self, url: str | None) -> None:
        key = os.environ.get("AGON_API_KEY", ANONYMOUS) if url else os.environ.get("TINKER_API_KEY")
        if not key:
            raise ConfigError(
                "sampler.engine tinker without sampler.urls is the hosted service, and TINKER_API_KEY is not set",
                fix="export TINKER_API_KEY, or name a server of your own: sampler.urls=[http://127.0.0.1:8000]",
            )
        os.environ.setdefault("TINKER_TELEMETRY", "0")
        self._sdk = _sdk()
        place = {"base_url": url} if url else {}
        with _reported(f"connect to {url or 'the hosted service'}"):
            self._service = self._sdk.ServiceClient(api_key=key, default_headers={"X-API-Key": key}, **place)

    @property
    def sdk_version(self) -> str:
        return str(self._sdk.__version__)

    def bases(self) -> list[str]:
        """The bases that the service trains."""
        with _reported("list its bases"):
            return [str(model.model_name) for model in self._service.get_server_capabilities().supported_models]

    def create(self, base: str, rank: int, seed: int) -> AdapterClient:
        """A new adapter on every linear layer but the output head."""
        with _reported("create an adapter"):
            return AdapterClient(
                self._service.create_lora_training_client(base, rank, seed=seed % SEEDS, train_unembed=False), self._sdk
            )

    def restore(self, state: str) -> AdapterClient:
        """A new adapter with the weights and the optimizer of a saved state."""
        with _reported(
            f"restore {state}", fix=f"check that the service still keeps {state}: a run resumes only from it"
        ):
            return AdapterClient(self._service.create_training_client_from_state_with_optimizer(state), self._sdk)

    def sampler(self, path: str) -> DrawClient:
        """What draws from saved weights."""
        with _reported(f"sample from {path}"):
            return DrawClient(self._service.create_sampling_client(model_path=path), self._sdk)

    def base_sampler(self, base: str) -> DrawClient:
        """What draws from the bare base."""
        with _reported(f"sample from {base}"):
            return DrawClient(self._service.create_sampling_client(base_model=base), self._sdk)

    def archive(self, path: str) -> bytes:
        """Saved weights as a tar.gz with a PEFT directory."""
        run, _, checkpoint = path.removeprefix("tinker://").partition("/")
        with _reported(f"hand out the weights of {path}"):
            url = str(self._service.create_rest_client().get_checkpoint_archive_url(run, checkpoint).result().url)
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"{url} is not a web address")
            with urllib.request.urlopen(url, timeout=PATIENCE) as reply:
                return cast(bytes, reply.read())


class AdapterClient:
    """One adapter that the service trains."""

    def __init__(self, client: Any, sdk: Any) -> None:
        self._client, self._types = client, sdk.types

    def accumulate(self, rows: Sequence[WeightedRow]) -> list[list[float]]:
        """Add the gradient of the rows' loss to what waits for the next `step`; return the learner's log-probs."""
        data = [self._datum(row.tokens, row.weights) for row in rows]
        with _reported("compute gradients"):
            output = self._client.forward_backward(data, LOSS).result()
        return _logprobs(output, [row.tokens for row in rows])

    def score(self, rows: Sequence[Tokens]) -> list[list[float]]:
        """Log-probs of completions under the adapter as it is now."""
        data = [self._datum(row, None) for row in rows]
        with _reported("score completions"):
            output = self._client.forward(data, "cross_entropy").result()
        return _logprobs(output, rows)

    def step(self, step: AdamStep) -> float | None:
        """Move the adapter by the accumulated gradient; return its norm where the service reports it."""
        with _reported("step the optimizer"):
            params = self._types.AdamParams(
                learning_rate=step.learning_rate,
                beta1=step.beta1,
                beta2=step.beta2,
                eps=step.eps,
                weight_decay=0.0,
                grad_clip_norm=step.clip_norm or 0.0,
            )
            metrics = self._client.optim_step(params).result().metrics or {}
        return next((float(value) for name, value in metrics.items() if name.endswith("grad_norm")), None)

    def save_state(self, name: str) -> str:
        """Keep weights and optimizer on the service; return their path."""
        with _reported("save its state"):
            return str(self._client.save_state(name).result().path)

    def save_for_sampler(self, name: str) -> str:
        """Keep the weights on the service for sampling; return their path."""
        with _reported("save weights for sampling"):
            return str(self._client.save_weights_for_sampler(name).result().path)

    def _datum(self, tokens: Tokens, weights: Sequence[float] | None) -> Any:
        """A row as the SDK takes it: position i predicts token i + 1, and the prompt's positions weigh nothing."""
        ids = [*tokens.prompt_ids, *tokens.completion_ids]
        before = [0.0] * (len(tokens.prompt_ids) - 1)
        inputs: dict[str, list[Any]] = {"target_tokens": ids[1:]}
        if weights is None:
            inputs["weights"] = [*before, *[1.0] * len(tokens.completion_ids)]
        else:
            inputs["logprobs"] = [*before, *(tokens.logprobs or ())]
            inputs["advantages"] = [*before, *weights]
        return self._types.Datum(model_input=self._types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


class DrawClient:
    """Draws completions from one set of weights."""

    def __init__(self, client: Any, sdk: Any) -> None:
        self._client, self._types = client, sdk.types

    async def draw(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """One completion, with the token that ended it."""
        with _reported("draw a completion"):
            reply = await asyncio.wrap_future(self._submit(draw, stop))
        return _drawn(reply)

    def draw_now(self, draw: Draw, stop: frozenset[int]) -> DrawResult:
        """The same, for callers without an event loop."""
        with _reported("draw a completion"):
            reply = self._submit(draw, stop).result()
        return _drawn(reply)

    def prompt_logprobs(self, ids: Sequence[int]) -> list[float | None]:
        """Log-probs of the tokens of a prompt."""
        with _reported("score a prompt"):
            return list(self._client.compute_logprobs(self._types.ModelInput.from_ints(list(ids))).result())

    def _submit(self, draw: Draw, stop: frozenset[int]) -> Any:
        params = self._types.SamplingParams(
            max_tokens=draw.sampling.max_tokens,
            seed=draw.seed % SEEDS,
            stop=sorted(stop),
            temperature=draw.sampling.temperature,
            top_p=draw.sampling.top_p,
        )
        prompt = self._types.ModelInput.from_ints(list(draw.ids))
        return self._client.sample(prompt=prompt, num_samples=1, sampling_params=params)


def _drawn(reply: Any) -> DrawResult:
    sequence = reply.sequences[0]
    return DrawResult(tuple(sequence.tokens), tuple(sequence.logprobs or ()), finish_of(str(sequence.stop_reason)))


def _logprobs(output: Any, rows: Sequence[Tokens]) -> list[list[float]]:
    """The learner's log-probs of the completions, from what a pass returns for every position."""
    values = [row["logprobs"].tolist() for row in output.loss_fn_outputs]
    if [len(row) for row in values] != [tokens.size - 1 for tokens in rows]:
        raise EngineError("the service did not score every token of a row", fix="report this with the server's version")
    return [list(row[len(tokens.prompt_ids) - 1 :]) for row, tokens in zip(values, rows, strict=True)]


def _sdk() -> Any:
    try:
        import tinker
    except ImportError as error:
        raise ConfigError(f"sampler.engine tinker needs {error.name}", fix=install("tinker")) from error
    return tinker


@contextmanager
def _reported(action: str, fix: str = THEN_RESUME) -> Iterator[None]:
    """Turn whatever the SDK raises into an error of ours."""
    try:
        yield
    except (AgonError, asyncio.CancelledError):
        raise
    except Exception as error:
        raise EngineError(f"the Tinker service failed to {action}: {type(error).__name__}: {error}", fix=fix) from error
