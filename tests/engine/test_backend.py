"""Doors of backends: which one a config is for, what it refuses, and a contract that every installed one keeps."""

from __future__ import annotations

from typing import Any

import pytest

from agon.config.explain import names
from agon.doors import door, doors
from agon.engine.backend import Backend, backend_of, engines_here
from tests.engine.helpers.configs import config

RAY = {"engine": "ray", "address": "local"}
CHOSEN: dict[str, dict[str, Any]] = {
    "vllm": {},
    "hf": {"sampler": {"engine": "hf"}},
    "tinker": {"sampler": {"engine": "tinker"}},
    "ray": {"cluster": RAY},
    "two-bases": {"model": {"name": "agon:tiny", "b": {"name": "agon:halves"}}, "sampler": {"engine": "hf"}},
}


def test_every_backend_of_ours_is_chosen_by_some_config() -> None:
    assert {kind.name for kind in doors("agon.backends")} == set(CHOSEN)


@pytest.mark.parametrize("name", CHOSEN)
def test_a_config_gets_the_backend_that_its_keys_choose(name: str) -> None:
    assert backend_of(config(**CHOSEN[name])).name == name


@pytest.mark.parametrize("kind", list(doors("agon.backends")), ids=lambda kind: kind.name)
def test_a_backend_speaks_of_keys_that_exist_and_says_what_it_is(kind: type[Backend]) -> None:
    assert set(kind.unused) <= set(names())
    assert {key for rule in kind.rules for key in rule.keys} <= set(names())
    assert kind.__doc__


def test_a_backend_of_another_package_enters_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Echo(Backend):
        """Draws what it is asked."""

        name = "echo"

    places = {"echo": f"{__name__}:Echo"}
    monkeypatch.setattr("agon.doors.places", lambda group: places if group == "agon.backends" else ORIGINAL(group))
    monkeypatch.setattr(f"{__name__}.Echo", Echo, raising=False)
    assert backend_of(config(sampler={"engine": "echo"})).name == "echo"
    with pytest.raises(ValueError, match="there is no engine 'vllm'; choose one of: echo"):
        config()


ORIGINAL = __import__("agon.doors", fromlist=["places"]).places


def test_engines_that_ask_a_pair_open_a_sampler_from_disk() -> None:
    assert [kind.name for kind in engines_here()] == ["vllm", "hf"]


@pytest.mark.parametrize(
    ("sections", "rank", "local_rank", "expected"),
    [
        ({"sampler": {"engine": "hf"}}, 5, 5, True),
        ({}, 0, 0, True),
        ({}, 5, 5, False),
        ({}, 8, 0, True),
        ({"sampler": {"urls": ["http://localhost"]}}, 8, 0, False),
        ({"sampler": {"urls": ["http://localhost"]}}, 0, 0, True),
        ({"cluster": RAY}, 8, 0, False),
        ({"cluster": RAY}, 0, 0, True),
        ({"cluster": RAY | {"samplers": 0}}, 8, 0, True),
    ],
)
def test_one_process_of_a_machine_draws_for_all_its_engines(
    sections: dict[str, Any], rank: int, local_rank: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    assert backend_of(config(**sections)).draws() is expected


def test_a_process_alone_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert backend_of(config()).draws()
    assert backend_of(config(sampler={"urls": ["http://localhost"]})).draws()


def test_what_a_config_contacts_is_named_by_key() -> None:
    assert backend_of(config()).contacts() == {}
    assert backend_of(config(sampler={"urls": ["http://localhost"]})).contacts() == {
        "sampler.urls": "[http://localhost]"
    }
    assert backend_of(config(sampler={"engine": "tinker"})).contacts() == {"sampler.engine": "tinker"}
    assert backend_of(config(cluster=RAY)).contacts() == {"cluster.address": "local"}


def test_a_door_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(Exception, match="there is no rival 'twin'") as caught:
        door("agon.rivals", "twin")
    assert "league" in caught.value.fix  # type: ignore[attr-defined]
