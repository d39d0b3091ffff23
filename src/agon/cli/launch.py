"""`agon launch`: print the job file of a run for Slurm or Kubernetes. Nothing is submitted."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from agon.cli.parser import config_arguments, say_waiting
from agon.errors import InputError

if TYPE_CHECKING:
    from agon.config import Config
    from agon.training.launch.job import ClusterJob

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,38}[a-z0-9])?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    config_arguments(parser)
    parser.add_argument("--to", choices=("slurm", "k8s"), required=True, help="what schedules jobs on the cluster")
    parser.add_argument("--name", help="name of the run; by default made of arm, model and seed")
    parser.add_argument("--out", default="runs", metavar="DIR", help="where runs live on the cluster (default: runs)")
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="machines; several need Ray (default: 1)")
    parser.add_argument("--gpus", type=int, default=1, metavar="N", help="GPUs of each, 0 for a CPU (default: 1)")
    parser.add_argument(
        "--learners",
        type=int,
        metavar="N",
        help="learner processes (default: one per GPU that engines do not have alone, or 1 with Ray)",
    )
    parser.add_argument("--network", metavar="CIDR", help="what connects several machines, such as 10.0.0.0/8")
    parser.add_argument("--image", metavar="IMAGE", help="k8s: an image with Agon in it (docker/)")
    parser.add_argument("--claim", metavar="NAME", help="k8s: the PersistentVolumeClaim that runs are kept in")
    parser.add_argument("--namespace", default="default", metavar="NAME", help="k8s: the namespace (default: default)")


def run(args: argparse.Namespace) -> int:
    """Check the config and its files of problems, then print the job file."""
    say_waiting(f"checking {args.config}")
    from agon.config import load_config
    from agon.data.sources import check_files
    from agon.engine.devices import gpus_per_engine
    from agon.plan.footprint import learners_of
    from agon.training.launch.job import ClusterJob
    from agon.training.run import default_name

    config = load_config(args.config, args.overrides)
    name = args.name or default_name(config)
    if not NAME.fullmatch(name):
        fix = "name it with --name: lower case letters, digits, dots and hyphens, at most 40"
        raise InputError(f"{name} cannot be the name of a job", fix=fix)
    learners = args.learners or (learners_of(config, args.gpus) if args.nodes == 1 else 1)
    made = args.config, tuple(args.overrides), PurePosixPath(args.out), args.nodes, args.gpus, learners, args.network
    job = ClusterJob(name, *made, gpus_per_engine=gpus_per_engine(config.sampler))
    text = _slurm(job) if args.to == "slurm" else _kubernetes(job, args, config)
    check_files(config.data)
    print(text, end="")
    if args.to == "slurm" and not Path(args.out).is_dir():
        print(f"next: mkdir -p {shlex.quote(args.out)}; without it Slurm has no place for the log", file=sys.stderr)
    return 0


def _slurm(job: ClusterJob) -> str:
    from agon.training.launch.slurm_file import slurm_job

    return slurm_job(job, Path.cwd())


def _kubernetes(job: ClusterJob, args: argparse.Namespace, config: Config) -> str:
    from agon.training.launch.kubernetes_file import PodPlace, kubernetes_job

    if not (args.image and args.claim):
        fix = "add --image IMAGE, with Agon in it (docker/), and --claim NAME, the volume that keeps the runs"
        raise InputError("Kubernetes needs an image and a claim", fix=fix)
    return kubernetes_job(job, PodPlace(args.image, args.claim, args.namespace), config)
