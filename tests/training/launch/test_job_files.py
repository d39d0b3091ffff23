"""Job files: what they run, that bash and Kubernetes can read them, and what is refused before one is printed."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from agon.cli import main
from agon.config import load_config
from agon.errors import InputError
from agon.training.launch.job import ClusterJob
from agon.training.launch.kubernetes_file import PodPlace, kubernetes_job
from agon.training.launch.slurm_file import slurm_job

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "paper" / "main" / "agon.yaml"
CODE = CONFIG.parents[1] / "code" / "agon.yaml"
PLACE = PodPlace("registry/agon:1", "claim")


def job(nodes: int = 1, gpus: int = 8, learners: int = 1, network: str | None = "10.0.0.0/8") -> ClusterJob:
    return ClusterJob(
        "my-run-0.6b", str(CONFIG), ("train.seed=3",), PurePosixPath("runs"), nodes, gpus, learners, network
    )


def manifests(made: ClusterJob) -> tuple[dict[str, Any], dict[str, Any]]:
    config, run = yaml.safe_load_all(kubernetes_job(made, PLACE, load_config(CONFIG, ["train.seed=3"])))
    return config, run


def test_a_command_starts_and_continues_the_same_run() -> None:
    words = ["train", str(CONFIG), "train.seed=3"]
    where = ["--name", "my-run-0.6b", "--out", "runs", "--resume"]
    assert job(gpus=1).command() == ["agon", *words, *where]
    one = ["torchrun", "--standalone", "--nproc-per-node=1", "-m", "agon"]
    assert job().command() == [*one, *words, *where], "alone it would see eight GPUs, which is refused"
    assert job(nodes=2).command("10.0.0.1:6379")[:6] == [*one, "train"]
    assert job(learners=4).command()[:3] == ["torchrun", "--standalone", "--nproc-per-node=4"]
    far = job(nodes=2, learners=2).command("10.0.0.1:6379")
    assert {"cluster.engine=ray", "cluster.address=10.0.0.1:6379", "cluster.samplers=14", "cluster.gpus=1"} <= set(far)


def test_engines_of_several_gpus_are_inside_one_node_each() -> None:
    split = replace(job(nodes=3, learners=1), gpus_per_engine=4)
    assert {"cluster.samplers=5", "cluster.gpus=4"} <= set(split.command("10.0.0.1:6379")), "1 + 2 + 2"
    with pytest.raises(InputError, match="no GPU left for an engine of 16"):
        replace(split, gpus_per_engine=16)


def test_a_job_of_several_nodes_gives_each_engine_the_gpus_that_its_config_splits_it_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--to", "slurm", "--nodes", "2", "--gpus", "8", "--network", "10.0.0.0/8"]
    assert main(["launch", str(CONFIG), "sampler.options.tensor_parallel_size=2", *options]) == 0
    assert "cluster.samplers=7 cluster.gpus=2" in capsys.readouterr().out


@pytest.mark.parametrize("nodes", [1, 3])
def test_bash_can_read_the_slurm_file(nodes: int, tmp_path: Path) -> None:
    text = slurm_job(job(nodes=nodes), tmp_path)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert f"#SBATCH --nodes={nodes}\n" in text
    assert ("ray start" in text) == (nodes > 1)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-"], input=text, text=True, check=True)


def test_a_job_that_is_stopped_waits_for_its_run_and_is_requeued(tmp_path: Path) -> None:
    """The file itself, with a run that takes a moment to save and a scontrol that writes what it is asked."""
    for name, body in (
        ("agon", 'trap "sleep 0.3; echo saved >> log; exit 143" TERM; echo up >> log; while :; do sleep 0.05; done'),
        ("scontrol", 'echo "$@" >> log'),
    ):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    process = subprocess.Popen(
        ["bash", "-c", slurm_job(job(gpus=1), tmp_path)], env={"PATH": path, "SLURM_JOB_ID": "7"}
    )
    log = tmp_path / "log"
    while not log.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    assert process.wait(60) == 143  # far above what it takes
    assert log.read_text().split("\n") == ["up", "saved", "requeue 7", ""]


@pytest.mark.parametrize(("visible", "learners", "left"), [("0,1,2,3", 1, "1,2,3"), ("4,5", 2, ""), (None, 2, "2,3")])
def test_the_run_waits_for_all_nodes_and_its_learners_have_gpus_of_their_own(
    visible: str | None, learners: int, left: str, tmp_path: Path
) -> None:
    """The file itself, with a Ray that takes a moment to start on each of two nodes."""
    for name, body in (
        ("hostname", "echo 10.0.0.1"),
        (
            "ray",
            'case "$*" in\n'
            '  "start --head"*) echo "ray sees $CUDA_VISIBLE_DEVICES" >> log; sleep 0.3; echo " 1 node_a" >> nodes;;\n'
            '  start*) sleep 0.6; echo " 1 node_b" >> nodes;;\n'
            "  *) echo Active:; cat nodes; exit;;\n"
            "esac\nexec sleep 60",
        ),
        ("srun", 'while [ "$1" != ray ]; do shift; done; exec "$@"'),
        ("torchrun", 'echo "$(cat nodes | wc -l) nodes" >> log'),
    ):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURMD_NODENAME": "n1"}
    devices = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **slurm, **devices}
    text = slurm_job(job(nodes=2, gpus=4, learners=learners), tmp_path)
    assert subprocess.run(["bash", "-c", text], env=environment, timeout=60).returncode == 0
    assert (tmp_path / "log").read_text().splitlines() == [f"ray sees {left}", "2 nodes"]


def test_the_whole_config_travels_with_the_pod() -> None:
    config, run = manifests(job(gpus=1))
    sent = yaml.safe_load(config["data"]["config.yaml"])
    assert (sent["train"]["seed"], sent["arm"]) == (3, "agon")
    spec = run["spec"]["template"]["spec"]
    [container] = spec["containers"]
    assert container["command"][:3] == ["agon", "train", "/config/config.yaml"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in spec["volumes"]}
    assert mounts["runs"] == "/runs"


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(
    ("changes", "boxed"),
    [([], False), (["sandbox.backend=http", "sandbox.url=http://h:1"], False), (["sandbox.backend=bwrap"], True)],
)
def test_pods_have_no_privilege_that_only_a_sandbox_needs(nodes: int, changes: list[str], boxed: bool) -> None:
    config = load_config(CODE if changes else CONFIG, changes)
    text = kubernetes_job(job(nodes=nodes), PLACE, config)
    assert "&id" not in text
    _, made = yaml.safe_load_all(text)
    contexts = [value["securityContext"] for value in containers_of(made)]
    assert len(contexts) == min(nodes, 2)
    for context in contexts:
        assert context["allowPrivilegeEscalation"] is False
        assert (context.get("capabilities") == {"drop": ["ALL"]}) is not boxed
        assert (context.get("seccompProfile") == {"type": "RuntimeDefault"}) is not boxed


def containers_of(tree: Any) -> list[dict[str, Any]]:
    """Every container below a manifest."""
    if isinstance(tree, list):
        return [found for part in tree for found in containers_of(part)]
    if not isinstance(tree, dict):
        return []
    return [*tree.get("containers", []), *(found for part in tree.values() for found in containers_of(part))]


def test_kubernetes_accepts_the_manifests() -> None:
    validator = pytest.importorskip("kubernetes_validate")
    config, run = manifests(job())
    cluster = manifests(job(nodes=2))[1]["spec"]["rayClusterSpec"]
    pods = [cluster["headGroupSpec"]["template"], cluster["workerGroupSpecs"][0]["template"]]
    for manifest in (config, run, *({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **p} for p in pods)):
        validator.validate(manifest, "1.30", strict=True)


def test_several_nodes_are_a_ray_job() -> None:
    _, run = manifests(job(nodes=3))
    assert (run["apiVersion"], run["kind"], run["metadata"]["name"]) == ("ray.io/v1", "RayJob", "my-run-0-6b")
    assert "cluster.address=127.0.0.1:6379" in run["spec"]["entrypoint"]
    assert run["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 2


def test_ray_in_pods_does_not_count_the_gpus_of_the_learners() -> None:
    spec = manifests(job(nodes=3, learners=2))[1]["spec"]
    assert spec["rayClusterSpec"]["headGroupSpec"]["rayStartParams"] == {"num-gpus": "6"}
    assert spec["rayClusterSpec"]["workerGroupSpecs"][0]["rayStartParams"] == {}
    assert spec["entrypoint"].startswith("env CUDA_VISIBLE_DEVICES=6,7 torchrun --standalone --nproc-per-node=2 ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"nodes": 0}, "0 nodes"),
        ({"learners": 9}, "9 learners need"),
        ({"nodes": 2, "gpus": 1, "learners": 1, "network": None}, "network"),
        ({"nodes": 2, "gpus": 0}, "no GPU left"),
    ],
)
def test_what_makes_no_job_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        job(**asked)


def test_files_of_this_machine_are_refused_where_no_pod_sees_them(tmp_path: Path) -> None:
    config = load_config(CONFIG, ["data.train.path=problems.jsonl"])
    with pytest.raises(InputError, match=r"problems\.jsonl"):
        kubernetes_job(job(), PLACE, config)


def test_the_command_prints_the_file_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["launch", str(CONFIG), "--to", "slurm", "--gpus", "2"]) == 0
    out, err = capsys.readouterr()
    assert "--nproc-per-node=2" in out
    assert err == "next: mkdir -p runs; without it Slurm has no place for the log\n"
    assert main(["launch", str(CONFIG), "--to", "k8s"]) == 2
    assert "--image" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_file_says_to_make_the_folder_of_its_log(tmp_path: Path) -> None:
    text = slurm_job(job(), tmp_path)
    assert "#SBATCH --output=runs/my-run-0.6b.slurm.log\n" in text
    assert "Submit it with: mkdir -p runs && sbatch FILE\n" in text


def test_columns_are_checked_before_a_job_file_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("problems.jsonl").write_text('{"problem": "What is 1 + 1?", "solution": "2"}')
    words = ["launch", str(CONFIG), "data.train={path: problems.jsonl}", "--to", "slurm"]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "no field question, answer (it has problem, solution)" in err
    words[2] = "data.train={path: problems.jsonl, columns: {question: problem, answer: solution}}"
    assert main(words) == 0
