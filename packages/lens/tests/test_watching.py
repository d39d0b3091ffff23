"""Reward functions that are watched pay what they paid, and leave a log that the other commands read."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from agon_lens import LensError, diagnose, read, watch
from agon_lens.cli.watch import findings_page, log_server
from agon_lens.lines import LogLines
from agon_lens.logs import read_rollouts
from lens_logs import jsonl


def right(prompts: list[str], completions: list[str], answer: list[str], **more: Any) -> list[float | None]:
    return [None if text == "?" else float(text == gold) for text, gold in zip(completions, answer, strict=True)]


def brief(completions: list[str], **more: Any) -> list[float]:
    return [-0.01 * len(text) for text in completions]


async def slow(completions: list[str], **more: Any) -> list[float]:
    await asyncio.sleep(0)
    return [1.0 for _ in completions]


def batch(step: int, texts: str = "abcd") -> dict[str, Any]:
    """A batch as TRL passes it: one prompt, its completions, the columns of the data, and its state."""
    size = len(texts)
    given = {"prompts": [f"q{step}"] * size, "completions": list(texts), "completion_ids": [[1] * 3] * size}
    return given | {"answer": ["a"] * size, "trainer_state": SimpleNamespace(global_step=step)}


def test_functions_pay_as_before_under_their_own_names(tmp_path: Path) -> None:
    first, second = watch([right, brief], tmp_path / "lens")
    assert (first.__name__, second.__name__) == ("right", "brief")
    assert first(**batch(0)) == right(**batch(0)) == [1.0, 0.0, 0.0, 0.0]
    assert second(**batch(0)) == brief(**batch(0))
    alone = watch(brief, tmp_path / "alone")
    assert alone(**batch(0)) == brief(**batch(0))


def test_the_log_holds_every_row_with_its_step_gold_and_weighted_rewards(tmp_path: Path) -> None:
    funcs = watch([right, brief], tmp_path / "lens", weights=[2.0, 0.5], max_completion_length=3)
    for step in range(3):
        for func in funcs:
            func(**batch(step, "ab?d"))
    (log,) = read(tmp_path / "lens")
    assert (log.terms, log.steps) == (("right", "brief"), (1, 2, 3))
    assert [row.terms[0] for row in log.groups[0]] == [2.0, 0.0, 0.0, 0.0]
    assert log.groups[0][0].total == pytest.approx(2.0 - 0.005)
    assert all(row.truncated for row in log.rows())
    texts = read_rollouts(tmp_path / "lens").texts[0]
    assert (texts.prompt, texts.gold, texts.completions) == ("q0", "a", ("a", "b", "?", "d"))


def test_findings_are_printed_while_it_trains(tmp_path: Path) -> None:
    said: list[str] = []
    funcs = watch([right, brief], tmp_path / "lens", every=5, show=said.append)
    for step in range(10):
        for func in funcs:
            func(**batch(step, "xxxx"))
    assert len(said) == 2
    assert said[0].startswith("agon-lens, steps 1 to 5: ")
    assert "collapse" in said[1]
    assert "Change first: Let the policy vary" in said[1]
    assert "agon-lens watch" in said[1]


def test_an_asynchronous_function_stays_one(tmp_path: Path) -> None:
    first, second = watch([slow, brief], tmp_path / "lens")
    assert asyncio.iscoroutinefunction(first)
    assert not asyncio.iscoroutinefunction(second)
    second(**batch(0))
    assert asyncio.run(first(**batch(0))) == [1.0] * 4
    assert len((tmp_path / "lens" / "rewards-0.jsonl").read_text().splitlines()) == 4


def test_findings_of_several_processes_are_about_whole_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ranks = [watch(right, tmp_path / "lens", every=3, show=said.append) for _ in range(2)]
    monkeypatch.setenv("WORLD_SIZE", "2")
    for step in range(4):
        for rank in (1, 0):
            monkeypatch.setenv("RANK", str(rank))
            ranks[rank](**batch(step, "ad" if rank else "aa"))  # the half of process 0 has one reward
    assert [text.splitlines()[0] for text in said] == ["agon-lens, steps 1 to 2: nothing looks wrong"]
    (log,) = read(tmp_path / "lens")
    assert [len(group) for group in log.groups] == [4] * 4
    assert log.steps == (1, 2, 3, 4), "in order, whichever process wrote them"
    assert "4 groups of 4, 16 rows" in findings_page(tmp_path / "lens")
    monkeypatch.setenv("WORLD_SIZE", "9")
    ranks[0](**batch(7, "aa"))
    assert "only 2 of 9 processes" in said[-1]


def test_a_second_run_puts_the_log_of_the_first_aside_and_one_that_resumes_does_not(tmp_path: Path) -> None:
    said: list[str] = []
    for begin in (0, 5, 0):
        watch(brief, tmp_path / "lens", show=said.append)(**batch(begin))
    (log,), (earlier,) = read(tmp_path / "lens"), read(tmp_path / "lens" / "earlier-1")
    assert (log.steps, earlier.steps) == ((1,), (1, 6))
    assert "put the log of an earlier run aside" in "".join(said)
    func = watch(brief, tmp_path / "again")
    for step in (0, 1, 0):
        func(**batch(step))
    assert read(tmp_path / "again")[0].steps == (1,)
    assert read(tmp_path / "again" / "earlier-1")[0].steps == (1, 2)


class Judge:
    def __init__(self, paid: float) -> None:
        self.paid = paid

    def score(self, completions: list[str], **more: Any) -> list[float]:
        return [self.paid] * len(completions)

    __call__ = score


class Other(Judge):
    pass


def length(completions: list[str], scale: float = 1.0, **more: Any) -> list[float]:
    return [scale * len(text) for text in completions]


def reward(completions: list[str], **more: Any) -> list[float]:
    return [1.0 for _ in completions]


def test_every_function_has_a_readable_column_of_its_own_that_is_read_as_a_reward(tmp_path: Path) -> None:
    judges = [Judge(1.0).score, Other(0.5).score, Judge(0.25), partial(length, scale=2.0), length, reward, brief]
    funcs = watch([*judges, lambda completions, **_: [0.0] * len(completions), brief], tmp_path / "lens")
    for func in funcs:
        func(**batch(0))
    (log,) = read(tmp_path / "lens")
    named = (
        "score_reward",
        "score_reward_2",
        "Judge",
        "length_reward",
        "length_reward_2",
        "reward_1",
        "brief",
        "lambda",
    )
    assert log.terms == (*named, "brief_2")
    assert log.groups[0][0].terms == (1.0, 0.5, 0.25, 2.0, 1.0, 1.0, -0.01, 0.0, -0.01)
    assert [func.__name__ for func in funcs[:4]] == ["score", "score", "Judge", "length_reward"]


def test_a_reference_answer_that_is_a_number_is_no_reward(tmp_path: Path) -> None:
    func = watch(brief, tmp_path / "lens")
    func(**batch(0) | {"answer": [1, 2, 3, 4]})
    assert read(tmp_path / "lens")[0].terms == ("brief",)


def test_a_page_reads_one_state_of_a_log_that_is_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon_lens.lines.KEPT_BYTES", 0)
    for rank, text in enumerate(("ab", "cd")):
        jsonl(
            tmp_path / f"rewards-{rank}.jsonl",
            [{"step": 1, "prompt": f"q{rank}", "completion": each, "x": 0.5} for each in text],
        )
    lines = LogLines([tmp_path])
    with (tmp_path / "rewards-0.jsonl").open("a") as file:
        file.write('{"step": 2, "prompt": "new", "completion": "z", "x": 1.0}\n')
    assert [line["completion"] for line in lines] == ["a", "b", "c", "d"]


def test_models_are_passed_through(tmp_path: Path) -> None:
    model = SimpleNamespace(forward=print)
    assert watch(["some/model", model, brief], tmp_path)[:2] == ["some/model", model]


def test_a_function_that_raises_does_so_and_the_next_batch_is_logged(tmp_path: Path) -> None:
    def fails(completions: list[str], **more: Any) -> list[float]:
        if completions[0] == "x":
            raise ValueError("no verdict")
        return [0.0] * len(completions)

    first, second = watch([brief, fails], tmp_path / "lens")
    first(**batch(0, "xy"))
    with pytest.raises(ValueError, match="no verdict"):
        second(**batch(0, "xy"))
    for func in (first, second):
        func(**batch(1, "ab"))
    rows = [json.loads(line) for line in (tmp_path / "lens" / "rewards-0.jsonl").read_text().splitlines()]
    assert [row["completion"] for row in rows] == ["x", "y", "a", "b"]
    assert [row["fails"] for row in rows] == [None, None, 0.0, 0.0]


def test_a_disk_that_fails_does_not_stop_the_training(tmp_path: Path) -> None:
    (tmp_path / "lens").write_text("a file where the folder should be")
    said: list[str] = []
    func = watch(brief, tmp_path / "lens", show=said.append)
    assert func(**batch(0)) == func(**batch(1)) == brief(**batch(0))
    assert len(said) == 1
    assert "training continues" in said[0]


def test_weights_must_fit() -> None:
    with pytest.raises(LensError, match="1 weights for 2"):
        watch([right, brief], weights=[1.0])


def test_a_request_that_never_ends_frees_its_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agon_lens.cli.watch.PATIENCE", 0.2)
    with log_server(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=30) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: ")
            assert slow.recv(10) == b"", "the server hangs up"
        server.shutdown()


def test_a_growing_log_is_shown_on_loopback(tmp_path: Path) -> None:
    func = watch(brief, tmp_path / "lens")
    func(**batch(0, "abc"))
    server = log_server(tmp_path / "lens")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert "1 group of 3, 3 rows" in urlopen(f"{url}/").read().decode()
        func(**batch(1, "abc"))
        page = urlopen(f"{url}/").read().decode()
        assert "2 groups of 3, 6 rows" in page
        assert 'http-equiv="refresh"' in page
        assert 'href="rollouts.html"' in page
        assert 'href="rollouts.html#0">group 0' in page
        assert "Content-Security-Policy" in urlopen(f"{url}/rollouts.html").read().decode()
        for path, host, code in (("/other", "127.0.0.1:1", 404), ("/", "evil.example:80", 403)):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(url + path, headers={"Host": host}))
            assert refused.value.code == code
    finally:
        server.shutdown()
        server.server_close()
    assert diagnose(read(tmp_path / "lens")[0]).groups == 2
