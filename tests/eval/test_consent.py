"""What a run's config names, and what must be named again by whoever evaluates it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from agon.config import Config
from agon.errors import InputError
from agon.eval.consent import check_consent
from agon.rundir.own import remember

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
    url: str | None = None,
    data: str | None = None,
) -> None:
    check_consent(RUN, config, overrides, hashes, url, data)


def test_a_plain_run_needs_no_consent() -> None:
    check(config(), hashes={})


def test_code_is_named_again() -> None:
    with pytest.raises(InputError, match="os:system is code") as refused:
        check(config(verifier="os:system"))
    assert refused.value.fix.endswith("agon eval runs/x verifier=os:system")
    check(config(verifier="os:system"), "verifier=os:system")


def test_a_function_that_python_gives_is_no_code_of_the_run() -> None:
    check(config(verifier="agon.verify.given:reward_0_accuracy"))
    with pytest.raises(InputError, match="given:re is code"):
        check(config(verifier="agon.verify.given:re"))


def test_an_environment_that_is_code_is_named_again() -> None:
    def of(env: str) -> Config:
        sources = {part: {"env": env, "take": 3} for part in ("train", "dev", "held_out")}
        return config(data=sources, verifier="environment")

    words = [f"data.{part}.env=verifiers:sums" for part in ("held_out", "dev", "train")]
    with pytest.raises(InputError, match="verifiers:sums is code") as refused:
        check(of("verifiers:sums"))
    assert refused.value.fix.endswith(f"agon eval runs/x {' '.join(words)}")
    check(of("verifiers:sums"), *words)
    check(of("reasoning-gym:chain_sum"))


def test_a_rival_is_named_again_before_it_is_asked_and_only_training_asks_it() -> None:
    url = "https://203.0.113.5/v1"
    told = config(rival={"kind": "endpoint", "url": url, "model": "m"})
    check(told)
    with pytest.raises(InputError, match=f"names a server, {re.escape(url)}") as refused:
        check_consent(RUN, told, (), HASHES, command="agon train {} --resume", trains=True)
    assert refused.value.fix.endswith(f"agon train runs/x --resume rival.url={url}")
    check_consent(RUN, told, (f"rival.url={url}",), HASHES, command="agon train {} --resume", trains=True)


def test_trackers_are_named_again_before_a_run_reports_to_them() -> None:
    told = config(report_to=["wandb", "tensorboard"])
    check(told)
    with pytest.raises(InputError, match="names trackers") as refused:
        check_consent(RUN, told, (), HASHES, command="agon train {} --resume", trains=True)
    assert refused.value.fix.endswith("agon train runs/x --resume 'report_to=[wandb,tensorboard]'")
    check_consent(RUN, told, ("report_to=[wandb,tensorboard]",), HASHES, trains=True)
    check_consent(RUN, config(report_to=["tensorboard"]), (), HASHES, trains=True)


@pytest.mark.parametrize("trains", [True, False])
def test_a_hosted_service_is_named_again_before_it_is_opened(trains: bool) -> None:
    told = config(sampler={"engine": "tinker"})
    with pytest.raises(InputError, match="hosted service of tinker") as refused:
        check_consent(RUN, told, (), HASHES, trains=trains)
    assert refused.value.fix.endswith("agon eval runs/x sampler.engine=tinker")
    check_consent(RUN, told, ("sampler.engine=tinker",), HASHES, trains=trains)
    check_consent(RUN, told, (), HASHES, "http://127.0.0.1:8000", trains=trains)
    with pytest.raises(InputError, match="names servers"):
        check_consent(RUN, config(sampler={"engine": "tinker", "urls": ["http://h"]}), (), HASHES, trains=trains)


@pytest.mark.parametrize("url", ["http://203.0.113.5:8000", "http://127.0.0.1:8000"])
def test_a_server_is_named_again_or_replaced(url: str) -> None:
    told = config(sampler={"urls": [url, "http://[::1]:8001"], "network": "0.0.0.0/0"})
    with pytest.raises(InputError, match="names servers") as refused:
        check(told, "eval.samples=2")
    named = f"sampler.urls=[{url},http://[::1]:8001]"
    assert refused.value.fix.endswith(f"agon eval runs/x eval.samples=2 '{named}'")
    check(told, named)
    check(told, url="http://localhost:8000/v1")


def test_a_cluster_is_named_again() -> None:
    told = config(cluster={"engine": "ray", "address": "127.0.0.1:6379"})
    with pytest.raises(InputError, match="names a cluster") as refused:
        check(told)
    assert refused.value.fix.endswith("agon eval runs/x cluster.address=127.0.0.1:6379")
    check(told, "cluster.address=127.0.0.1:6379")


@pytest.mark.parametrize(
    ("sandbox", "wanted", "reason"),
    [
        ({"backend": "http", "url": "http://h:1"}, "sandbox.url=http://h:1", "programs and tests would be sent"),
        ({"backend": "unsafe"}, "sandbox.backend=unsafe", "less protection"),
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
    with pytest.raises(InputError, match=r"names a file, /private/secret\.csv") as refused:
        check(told, hashes={"train": "0", "dev": "0"})
    assert refused.value.fix.endswith("data.held_out.path=/private/secret.csv")
    with pytest.raises(InputError, match="names a file"):
        check(told, "data.held_out.path=/private/secret.csv", hashes={})
    check(told)
    check(told, *(f"data.{part}.path=/private/secret.csv" for part in HASHES), hashes={})
    check(told, hashes={}, data="math-500")


def test_a_run_of_ones_own_needs_no_consent(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("arm: agon\n")
    told = config(verifier="os:system", sampler={"urls": ["http://h"]}, data=files("../x.csv"))
    with pytest.raises(InputError, match="os:system is code"):
        check_consent(tmp_path, told, (), {})
    remember(tmp_path / "config.yaml")
    check_consent(tmp_path, told, (), {})


def test_all_that_is_needed_is_said_at_once() -> None:
    told = config(verifier="os:system", sampler={"urls": ["http://h"]}, data=files("../x.csv"))
    with pytest.raises(InputError) as refused:
        check(told, hashes={})
    check(told, *shlex.split(refused.value.fix.partition("runs/x ")[2]), hashes={})
