"""The compose file and the Kubernetes manifests: valid by their schemas, names that fit together, vLLM reachable from
the gateway only."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from agon.cli import parser_of
from agon.deploy.serve.gateway_settings import GatewaySettings

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
KUBERNETES = ("1.30", "1.37")
"""The oldest and the newest version that the manifests are for."""


def objects(*names: str) -> dict[str, Any]:
    """Kubernetes objects by kind and name."""
    texts = "\n---\n".join((DEPLOY / "kubernetes" / name).read_text() for name in names)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in yaml.safe_load_all(texts)}


@pytest.fixture
def cluster() -> dict[str, Any]:
    return objects("vllm.yaml", "gateway.yaml", "prometheus.yaml")


@pytest.fixture
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def container(cluster: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster[name]["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_accepts_every_object(cluster: dict[str, Any], version: str) -> None:
    assert len(list((DEPLOY / "kubernetes").iterdir())) == 3
    for each in cluster.values():
        kubernetes_validate.validate(each, version, strict=True)


def test_kubernetes_refuses_a_field_that_it_does_not_know(cluster: dict[str, Any]) -> None:
    wrong = copy.deepcopy(cluster["Deployment/agon-gateway"])
    wrong["spec"]["template"]["spec"]["containers"][0]["readyProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readyProbe"):
        kubernetes_validate.validate(wrong, KUBERNETES[-1], strict=True)


def compose_check(path: Path) -> int:
    """The exit code of a validation by the schema of the Compose specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True).returncode


def test_the_compose_file_is_one_by_the_specification(tmp_path: Path) -> None:
    assert compose_check(DEPLOY / "compose.yaml") == 0
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("stop_grace_period", "stop_grace"))
    assert compose_check(wrong) == 1


def test_prometheus_finds_gateways_and_servers(cluster: dict[str, Any]) -> None:
    config = yaml.safe_load(cluster["ConfigMap/prometheus"]["data"]["prometheus.yaml"])
    found = {job["job_name"]: job["dns_sd_configs"][0] for job in config["scrape_configs"]}
    for job, service in {"gateway": "agon-gateways", "vllm": "vllm"}.items():
        spec = cluster[f"Service/{service}"]["spec"]
        assert spec["clusterIP"] == "None", "a headless service has the address of every pod"
        assert found[job] == {"names": [service], "type": "A", "port": spec["ports"][0]["port"]}
    keys = cluster["Deployment/prometheus"]["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][1]
    assert config["scrape_configs"][0]["authorization"]["credentials_file"].startswith(keys["mountPath"])


def test_backends_are_the_pods_of_the_set(cluster: dict[str, Any]) -> None:
    args = parser_of("serve").parse(container(cluster, "Deployment/agon-gateway")["args"])
    servers = cluster["StatefulSet/vllm"]["spec"]
    port = cluster["Service/vllm"]["spec"]["ports"][0]["port"]
    pods = [f"http://vllm-{n}.{servers['serviceName']}:{port}" for n in range(servers["replicas"])]
    assert args.backend == [("", pod) for pod in pods]
    assert f"--port={port}" in container(cluster, "StatefulSet/vllm")["args"]
    assert args.slots * cluster["Deployment/agon-gateway"]["spec"]["replicas"] == 64


def test_only_gateways_and_prometheus_reach_vllm(cluster: dict[str, Any], compose: dict[str, Any]) -> None:
    rule = cluster["NetworkPolicy/vllm-from-gateway-only"]["spec"]
    labels = cluster["StatefulSet/vllm"]["spec"]["template"]["metadata"]["labels"]
    assert rule["podSelector"]["matchLabels"] == labels
    allowed = [each["podSelector"]["matchLabels"]["app"] for each in rule["ingress"][0]["from"]]
    assert allowed == ["agon-gateway", "prometheus"]
    for name, service in compose["services"].items():
        assert ("ports" in service) is (name == "gateway")
        assert ("outside" in service["networks"]) is (name == "gateway")
    assert compose["networks"]["inside"] == {"internal": True}


def test_the_gateway_has_time_to_drain(cluster: dict[str, Any], compose: dict[str, Any]) -> None:
    settings = GatewaySettings()
    needed = settings.drain_delay + settings.drain_limit + 5
    assert cluster["Deployment/agon-gateway"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > needed
    assert int(compose["services"]["gateway"]["stop_grace_period"].removesuffix("s")) > needed


def test_both_serve_the_pair_alike(cluster: dict[str, Any], compose: dict[str, Any]) -> None:
    args = [container(cluster, "StatefulSet/vllm")["args"], compose["services"]["vllm-0"]["command"]]
    assert [word for word in args[0][1:] if "=/" not in word] == [word for word in args[1][1:] if "=/" not in word]
    parsed = parser_of("serve").parse(compose["services"]["gateway"]["command"])
    assert parsed.names == "a=a,b=b"
    assert len(parsed.backend) == 2


@pytest.mark.parametrize("name", ["StatefulSet/vllm", "Deployment/agon-gateway", "Deployment/prometheus"])
def test_a_pod_is_no_root_and_writes_to_no_file_of_its_image(cluster: dict[str, Any], name: str) -> None:
    pod, inside = cluster[name]["spec"]["template"]["spec"], container(cluster, name)["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert inside == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_vllm_reports_no_usage_and_has_no_way_out(cluster: dict[str, Any], compose: dict[str, Any]) -> None:
    set_there = {each["name"]: each.get("value") for each in container(cluster, "StatefulSet/vllm")["env"]}
    for environment in (set_there, compose["services"]["vllm-0"]["environment"]):
        assert {environment[name] for name in ("VLLM_NO_USAGE_STATS", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY")} == {
            "1"
        }
    rule = cluster["NetworkPolicy/vllm-from-gateway-only"]["spec"]
    assert rule["policyTypes"] == ["Ingress", "Egress"]
    assert rule["egress"] == []


def test_no_pod_reaches_prometheus(cluster: dict[str, Any]) -> None:
    rule = cluster["NetworkPolicy/prometheus-from-nowhere"]["spec"]
    assert rule["podSelector"]["matchLabels"] == {"app": "prometheus"}
    assert (rule["policyTypes"], rule["ingress"]) == (["Ingress"], [])


def test_containers_have_no_capability_and_share_nothing_with_the_host(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert not service.keys() & {"ipc", "pid", "network_mode", "privileged", "cap_add"}, name
        assert service.get("read_only", False) is (name != "prometheus"), name
    assert compose["services"]["vllm-1"]["shm_size"] == "8gb"
