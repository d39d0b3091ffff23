"""`agon ask --url`: pieces of a stream, and streams that break off."""

from __future__ import annotations

import io
import json

import pytest

from agon.cli import ask_url, main
from agon.cli.ask_url import base_url, pieces
from agon.errors import RunError


def event(**delta: str) -> str:
    return "data: " + json.dumps({"choices": [{"delta": delta}]})


def test_reasoning_and_content_come_as_they_are_written() -> None:
    lines = [event(role="assistant", content=""), ": ping", "", event(reasoning="so"), event(content="4\x1b[2J")]
    assert list(pieces([*lines, "data: [DONE]"])) == [("reasoning", "so"), ("content", "4<U+001B>[2J")]


@pytest.mark.parametrize("last", [[], ['data: {"error": {"message": "no server is up"}}', "data: [DONE]"]])
def test_a_stream_that_breaks_off_is_an_error(last: list[str]) -> None:
    with pytest.raises(RunError):
        list(pieces([event(content="4"), *last]))


def test_the_address_may_leave_v1_out() -> None:
    assert {base_url(url) for url in ("http://gpu:8000", "http://gpu:8000/", "http://gpu:8000/v1/")} == {
        "http://gpu:8000/v1"
    }


@pytest.mark.parametrize(
    ("words", "piped", "said"),
    [
        (["ask", "--url", "gpu:8000"], "hi", "gpu:8000 is not a URL"),
        (["ask", "--url", "http://gpu:port"], "hi", "http://gpu:port is not a URL"),
        (["ask", "--url", "What is 7 times 8?"], "hi", "What is 7 times 8? is not a URL"),
        (["ask", "--url"], " ", "there is no question"),
        (["ask", "--url", "http://127.0.0.1:9"], "hi", "http://127.0.0.1:9/v1 does not answer"),
        (["ask", "hi", "--url", "http://127.0.0.1:9"], "", "http://127.0.0.1:9/v1 does not answer"),
        (["ask", "runs/demo", "hi", "--url"], "", "the question is all that is named"),
        (["ask", "hi", "--url", "--temperature", "0"], "", "--temperature does not go with --url"),
        (["ask"], "hi", "no run or pair is named"),
        (["ask", "runs/demo", "hi", "--model", "a"], "", "--model is an option of --url"),
        (["chat", "--model", "b", "http://127.0.0.1:9"], "hi", "http://127.0.0.1:9/v1 does not answer"),
    ],
)
def test_what_cannot_be_asked_is_said(
    words: list[str], piped: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(piped))
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_question_that_fails_does_not_end_a_conversation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(url: str, model: str, question: str) -> list[tuple[str, str]]:
        if question == "first":
            raise RunError("all servers are busy", fix="ask again")
        if question == "second":
            raise KeyboardInterrupt
        return [("reasoning", "so "), ("content", "4")]

    lines = iter(["first", "second", " ", "third"])

    def typed(prompt: str) -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", typed)
    monkeypatch.setattr(ask_url, "ask", ask)
    assert main(["ask", "--url"]) == 0
    shown = capsys.readouterr()
    assert "all servers are busy" in shown.err
    assert "so \n\n4\n" in shown.out


@pytest.mark.parametrize("hide", [False, True])
def test_an_answer_that_is_missing_is_reported(
    hide: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hi"))
    monkeypatch.setattr(ask_url, "ask", lambda *_: [("reasoning", "so")])
    assert main(["ask", "--url", *(["--hide-reasoning"] if hide else [])]) == 0
    shown = capsys.readouterr()
    assert shown.out == ("\n" if hide else "so\n")
    assert "without an answer" in shown.err
