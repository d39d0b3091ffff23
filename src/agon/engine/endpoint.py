"""A model behind an OpenAI-compatible URL, asked for text alone: no token ids, no log-probs, so nothing to learn from.

What it drew is kept in files of the run: a step that is played again after a resume gets the same completions, which a
server that ignores seeds would not give twice, and nothing is paid for twice. A request that stays without an answer
after retries is a completion with a `failure`. A server that refuses the key or does not have the model is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from agon.engine.openai import OpenAISampler, Unanswered
from agon.engine.replies import Body, Count
from agon.errors import EngineError
from agon.rundir.files import disk_errors_as, make_folder
from agon.rundir.jsonl import append, whole_lines
from agon.types import BASE, ENDPOINT, Completion, Finish, Request, Version, content_id

KEY = "AGON_RIVAL_KEY"
"""Where the key of an endpoint is read from: not the variable of other servers, which must not see it."""


class Kept(Body):
    """A completion in the cache, under a hash of all that was asked for."""

    key: str
    text: str
    prompt_tokens: Count
    generated_tokens: Count
    finish: Finish
    opened: bool


class CompletionCache:
    """Completions of one endpoint, in one file for each process; a line that cannot be read is drawn again."""

    def __init__(self, folder: Path, rank: int = 0) -> None:
        self._file = folder / f"cache_{rank:03d}.jsonl"
        self._kept: dict[str, Kept] = {}
        make_folder(folder)
        for file in sorted(folder.glob("cache_*.jsonl")):
            for line in whole_lines(file):
                self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            kept = Kept.model_validate_json(line)
        except ValidationError:
            return
        self._kept[kept.key] = kept

    def get(self, key: str) -> Kept | None:
        return self._kept.get(key)

    def put(self, kept: Kept) -> None:
        """Keep a completion, on disk too; a newline first ends whatever a killed process left."""
        self._kept[kept.key] = kept
        with disk_errors_as(f"a completion of the rival was not written to {self._file.name}"):
            append(self._file, b"\n" + json.dumps(kept.model_dump()).encode() + b"\n")


class Endpoint:
    """Draws completions from a model elsewhere; its version is `endpoint:MODEL`."""

    def __init__(self, url: str, model: str, cache: CompletionCache, *, escape: Callable[[str], str]) -> None:
        self.version = Version(f"{ENDPOINT}{model}")
        self._server = OpenAISampler(url, model, escape=escape, renderer=None, key=KEY)
        self._cache = cache

    def check(self) -> None:
        """Refuse a server that does not answer, or that does not have the model."""
        try:
            self._server.check()
        except EngineError as error:
            fix = f"check rival.url and rival.model, and the key in {KEY}"
            raise EngineError(f"the rival cannot be asked: {error.message}", fix=fix) from error

    async def sample(self, request: Request) -> Completion:
        """Draw one completion, or say why there is none."""
        key = self._key(request)
        if kept := self._cache.get(key):
            return self._completion(kept)
        try:
            drawn = await self._server.sample(replace(request, seat=BASE))
        except Unanswered as error:
            return Completion("", self.version, 0, 0, failure=f"{self.version} gave no answer: {error.message}")
        text = drawn.text.encode("utf-8", "replace").decode()  # as on disk: a lone surrogate is not UTF-8
        kept = Kept(
            key=key,
            text=text,
            prompt_tokens=drawn.prompt_tokens,
            generated_tokens=drawn.generated_tokens,
            finish=drawn.finish,
            opened=drawn.opened,
        )
        self._cache.put(kept)
        return self._completion(kept)

    def close(self) -> None:
        self._server.close()

    def _key(self, request: Request) -> str:
        messages = [f"{message.role}\n{message.text}" for message in request.prompt.messages]
        return content_id(self.version, *messages, repr(request.sampling), str(request.seed))

    def _completion(self, kept: Kept) -> Completion:
        counts = kept.prompt_tokens, kept.generated_tokens
        return Completion(kept.text, self.version, *counts, kept.finish, kept.opened)
