"""Reward functions that are watched pay what they paid, and leave a log that the other commands read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from agon_lens import LensError, diagnose, read, watch
from agon_lens.cli.watch import log_server
from agon_lens.logs import read_rollouts


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


def test_a_growing_log_is_shown_on_loopback(tmp_path: Path) -> None:
    import threading

    func = watch(brief, tmp_path / "lens")
    func(**batch(0, "abc"))
    server = log_server(tmp_path / "lens")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        assert "1 group, 3 rows" in urlopen(f"{url}/").read().decode()
        func(**batch(1, "abc"))
        page = urlopen(f"{url}/").read().decode()
        assert "2 groups, 6 rows" in page
        assert 'http-equiv="refresh"' in page
        assert 'href="rollouts.html"' in page
        assert "Content-Security-Policy" in urlopen(f"{url}/rollouts.html").read().decode()
        for path, host, code in (("/other", "127.0.0.1:1", 404), ("/", "evil.example:80", 403)):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(url + path, headers={"Host": host}))
            assert refused.value.code == code
    finally:
        server.shutdown()
        server.server_close()
    assert diagnose(read(tmp_path / "lens")[0]).groups == 2
