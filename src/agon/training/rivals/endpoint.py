"""An endpoint: a model behind an OpenAI-compatible server plays B."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from agon.config import Config
from agon.config.rules import Rule
from agon.game.peek import escape
from agon.game.rules import Rivalry
from agon.protocols import CompletionSource
from agon.training.rivals import NO_PAIR, OF_LEAGUE, ONLY_A_LEARNS, Draw, Rival
from agon.types import Completion, Policy, Request
from agon.urls import host_of

RULES = (
    Rule(("rival.url",), lambda url: url is not None, "belongs to rival.kind endpoint, which needs it"),
    Rule(("rival.model",), lambda model: model is not None, "belongs to rival.kind endpoint, which needs it"),
    Rule(
        ("rival.url",),
        lambda url: url is None or ("@" not in url and host_of(url) != ""),
        "is not an address like https://host/v1, without a password: put a key in AGON_RIVAL_KEY",
    ),
)


class Endpoint(Rival):
    """The server draws what is asked of B; it gives no token ids and no log-probs, so nobody learns from it."""

    kind = "endpoint"
    rivalry: ClassVar[Rivalry] = "leaves"
    rules = (*RULES, *ONLY_A_LEARNS, NO_PAIR)
    unused: ClassVar[Mapping[str, str]] = OF_LEAGUE
    answers_late = True
    on_card = "the model {} behind an endpoint; B was not trained: A answers alone"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._draw: Draw | None = None

    @property
    def about(self) -> str:
        rival = self.config.rival
        return f"{rival.model} at {rival.url}; only A learns: an endpoint gives no token ids and no log-probs"

    @contextmanager
    def open(self, run: Path) -> Iterator[None]:
        """Ask it only once it is known to have the model."""
        from agon.engine.endpoint import CompletionCache
        from agon.engine.endpoint import Endpoint as Server

        rival = self.config.rival
        cache = CompletionCache(run / "rival", int(os.environ.get("RANK", "0")))
        with closing(Server(str(rival.url), str(rival.model), cache, escape=escape)) as server:
            server.check()
            self._draw = server.sample
            yield

    def source(self, engine: CompletionSource) -> CompletionSource:
        assert self._draw is not None, "opened"
        return _WithServer(engine, self._draw)


@dataclass(frozen=True, slots=True)
class _WithServer:
    """Implements `agon.protocols.CompletionSource`: the server draws what is asked of B, the engine all else."""

    engine: CompletionSource
    server: Draw

    async def sample(self, request: Request) -> Completion:
        return await (self.server if request.seat is Policy.B else self.engine.sample)(request)

    def clip(self, text: str, max_tokens: int) -> str:
        """By the tokenizer of the engine, whoever wrote the text."""
        return self.engine.clip(text, max_tokens)
