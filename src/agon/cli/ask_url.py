"""`agon ask --url`: put questions to a served pair. Every question stands alone, as in training."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator

from agon.errors import AgonError, InputError, RunError
from agon.urls import host_of

KEY = "AGON_API_KEY"
AGAIN = "ask again; the gateway's log has the reason"
FAINT, PLAIN = "\033[2m", "\033[0m"


def run(url: str, question: str | None, model: str, *, quiet: bool) -> int:
    """Answer a question, a pipe, or a person until Ctrl-D; the key is read from AGON_API_KEY."""
    url = base_url(url)
    if question is None and sys.stdin.isatty():
        _talk(url, model, quiet)
        return 0
    question = sys.stdin.read() if question is None else question
    if not question.strip():
        raise InputError("there is no question", fix=f'agon ask --url {url} "What is 7 times 8?"')
    _show(url, model, question, quiet)
    return 0


def base_url(url: str) -> str:
    """The address of the API, for one that is given with or without its `/v1`."""
    if not host_of(url):
        raise InputError(f"{url} is not a URL", fix="write http://HOST:PORT/v1, as `agon serve` prints it")
    return url.rstrip("/").removesuffix("/v1") + "/v1"


def _talk(url: str, model: str, quiet: bool) -> None:
    """One question after the other; one that fails or is interrupted does not end the conversation."""
    from agon.cli import tell

    print("one question per line; Ctrl-C stops an answer, Ctrl-D ends", file=sys.stderr)
    while True:
        try:
            question = input("> ")
        except EOFError:
            print()
            return
        try:
            if question.strip():
                _show(url, model, question, quiet)
        except AgonError as error:
            print()
            tell(error)
        except KeyboardInterrupt:
            print()


def _show(url: str, model: str, question: str, quiet: bool) -> None:
    """Print an answer as it arrives."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    ending, answered = "", False
    for kind, text in ask(url, model, question):
        if kind == "content" and not answered:
            answered = True
            print("" if not ending else "\n" if ending == "\n" else "\n\n", end="")
        if kind == "content" or not quiet:
            print(f"{FAINT}{text}{PLAIN}" if colour and kind == "reasoning" else text, end="", flush=True)
            ending = text[-1]
    print()
    if not answered:
        print("(it ended without an answer)", file=sys.stderr)


def ask(url: str, model: str, question: str) -> Iterator[tuple[str, str]]:
    """Pieces of the answer, ("reasoning" or "content", text), as they arrive."""
    import httpx2

    key = os.environ.get(KEY, "").strip()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": model, "messages": [{"role": "user", "content": question}], "stream": True}
    try:
        with httpx2.stream("POST", f"{url}/chat/completions", json=body, headers=headers, timeout=None) as response:
            if response.status_code != 200:
                raise _refused(response.status_code, response.read())
            yield from pieces(response.iter_lines())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise InputError(
            f"{url} does not answer: {error}", fix="check the address, or start it: agon serve RUN"
        ) from error


def pieces(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Text in server-sent events; an answer that does not end with `[DONE]` is an error."""
    from agon.formatting import show_hidden

    for line in lines:
        data = line.removeprefix("data: ") if line.startswith("data: ") else ""
        if data == "[DONE]":
            return
        event = json.loads(data) if data else {}
        if "error" in event:
            raise RunError(show_hidden(str(event["error"].get("message"))), fix=AGAIN)
        for choice in event.get("choices", ()):
            for kind in ("reasoning", "content"):
                if text := choice["delta"].get(kind):
                    yield kind, "\n".join(show_hidden(part) for part in text.split("\n"))
    raise RunError("the answer broke off", fix=AGAIN)


def _refused(status: int, body: bytes) -> InputError:
    from agon.formatting import show_hidden

    try:
        message = show_hidden(str(json.loads(body)["error"]["message"]))
    except (ValueError, KeyError, TypeError):
        message = "no reason given"
    fix = f"put the key in {KEY}" if status == 401 else "ask again" if status >= 429 else "see docs/serving.md"
    return InputError(f"the server answered {status}: {message}", fix=fix)
