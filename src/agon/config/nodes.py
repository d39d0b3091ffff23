"""Where a run's machines stand: on this one, or on the nodes of a cluster. docs/scale.md."""

from __future__ import annotations

from typing import Literal

from agon.config.section import Frozen, Natural


class ClusterConfig(Frozen):
    """Where a run's machines stand, if not all on this one: none of these keys changes what is drawn or learnt."""

    engine: Literal["none", "ray"] = "none"
    """Our choice: `ray` places engines and verifiers on the nodes of a Ray cluster; docs/scale.md says when it pays."""
    address: str | None = None
    """Our choice: the cluster, as HOST:PORT, or `local` to start one on this machine. Never guessed: RAY_ADDRESS is not
    read and `auto` is refused. Outside this machine it must be in `sampler.network`."""
    samplers: Natural = 1
    """Our choice: vLLM engines on the cluster, an actor each; 0 leaves them on the learner's machine."""
    gpus: Natural = 1
    """Our choice: GPUs of each sampler, as many as its tensor_parallel_size in `sampler.options`, and at least of each
    cell of `agon matrix` on Ray, which gets as many as its engines need. For Slurm, a comment in the script says how
    many to ask for. 0 is for nodes without one."""
    verifiers: Natural = 0
    """Our choice: verifiers on the cluster, an actor each; 0 leaves them on the learner's machine."""
