"""A run for Kubernetes: one node as a Job, several as a RayJob of KubeRay, with the config in a ConfigMap."""

from __future__ import annotations

import shlex
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from agon.config import Config, resolved
from agon.config.read import with_paths
from agon.errors import InputError
from agon.training.launch.job import ClusterJob

Manifest = dict[str, Any]
RUNS = PurePosixPath("/runs")
"""Where the claim is mounted."""
CONFIG = PurePosixPath("/config")
RETRIES = 20
"""How often a run that was stopped or has failed is continued before it is left for a person."""
GRACE = 300
"""Seconds between SIGTERM and SIGKILL: the step that is under way is given up, and saved."""
RAY_PORT = 6379
NO_SANDBOX = {"capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}
"""What pods also go without, unless they run programs: a sandbox changes its uid, and makes namespaces."""


class _Block(str):
    """A text of several lines, to be read as it is."""


class _Dumper(yaml.SafeDumper):
    """Writes blocks as blocks."""


_Dumper.add_representer(_Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|"))


@dataclass(frozen=True, slots=True)
class PodPlace:
    """What a cluster has for the run."""

    image: str
    claim: str
    """A PersistentVolumeClaim: the runs."""
    namespace: str = "default"


def kubernetes_job(job: ClusterJob, place: PodPlace, config: Config) -> str:
    """The manifests as YAML. The whole config is in them, overrides included, so nothing else is needed from here."""
    if local := paths_in(config):
        fix = "name data sets and bases on the Hub, or put them into the image and run `agon launch --to k8s` there"
        raise InputError(f"pods do not see files of this machine: {', '.join(local)}", fix=fix)
    inside = replace(job, config=str(CONFIG / "config.yaml"), overrides=(), out=RUNS)
    made = _job(inside, place) if job.nodes == 1 else _ray_job(inside, place)
    if config.verifier != "code" or config.sandbox.backend == "http":
        for container in _containers(made):
            container["securityContext"] |= deepcopy(NO_SANDBOX)  # the same object twice would become an alias
    text = _Block(yaml.safe_dump(resolved(config), sort_keys=False))
    return yaml.dump_all([_config_map(job, place, text), made], Dumper=_Dumper, sort_keys=False, width=120)


def paths_in(config: Config) -> list[str]:
    """Files and folders of this machine that a config names."""
    found: list[str] = []

    def collect(path: str) -> str:
        found.append(path)
        return path

    with_paths(resolved(config), collect)
    return found


def _containers(made: Manifest) -> list[Manifest]:
    """The containers of a Job or a RayJob."""
    if made["kind"] == "Job":
        return list(made["spec"]["template"]["spec"]["containers"])
    cluster = made["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [container for group in groups for container in group["template"]["spec"]["containers"]]


def _config_map(job: ClusterJob, place: PodPlace, config: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(job, place), "data": {"config.yaml": config}}


def object_name(job: ClusterJob) -> str:
    """The name of the run, as services may have it: without dots."""
    return job.name.replace(".", "-")


def _metadata(job: ClusterJob, place: PodPlace) -> Manifest:
    return {"name": object_name(job), "namespace": place.namespace, "labels": {"app.kubernetes.io/name": "agon"}}


def _job(job: ClusterJob, place: PodPlace) -> Manifest:
    pod = _pod(job, place, job.command())
    spec = {"backoffLimit": RETRIES, "template": {"spec": {"restartPolicy": "OnFailure", **pod}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(job, place), "spec": spec}


def _ray_job(job: ClusterJob, place: PodPlace) -> Manifest:
    """Ray's head has the learner and the runs; the driver starts there, so that its Ray is on this machine.

    The head's last GPUs are the learners': Ray counts the others alone, or would put an engine beside a learner.
    """
    for_engines = job.gpus - job.learners
    mine = ",".join(map(str, range(for_engines, job.gpus)))
    head = {"rayStartParams": {"num-gpus": str(for_engines)}, "template": {"spec": _pod(job, place, None)}}
    workers = {
        "groupName": "samplers",
        "replicas": job.nodes - 1,
        "minReplicas": job.nodes - 1,
        "maxReplicas": job.nodes - 1,
        "rayStartParams": {},
        "template": {"spec": _worker_pod(job, place)},
    }
    spec = {
        "entrypoint": shlex.join(["env", f"CUDA_VISIBLE_DEVICES={mine}", *job.command(f"127.0.0.1:{RAY_PORT}")]),
        "backoffLimit": RETRIES,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": head, "workerGroupSpecs": [workers]},
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": _metadata(job, place), "spec": spec}


def _pod(job: ClusterJob, place: PodPlace, command: list[str] | None) -> Manifest:
    """A pod that sees config and runs."""
    pod = _worker_pod(job, place)
    [container] = pod["containers"]
    container["volumeMounts"] += [
        {"name": "config", "mountPath": str(CONFIG)},
        {"name": "runs", "mountPath": str(RUNS)},
    ]
    pod["volumes"] += [
        {"name": "config", "configMap": {"name": object_name(job)}},
        {"name": "runs", "persistentVolumeClaim": {"claimName": place.claim}},
    ]
    if command:
        container["command"] = command
    return pod


def _worker_pod(job: ClusterJob, place: PodPlace) -> Manifest:
    """A pod with GPUs and memory that its processes share; no token of the cluster, no way to gain a privilege."""
    container = {
        "name": "agon",
        "image": place.image,
        "resources": {"limits": {"nvidia.com/gpu": job.gpus} if job.gpus else {}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    return {
        "terminationGracePeriodSeconds": GRACE,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}],
    }
