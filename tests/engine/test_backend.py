"""Doors of backends: which one a config is for, what it refuses, and a contract that every installed one keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agon.cli import doctor
from agon.config.keys import names
from agon.data.presets import read_preset
from agon.deploy.pair_settings import settings_of
from agon.doors import door, doors, places
from agon.engine.backend import Backend, backend_of, engines_here
from agon.errors import ConfigError, DataError, InputError
from agon.verify import load_verifier
from tests.engine.helpers.configs import config

CHOSEN: dict[str, dict[str, Any]] = {
    "vllm": {},
    "hf": {"sampler": {"engine": "hf"}},
    "tinker": {"sampler": {"engine": "tinker"}},
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


ELSEWHERE = """
from agon.engine.backend import Backend
from agon.data.presets import GSM8K
from agon.training.rivals.frozen import Frozen


class Echo(Backend):
    \"\"\"Draws what it is asked.\"\"\"

    name = "echo"
    unused = {"sampler.replicas": "sampler.engine vllm"}


class Stubborn(Frozen):
    \"\"\"Never learns.\"\"\"

    kind = "stubborn"


def nod(workers, boxed_answers, sandbox):
    return "a verifier"
"""
ENTRIES = """
[agon.backends]
echo = elsewhere:Echo
[agon.rivals]
stubborn = elsewhere:Stubborn
[agon.verifiers]
nod = elsewhere:nod
[agon.presets]
grade-school = elsewhere:GSM8K
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody else's package is installed."""
    (tmp_path / "elsewhere.py").write_text(ELSEWHERE)
    installed = tmp_path / "elsewhere-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    places.cache_clear()
    yield
    places.cache_clear()
    sys.modules.pop("elsewhere", None)


@pytest.mark.usefixtures("elsewhere")
def test_what_another_package_brings_is_chosen_by_name_in_a_config() -> None:
    asked = config(sampler={"engine": "echo"}, rival={"kind": "stubborn"}, verifier="nod")
    assert type(backend_of(asked)).__module__ == "elsewhere"
    assert door("agon.rivals", asked.rival.kind)(asked).kind == "stubborn"
    assert load_verifier(asked.verifier) == "a verifier"  # type: ignore[comparison-overlap]
    with pytest.raises(ValueError, match=r"sampler\.replicas"):
        config(sampler={"engine": "echo", "replicas": 2})
    with pytest.raises(DataError, match="no option family"):
        read_preset("grade-school", None, {"family": "chain"})


BROKEN = {
    "does not import": "import no_such_package",
    "fails": "1 / 0",
    "exits": "raise SystemExit(3)",
    "has no such name": "",
    "is something else": "Echo = Stubborn = nod = GSM8K = object()",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
@pytest.mark.usefixtures("elsewhere")
def test_a_package_that_is_broken_harms_only_what_names_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(text)
    assert backend_of(config()).name == "vllm"
    assert backend_of(config(**CHOSEN["hf"])).name == "hf"
    assert door("agon.rivals", config(rival={"kind": "league"}).rival.kind).kind == "league"
    assert [kind.name for kind in engines_here()] == ["vllm", "hf"]
    for named in ({"sampler": {"engine": "echo"}}, {"rival": {"kind": "stubborn"}}):
        with pytest.raises(ConfigError, match=r"(echo|stubborn)'.*elsewhere") as refused:
            config(**named)
        assert "remove the package" in refused.value.fix
    assert {"backend echo", "rival stubborn"} <= {one.name for one in doctor.plugins() if one.status == "failed"}


def test_a_name_that_no_package_brings_is_answered_with_those_that_are_here() -> None:
    with pytest.raises(ValueError, match="there is no engine 'echo'; choose one of: vllm, hf, tinker"):
        config(sampler={"engine": "echo"})


def test_engines_that_ask_a_pair_open_a_sampler_from_disk() -> None:
    assert [kind.name for kind in engines_here()] == ["vllm", "hf"]


def test_what_a_config_contacts_is_named_by_key() -> None:
    assert backend_of(config()).contacts() == {}
    assert backend_of(config(sampler={"urls": ["http://localhost"]})).contacts() == {
        "sampler.urls": "[http://localhost]"
    }
    assert backend_of(config(sampler={"engine": "tinker"})).contacts() == {"sampler.engine": "tinker"}


@pytest.mark.parametrize("engine", ["tinker", "vlm"])
def test_a_pair_is_opened_by_an_engine_of_this_machine_alone(engine: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="opens a pair") as caught:
        settings_of(tmp_path, None, engine, None, None)  # type: ignore[arg-type]
    assert caught.value.fix == "choose from: vllm, hf"


def test_a_door_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(Exception, match="there is no rival 'twin'") as caught:
        door("agon.rivals", "twin")
    assert "league" in caught.value.fix  # type: ignore[attr-defined]
