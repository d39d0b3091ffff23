"""A run as a Slurm job: one node with torchrun, or several with Ray, which the job starts on each and takes along."""

from __future__ import annotations

import shlex
from pathlib import Path

from agon.training.launch.job import ClusterJob

NOTICE = 300
"""Seconds before the time limit at which Slurm sends SIGTERM: the step that is under way is given up, and saved."""
HEAD = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
{gpus}#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@{notice}
# Add what your cluster asks for, such as --partition, --account, --time, --cpus-per-task, --mem.
#
# A job that is stopped saves, is requeued, and resumes where it stopped.
# Slurm does not create the folder of --output. Submit it with: mkdir -p {out} && sbatch FILE
cd {here} || exit 1
"""
REQUEUE = """stopped= child=
trap 'stopped=1; [ -z "$child" ] || kill -TERM "$child"' TERM
step() {
  [ -z "$stopped" ] || return 143
  "$@" & child=$!
  [ -z "$stopped" ] || kill -TERM "$child"  # it came between the two
  wait "$child"; code=$?
  while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
  return $code
}
"""
"""Bash: `step COMMAND` passes SIGTERM on and waits until the command has saved and ended."""
AGAIN = """code=$?
[ -n "$stopped" ] && scontrol requeue "$SLURM_JOB_ID"
exit $code
"""
RAY = """export RAY_USAGE_STATS_ENABLED=0
ip=$(hostname -i) && ip=${{ip%% *}}
port=$((20000 + SLURM_JOB_ID % 10000))
gpus=${{CUDA_VISIBLE_DEVICES:-$(seq -s, 0 {last})}}
CUDA_VISIBLE_DEVICES=$(cut -s -d, -f{first}- <<< "$gpus") \\
  ray start --head --node-ip-address="$ip" --port="$port" --include-dashboard=false --block &
head=$!
srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks-per-node=1 --exclude="$SLURMD_NODENAME" \\
  ray start --address="$ip:$port" --block &
workers=$!
joined() {{ ray status --address="$ip:$port" 2>/dev/null | grep -c '^ *1 node_'; }}
SECONDS=0
while [ "$(joined)" -lt "$SLURM_JOB_NUM_NODES" ] && [ "$SECONDS" -lt {joining} ] && [ -z "$stopped" ]; do sleep 2; done
"""
"""Bash: Ray on every node, the first of which runs this script. `--block` keeps it in the job, which ends with it.

The first GPUs of the first node are the learners': Ray does not see them, or would put an engine beside a learner. The
run begins when all nodes have joined: it refuses a cluster that has no room for its engines.
"""
JOINING = 300
"""Seconds in which nodes may join; then the run says what is missing."""
ADDRESS = "ADDRESS-OF-RAY"
"""Stands for the address until the job runs."""


def slurm_job(job: ClusterJob, here: Path) -> str:
    """The batch script of a run that is started in the folder `here`."""
    log = shlex.quote(str(job.out / f"{job.name}.slurm.log"))
    gpus = f"#SBATCH --gpus-per-node={job.gpus}\n" if job.gpus else ""
    places = {"here": shlex.quote(str(here)), "out": shlex.quote(str(job.out))}
    head = HEAD.format(name=job.name, nodes=job.nodes, gpus=gpus, log=log, notice=NOTICE, **places)
    if job.nodes == 1:
        return head + REQUEUE + f"step {shlex.join(job.command())}\n" + AGAIN
    command = shlex.join(job.command(ADDRESS)).replace(ADDRESS, '"$ip:$port"')
    end = AGAIN.replace("code=$?\n", 'code=$?\nkill "$workers" "$head"\n')
    ray = RAY.format(last=job.gpus - 1, first=job.learners + 1, joining=JOINING)
    return head + REQUEUE + ray + f"step {command}\n" + end
