"""What a run's config names, and what must be named again by whoever evaluates it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config
from agon.errors import InputError
from agon.eval.consent import check_consent, to_name

RUN = Path("runs/x")
HASHES = dict.fromkeys(("train", "dev", "held_out"), "0")


def config(**changes: Any) -> Config:
    data = {part: {"preset": "tabletop", "take": 3} for part in ("train", "dev", "held_out")}
    plain = {"arm": "agon", "model": {"name": "agon:tiny"}, "data": data, "verifier": "math"}
    return Config.model_validate(plain | changes)


def files(path: str) -> dict[str, Any]:
    return {part: {"path": path, "take": 3} for part in ("train", "dev", "held_out")}


def check(
    config: Config,
    *overrides: str,
    hashes: dict[str, str] = HASHES,
    **instead: Any,
) -> None:
    check_consent(RUN, to_name(config, hashes, **instead), overrides, f"agon eval {RUN}")


def test_a_plain_run_needs_no_consent() -> None:
    check(config(), hashes={})


def test_code_is_named_again() -> None:
    with pytest.raises(InputError, match="os:system: it is code") as refused:
        check(config(verifier="os:system"))
    assert refused.value.fix.endswith("agon eval runs/x verifier=os:system")
    check(config(verifier="os:system"), "verifier=os:system")


def test_a_function_that_python_gives_is_no_code_of_the_run() -> None:
    check(config(verifier="agon.verify.given:reward_0_accuracy"))
    with pytest.raises(InputError, match="given:re: it is code"):
        check(config(verifier="agon.verify.given:re"))


def test_an_environment_that_is_code_is_named_again() -> None:
    def of(env: str) -> Config:
        sources = {part: {"env": env, "take": 3} for part in ("train", "dev", "held_out")}
        return config(data=sources, verifier="environment")

    words = [f"data.{part}.env=verifiers:sums" for part in ("held_out", "dev", "train")]
    with pytest.raises(InputError, match="verifiers:sums: it is code") as refused:
        check(of("verifiers:sums"))
    assert refused.value.fix.endswith(f"agon eval runs/x {' '.join(words)}")
    check(of("verifiers:sums"), *words)
    check(of("reasoning-gym:chain_sum"))


def test_trackers_are_named_again_before_a_run_reports_to_them() -> None:
    told = config(report_to=["wandb", "tensorboard"])
    check(told)
    with pytest.raises(InputError, match="wandb") as refused:
        check(told, trains=True)
    assert refused.value.fix.endswith("agon eval runs/x 'report_to=[wandb,tensorboard]'")
    check(told, "report_to=[wandb,tensorboard]", trains=True)
    check(config(report_to=["tensorboard"]), trains=True)


@pytest.mark.parametrize("trains", [True, False])
def test_a_hosted_service_is_named_again_before_it_is_opened(trains: bool) -> None:
    told = config(sampler={"engine": "tinker"})
    with pytest.raises(InputError, match="tinker: it would be used with your account") as refused:
        check(told, trains=trains)
    assert refused.value.fix.endswith("agon eval runs/x sampler.engine=tinker")
    check(told, "sampler.engine=tinker", trains=trains)
    check(told, url="http://127.0.0.1:8000", trains=trains)
    with pytest.raises(InputError, match="would be sent problems"):
        check(config(sampler={"engine": "tinker", "urls": ["http://h"]}), trains=trains)


@pytest.mark.parametrize("url", ["http://203.0.113.5:8000", "http://127.0.0.1:8000"])
def test_a_server_is_named_again_or_replaced(url: str) -> None:
    told = config(sampler={"urls": [url, "http://[::1]:8001"], "network": "0.0.0.0/0"})
    with pytest.raises(InputError, match="would be sent problems") as refused:
        check(told, "eval.samples=2")
    named = f"sampler.urls=[{url},http://[::1]:8001]"
    assert refused.value.fix.endswith(f"agon eval runs/x eval.samples=2 '{named}'")
    check(told, named)
    check(told, url="http://localhost:8000/v1")


@pytest.mark.parametrize(
    ("sandbox", "wanted", "reason"),
    [
        ({"memory": "per_process"}, "sandbox.memory=per_process", "less protection"),
    ],
)
def test_a_sandbox_that_stops_less_is_named_again(sandbox: dict[str, str], wanted: str, reason: str) -> None:
    told = config(verifier="code", sandbox=sandbox, data=files("x.jsonl"))
    with pytest.raises(InputError, match=reason) as refused:
        check(told)
    assert refused.value.fix.endswith(f"agon eval runs/x {wanted}")
    check(told, wanted)
    check(config(sandbox=sandbox))


def test_a_sandbox_that_is_probed_needs_no_consent() -> None:
    check(config(verifier="code", sandbox={"backend": "landlock", "workers": 4}, data=files("x.jsonl")))


def test_a_file_is_named_again_unless_the_run_knows_its_problems() -> None:
    told = config(data=files("/private/secret.csv"))
    with pytest.raises(InputError, match=r"/private/secret\.csv: it is a file") as refused:
        check(told, hashes={"train": "0", "dev": "0"})
    assert refused.value.fix.endswith("data.held_out.path=/private/secret.csv")
    with pytest.raises(InputError, match="it is a file"):
        check(told, "data.held_out.path=/private/secret.csv", hashes={})
    check(told)
    check(told, *(f"data.{part}.path=/private/secret.csv" for part in HASHES), hashes={})
    check(told, hashes={}, data="math-500")


def test_all_that_is_needed_is_said_at_once() -> None:
    told = config(verifier="os:system", sampler={"urls": ["http://h"]}, data=files("../x.csv"))
    with pytest.raises(InputError) as refused:
        check(told, hashes={})
    check(told, *shlex.split(refused.value.fix.partition("runs/x ")[2]), hashes={})
