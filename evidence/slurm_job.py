"""The job file of `agon launch --to slurm` on a real Slurm: stopped twice, requeued, and equal to a run left alone.

One machine is controller and node (Debian: apt-get install slurm-wlm; as root). The tiny base on a CPU, one process.
Slurm signals the batch script as it does before a time limit; the run saves, the script requeues itself, and the job
continues. `steps.jsonl` must equal that of the same run outside Slurm, byte for byte.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _lib import ROOT, arguments, cannot_run, verdict

EXTRA_SOURCES = ("src/agon/training/launch", "src/agon/cli/launch.py")
CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
SMALL = [
    *("data.train.take=36", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=2"),
    *("game.group_size=2", "eval.points=1", "save.every=4"),
]
STOP_AT = (4, 10)
"""Steps after which the job gets the signal."""
LIMIT = 3600.0
"""Seconds that the job may take: a busy machine is not a failure."""
SETTINGS = """ClusterName=agon
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
KillWait=60
NodeName={host} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextmanager
def slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Start a Slurm of one machine; the environment of its commands."""
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host, file = socket.gethostname().split(".")[0], folder / "slurm.conf"
    file.write_text(SETTINGS.format(host=host, folder=folder, ports=free_ports(2), cores=os.cpu_count()))
    environment = {**os.environ, "SLURM_CONF": str(file), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{folder}:{environment['PATH']}"
    (folder / "agon").write_text(f'#!/bin/bash\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m agon "$@"\n')
    (folder / "agon").chmod(0o755)
    Path("/run/munge").mkdir(exist_ok=True)
    shutil.chown("/run/munge", "munge", "munge")
    munge = subprocess.Popen(["runuser", "-u", "munge", "--", "/usr/sbin/munged", "--foreground", "--force"])
    time.sleep(1)
    services = [subprocess.Popen([f"/usr/sbin/{name}", "-D"], env=environment) for name in ("slurmctld", "slurmd")]
    try:
        yield environment
    finally:
        for service in reversed([munge, *services]):
            service.terminate()
            service.wait(60)


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def output_of(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def submit(out: Path, environment: dict[str, str]) -> str:
    """Print the job file and submit it; the number of the job."""
    words = [str(CONFIG), *SMALL, "--to", "slurm", "--gpus", "0", "--name", "run", "--out", str(out)]
    file = out / "job.sh"
    file.write_text(output_of([sys.executable, "-m", "agon", "launch", *words], environment))
    return output_of(["sbatch", "--parsable", str(file)], environment)


def steps_done(run: Path) -> int:
    file = run / "steps.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def follow(job: str, run: Path, environment: dict[str, str]) -> int:
    """Stop the job at some steps and wait for its end; how often it was requeued."""
    stops, deadline = list(STOP_AT), time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        shown = output_of(["scontrol", "show", "job", job], environment)
        facts = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        if facts["JobState"] in ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL"):
            print(f"job {job}: {facts['JobState']}, {facts['Restarts']} restarts", flush=True)
            return int(facts["Restarts"]) if facts["JobState"] == "COMPLETED" else -1
        if facts["JobState"] == "RUNNING" and stops and steps_done(run) >= stops[0]:
            print(f"stopped after {steps_done(run)} steps", flush=True)
            output_of(["scancel", "--batch", "--signal=TERM", job], environment)
            stops.pop(0)
            wait_until_not_running(job, environment, deadline)
        elif facts["JobState"] == "PENDING" and facts["Reason"] == "BeginTime":
            output_of(["scontrol", "update", f"JobId={job}", "StartTime=now"], environment)  # Slurm waits two minutes
        time.sleep(0.5)
    return -1


def wait_until_not_running(job: str, environment: dict[str, str], deadline: float) -> None:
    while (
        "JobState=RUNNING" in output_of(["scontrol", "show", "job", job], environment) and time.monotonic() < deadline
    ):
        time.sleep(0.2)


def main() -> None:
    arguments(__doc__ or "")
    if os.getuid() != 0 or not shutil.which("slurmctld"):
        cannot_run("this needs root and a Slurm: apt-get install slurm-wlm")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with slurm(folder) as environment:
            out = folder / "out"
            out.mkdir()
            restarts = follow(submit(out, environment), out / "run", environment)
            log = out / "run.slurm.log"
            print(log.read_text()[-2000:] if log.exists() else "no log")
            alone = [sys.executable, "-m", "agon", "train", str(CONFIG), *SMALL, "--name", "alone", "--out", str(out)]
            subprocess.run(alone, env=environment, check=True, stdout=subprocess.DEVNULL)
        same = (out / "run" / "steps.jsonl").read_bytes() == (out / "alone" / "steps.jsonl").read_bytes()
        steps = steps_done(out / "alone")
    verdict(
        "a Slurm job that is stopped saves, is requeued, resumes, and ends as the run that nobody stopped",
        {"restarts": restarts, "same steps": same},
        {"restarts": len(STOP_AT), "same steps": True},
        restarts == len(STOP_AT) and same,
        steps=steps,
    )


if __name__ == "__main__":
    main()
