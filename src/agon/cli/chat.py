"""`agon chat`: talk to a served pair in the terminal. Every question stands alone, as in training."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator

from agon.errors import InputError, RunError

KEY = "AGON_API_KEY"
FAINT, PLAIN = "\033[2m", "\033[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:8000/v1", metavar="URL", help="of `agon serve`")
    parser.add_argument("--model", default="agon", help="agon, agon-ab, agon-ba, a or b (default: agon)")
    parser.add_argument("--hide-reasoning", action="store_true", help="show the answer alone")


def run(args: argparse.Namespace) -> int:
    """Read questions until the end of the input; the key is read from AGON_API_KEY."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for question in _questions():
        for kind, text in ask(args.url.rstrip("/"), args.model, question):
            if kind == "content" or not args.hide_reasoning:
                print(f"{FAINT}{text}{PLAIN}" if colour and kind == "reasoning" else text, end="", flush=True)
        print()
    return 0


def _questions() -> Iterator[str]:
    """Lines of a person; a pipe is one question."""
    if not sys.stdin.isatty():
        yield sys.stdin.read()
        return
    print("one question per line; Ctrl-D ends", file=sys.stderr)
    while True:
        try:
            line = input("> ")
        except EOFError:
            print()
            return
        if line.strip():
            yield line


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
        raise InputError(f"{url} does not answer: {error}", fix="start it: agon serve RUN") from error


def pieces(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Text in server-sent events; an answer that does not end with `[DONE]` is an error."""
    from agon.formatting import show_hidden

    for line in lines:
        data = line.removeprefix("data: ") if line.startswith("data: ") else ""
        if data == "[DONE]":
            return
        event = json.loads(data) if data else {}
        if "error" in event:
            raise RunError(str(event["error"].get("message")), fix="ask again; the gateway's log has the reason")
        for choice in event.get("choices", ()):
            for kind in ("reasoning", "content"):
                if text := choice["delta"].get(kind):
                    yield kind, "\n".join(show_hidden(part) for part in text.split("\n"))
    raise RunError("the answer broke off", fix="ask again; the gateway's log has the reason")


def _refused(status: int, body: bytes) -> InputError:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = "no reason given"
    fix = f"put the key in {KEY}" if status == 401 else "ask again" if status >= 429 else "see docs/serving.md"
    return InputError(f"the server answered {status}: {message}", fix=fix)
