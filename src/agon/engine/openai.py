"""Sampler over any OpenAI-compatible URL.

Where the base's tokenizer is at hand and the server takes token ids (`/completions`, as vLLM does), our own ids go: the
prompts are then training's to the last id. Elsewhere only text can be sent (`/chat/completions`), and that cannot
promise as much: the server renders the chat template, so quoted text goes in its escaped form (what could pass for
structure is plain text) instead of being spliced in as ids, and the ids at its edges may be others. Either way a
learner cannot train on it, and a seed is a request that a server may ignore. Standard library only. Every request has a
time limit, failures of the line are retried, and nothing waits for ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agon.engine.render import Rendered, Renderer
from agon.errors import EngineError
from agon.types import BASE, Completion, Finish, Policy, Quote, Request

TIMEOUT = 1800.0
"""Seconds that one completion may take."""
TRIES = 5
WORKERS = 64
LARGEST = 64 << 20
KEY = "AGON_API_KEY"
OPEN, CLOSE = "<think>", "</think>"
LOCAL = ("localhost", "127.0.0.1", "::1")


class OpenAISampler:
    """Implements `agon.protocols.Sampler`. `base` is what the server calls the bare base; a version's default name is
    its own."""

    def __init__(
        self,
        url: str,
        base: str,
        *,
        escape: Callable[[str], str],
        renderer: Renderer | None,
        timeout: float = TIMEOUT,
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise EngineError(f"{url!r} is not the address of a server", fix="write it like http://localhost:8000/v1")
        self.url = url.rstrip("/")
        self.ids = False
        """Whether token ids are sent; `check` finds out."""
        self._escape, self._renderer, self._timeout = escape, renderer, timeout
        self._names: dict[str, str] = {BASE: base}
        self._latest: dict[Policy, str] = {}
        self._pool = ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="agon-url")
        self._opener = _opener(url)
        self._closed = False

    async def sample(self, request: Request) -> Completion:
        """Draw one completion; the version is the one the request names, under the server's name for it."""
        version = self._resolve(request)
        sampling = request.sampling
        body = {
            "model": self._names[version],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.seed,
        }
        loop = asyncio.get_running_loop()
        if self.ids and self._renderer:
            rendered = self._renderer.render(request.prompt)
            body |= {"prompt": list(rendered.ids), "return_token_ids": True}
            answer = await loop.run_in_executor(self._pool, self._post, "/completions", body)
            return from_ids(answer, version, rendered, self._renderer)
        body["messages"] = [{"role": m.role, "content": self._text(m.parts)} for m in request.prompt.messages]
        return from_chat(await loop.run_in_executor(self._pool, self._post, "/chat/completions", body), version)

    def clip(self, text: str, max_tokens: int) -> str:
        """By the base's tokenizer; without one, by a low estimate of three characters to a token."""
        return self._renderer.clip(text, max_tokens) if self._renderer else text[: 3 * max_tokens]

    def publish(self, policy: Policy, version: str, folder: Path) -> None:
        """Make a version the latest of its policy; the server must have it already, as nothing is sent to it."""
        self._names.setdefault(version, version)
        self._latest[policy] = version

    def pin(self, policy: Policy, version: str, folder: Path) -> None:
        """Know a version by its name; what stays live is the server's business."""
        self._names.setdefault(version, version)

    def rename(self, version: str, name: str) -> None:
        """Say what the server calls a version."""
        self._names[version] = name

    def check(self) -> None:
        """Ask the server for its models, refuse one that lacks what is wanted, and find out if it takes token ids."""
        served = [str(model.get("id")) for model in self._post("/models", None).get("data", [])]
        lacking = [f"{name} (for {version})" for version, name in self._names.items() if name not in served]
        if lacking:
            message = f"{self.url} does not serve {', '.join(lacking)}; it serves {', '.join(served) or 'nothing'}"
            raise EngineError(message, fix="say what it calls them: --names a=NAME,b=NAME,base=NAME")
        self.ids = self._takes_ids()

    def _takes_ids(self) -> bool:
        """One token drawn from a prompt of ids: a server that counts as many prompt tokens has read them as ids."""
        if self._renderer is None:
            return False
        prompt = self._renderer.encode("one two three")
        body = {"model": self._names[BASE], "prompt": prompt, "max_tokens": 1, "return_token_ids": True}
        try:
            answer = self._send("/completions", body)
            return bool(answer["usage"]["prompt_tokens"] == len(prompt) and answer["choices"][0]["token_ids"])
        except (OSError, ValueError, LookupError, TypeError):
            return False

    def close(self) -> None:
        """Start no request any more; one that is under way ends by itself or at its time limit."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _resolve(self, request: Request) -> str:
        version = request.version or (BASE if request.policy is None else self._latest.get(request.policy))
        if version not in self._names:
            raise EngineError(f"no version {version} is known", fix="publish or pin it before sampling from it")
        return str(version)

    def _text(self, parts: tuple[str | Quote, ...]) -> str:
        return "".join(self._escape(part.text) if isinstance(part, Quote) else part for part in parts)

    def _post(self, path: str, body: Mapping[str, Any] | None) -> Any:
        """Send a request (GET without a body), again after failures of the line and refusals for now."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._send(path, body)
            except urllib.error.HTTPError as error:
                if attempt == TRIES or error.code not in (408, 409, 425, 429, 500, 502, 503, 504):
                    raise _refused(self.url + path, error) from error
                self._wait(attempt, error.headers.get("Retry-After"))
            except (OSError, ValueError) as error:
                if attempt == TRIES or self._closed:
                    fix = "check that the server runs and that the address ends in /v1"
                    raise EngineError(f"{self.url}{path} does not answer: {error}", fix=fix) from error
                self._wait(attempt, None)
        raise EngineError(f"{self.url}{path} was not asked")

    def _send(self, path: str, body: Mapping[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key := os.environ.get(KEY):
            headers["Authorization"] = f"Bearer {key}"
        sent = urllib.request.Request(self.url + path, data=data, headers=headers)
        with self._opener.open(sent, timeout=self._timeout) as reply:
            text = reply.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise EngineError(f"{self.url}{path} sent more than {LARGEST >> 20} MiB", fix="lower max_completion_tokens")
        answer = json.loads(text)
        if broken_off(answer):
            raise ConnectionError("the server broke the completion off")
        return answer

    def _wait(self, attempt: int, told: str | None) -> None:
        """Before the next try: as long as the server says, within reason, else longer each time."""
        seconds = min(float(told), 60.0) if told and told.isdigit() else 0.5 * 2**attempt
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._closed:
            time.sleep(0.1)


def broken_off(answer: Any) -> bool:
    """Whether a server that is ending handed out what it had so far: no completion, though it looks like one."""
    choices = answer.get("choices") if isinstance(answer, dict) else None
    return any(isinstance(c, dict) and c.get("finish_reason") in ("abort", "error") for c in choices or ())


def from_chat(answer: Any, version: str) -> Completion:
    """A chat completion as ours: reasoning that came apart from the content is put back in front of it."""
    with _reading():
        choice = answer["choices"][0]
        message = choice["message"]
        reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
        content = message.get("content") or ""
        counts = _counts(answer), _finish(choice)
    if reasoning:
        closed = CLOSE if content or counts[1] == "stop" else ""
        return Completion(f"{OPEN}{reasoning}{closed}{content}", version, *counts[0], counts[1])
    # a template that opens the reasoning block leaves it to the completion to close it
    opened = CLOSE in content and OPEN not in content.partition(CLOSE)[0]
    return Completion(content, version, *counts[0], counts[1], opened)


def from_ids(answer: Any, version: str, rendered: Rendered, renderer: Renderer) -> Completion:
    """A completion of token ids as ours."""
    with _reading():
        choice = answer["choices"][0]
        ids = [int(token) for token in choice["token_ids"]]
        counts = _counts(answer), _finish(choice)
    while ids and ids[-1] in renderer.stop:
        ids.pop()
    return Completion(renderer.text(ids), version, *counts[0], counts[1], rendered.opened)


def _counts(answer: Any) -> tuple[int, int]:
    return int(answer["usage"]["prompt_tokens"]), int(answer["usage"]["completion_tokens"])


def _finish(choice: Any) -> Finish:
    return "length" if choice.get("finish_reason") == "length" else "stop"


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        fix = "the server must answer with choices and usage, as OpenAI's does"
        raise EngineError(f"an answer that cannot be read: {type(error).__name__}: {error}", fix=fix) from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    """No redirects (they would carry the key elsewhere), and no proxy to this machine itself."""
    local = urlsplit(url).hostname in LOCAL
    handlers: list[Any] = [_NoRedirect(), *([urllib.request.ProxyHandler({})] if local else [])]
    return urllib.request.build_opener(*handlers)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **options: Any) -> None:
        return None


def _refused(place: str, error: urllib.error.HTTPError) -> EngineError:
    try:
        said = error.read(2000).decode("utf-8", "replace").strip()
    except OSError:
        said = ""
    fix = f"put the key in {KEY}" if error.code in (401, 403) else "check the names with --names, and the server's log"
    return EngineError(f"{place} answered {error.code}: {said or error.reason}", fix=fix)
