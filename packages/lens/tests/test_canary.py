"""What a canary says of servers that are right, wrong, or able to answer only some questions.

These servers are fakes; `evidence/canary_for_all.py` asks real ones.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from agon_lens.canary import Draw, _probe_folder, check, distance
from agon_lens.cli import main
from agon_lens.errors import LensError
from lens_servers import Engine, adapter, serving


def test_an_engine_that_holds_the_adapter_is_good(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "now")
    engine = Engine({"policy": folder})
    with serving(engine) as url:
        report = check(f"{url}/v1", {"policy": folder})
    assert report.good
    assert report.checked == ["slot of policy", "whether adapters are used"]
    assert list(engine.held) == ["policy"], "the probe is unloaded"
    assert [path.name for path in tmp_path.iterdir()] == ["now"], "and its files are gone"


def test_an_adapter_of_the_step_before_is_named(tmp_path: Path) -> None:
    before, now = adapter(tmp_path / "before", 1.0), adapter(tmp_path / "now", 2.0)
    with serving(Engine({"policy": before})) as url:
        (fault,) = check(url, {"policy": now}).faults
    assert "does not hold policy as now has it: model.layers.0.mlp" in fault


def test_an_adapter_that_was_never_delivered_is_named(tmp_path: Path) -> None:
    with serving(Engine({})) as url:
        (fault,) = check(url, {"policy": adapter(tmp_path / "now")}).faults
    assert "policy is not served" in fault


def test_an_engine_that_ignores_adapters_is_named_though_its_slots_are_right(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "now")
    with serving(Engine({"policy": folder}, fault="ignores")) as url:
        (fault,) = check(url, {"policy": folder}).faults
    assert "ignores adapters" in fault


@pytest.mark.parametrize(
    ("fault", "needs"), [("", "VLLM_SERVER_DEV_MODE=1"), ("no extension", "--worker-extension-cls agon.engine.vllm")]
)
def test_what_a_server_cannot_answer_is_said_with_what_it_needs(tmp_path: Path, fault: str, needs: str) -> None:
    folder = adapter(tmp_path / "now")
    with serving(Engine({"policy": folder}, fault=fault, attests=False, loads=False)) as url:
        report = check(url, {"policy": folder})
    assert report.checked == []
    assert needs in report.skipped[0]
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1" in report.skipped[1]


def test_log_probs_are_compared_with_the_learners_on_any_server(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "now")
    asked: list[str | None] = []

    def score(name: str | None, draws: Sequence[Draw]) -> list[list[float]]:
        asked.append(name)
        return [[-0.25 if name is None else -1.5] * len(draw.ids) for draw in draws]

    with serving(Engine({"policy": folder}, attests=False, loads=False)) as url:
        report = check(url, {"policy": folder}, score=score)
    assert asked == [None, "policy"]
    assert report.gaps == {"base": 0.0, "policy": 1.0}
    (fault,) = report.faults
    assert fault.startswith("policy is 1 nats per token from the learner's")


def test_weights_that_a_trainer_merges_and_pushes_are_compared_without_an_adapter() -> None:
    with serving(Engine({}, attests=False, loads=False)) as url:
        for value, good in ((-0.25, True), (-1.25, False)):
            report = check(url, {}, score=lambda name, draws, value=value: [[value] * len(d.ids) for d in draws])
            assert (report.good, report.checked, report.skipped) == (good, ["log-probs of base"], [])


def test_scores_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(LensError, match="scored 1 tokens where the server drew 2"):
        distance([Draw("p", "t", ("a", "b"), (1, 2), (-1.0, -1.0))], [[-1.0]])


@pytest.mark.parametrize("dtype", ["F32", "F16"])
def test_a_probe_has_the_shape_of_the_adapter_and_large_weights(tmp_path: Path, dtype: str) -> None:
    folder = adapter(tmp_path / "now", dtype=dtype)
    with _probe_folder(folder) as probe:
        made = (probe / "adapter_model.safetensors").read_bytes()
        assert probe.parent == tmp_path
    given = (folder / "adapter_model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", made[:8])
    assert (len(made), made[: 8 + length]) == (len(given), given[: 8 + length])
    weights = struct.unpack("<8f" if dtype == "F32" else "<8e", made[8 + length :])
    assert 0.1 < max(map(abs, weights)) < 5


def test_the_command_exits_with_1_for_a_fault_and_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, now = adapter(tmp_path / "before", 1.0), adapter(tmp_path / "now", 2.0)
    with serving(Engine({"policy": now})) as url:
        assert main(["canary", url, "--adapter", f"policy={now}"]) == 0
        assert "holds what it should" in capsys.readouterr().out
        assert main(["canary", url, "--adapter", f"policy={before}", "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["good"] is False
        assert main(["canary", url, "--adapter", f"policy={before}"]) == 1
        assert "WRONG: the engine does not hold policy" in capsys.readouterr().out
        learner = tmp_path / "learner.py"
        learner.write_text(
            "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "@dataclass\nclass Scores:\n    known: float\n"
            "def score(name, draws):\n    return [[Scores(-0.5 if name else -0.25).known] * 4 for _ in draws]\n"
        )
        words = ["canary", url, "--adapter", f"policy={now}", "--learner", f"{learner}:score", "--no-probe"]
        assert main(words) == 0
        assert "policy: 0 nats per token" in capsys.readouterr().out


def test_bad_input_is_answered_with_what_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = adapter(tmp_path / "now")
    learner = tmp_path / "learner.py"
    learner.write_text("def score(name, draws):\n    return draws[0].ids / 0\n")
    with serving(Engine({"policy": folder}, attests=False, loads=False)) as url:
        for words, advice in (
            ([url, "--adapter", "policy"], "--adapter NAME=FOLDER"),
            ([url, "--adapter", f"policy={tmp_path}"], "save_pretrained"),
            (["127.0.0.1", "--adapter", f"policy={folder}"], "http://127.0.0.1:8000"),
            (["http://127.0.0.1:9", "--adapter", f"policy={folder}"], "start the server"),
            ([url, "--adapter", f"policy={folder}"], "--learner"),
            ([url, "--adapter", f"policy={folder}", "--learner", "nope.py:f"], "--learner FILE.py:FUNCTION"),
            ([url, "--adapter", f"policy={folder}", "--learner", f"{learner}:gone"], "name a function"),
            ([url, "--learner", f"{learner}:score"], "repair that function"),
            ([url], "--adapter NAME=FOLDER"),
        ):
            assert main(["canary", *words]) == 2
            error, fix = capsys.readouterr().err.splitlines()
            assert error.startswith("error: ")
            assert advice in fix


def test_a_server_without_log_probs_is_refused(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "now")
    engine = Engine({"policy": folder}, fault="no logprobs", attests=False, loads=False)
    with serving(engine) as url, pytest.raises(LensError, match="without log-probs"):
        check(url, {"policy": folder}, score=lambda name, draws: [[0.0] * 4 for _ in draws])


@pytest.mark.parametrize("status", [401, 403, 407, 502])
@pytest.mark.parametrize("path", ["/v1/models", "/collective_rpc", "/v1/load_lora_adapter"])
def test_what_a_proxy_denies_is_an_error_and_no_missing_feature(tmp_path: Path, path: str, status: int) -> None:
    folder = adapter(tmp_path / "now")
    engine = Engine({"policy": folder})
    engine.denied, engine.status = path, status
    with serving(engine) as url, pytest.raises(LensError, match=f"{path} answered {status}") as refused:
        check(url, {"policy": folder})
    assert "proxy" in refused.value.fix


def test_an_adapter_that_the_server_refuses_is_said_in_its_words(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "now")
    engine = Engine({"policy": folder})
    engine.denied, engine.status = "/v1/load_lora_adapter", 400
    with serving(engine) as url:
        (skipped,) = check(url, {"policy": folder}).skipped
    assert "a proxy" in skipped


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = adapter(tmp_path / "now")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(Engine({"policy": folder})) as url:
        assert check(url, {"policy": folder}).good
