"""A training run as a job: its command, and the machines that it asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from agon.errors import InputError


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """One run. The same command starts it and continues it, so a job that is stopped can be put back in the queue."""

    name: str
    """Of the run."""
    config: str
    overrides: tuple[str, ...]
    out: PurePosixPath
    """The folder of runs, as the job sees it."""
    nodes: int
    gpus: int
    """Of each node; 0 for a run on a CPU."""
    learners: int
    """Learner processes, all on the first node, with a GPU each."""
    network: str | None = None
    """What the nodes are connected by, such as 10.0.0.0/8."""
    gpus_per_engine: int = 1

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus < 0 or self.learners < 1:
            fix = "name at least one node and one learner; --gpus 0 is a run on a CPU"
            raise InputError(f"{self.nodes} nodes, {self.gpus} GPUs, {self.learners} learners make no job", fix=fix)
        if self.learners > max(self.gpus, 1):
            message = f"{self.learners} learners need as many GPUs on the first node, which has {self.gpus}"
            raise InputError(message, fix=f"write --learners {max(self.gpus, 1)} or less")
        if self.nodes > 1 and self.samplers < 1:
            engine = "an engine" if self.gpus_per_engine == 1 else f"an engine of {self.gpus_per_engine}"
            message = f"{self.nodes} nodes have no GPU left for {engine} beside {self.learners} learners"
            raise InputError(message, fix="write --learners with a smaller number, or --gpus with a larger one")
        if self.nodes > 1 and self.network is None:
            fix = "add --network, such as --network 10.0.0.0/8: engines are asked at addresses inside it alone"
            raise InputError("several nodes need the network that connects them", fix=fix)

    @property
    def samplers(self) -> int:
        """Engines on several nodes: on every GPU that no learner has, each inside one node."""
        size = self.gpus_per_engine
        return (self.gpus - self.learners) // size + (self.nodes - 1) * (self.gpus // size)

    def command(self, address: str | None = None) -> list[str]:
        """What runs on the first node; `address` is that of Ray, for several nodes."""
        launcher = ["torchrun", "--standalone", f"--nproc-per-node={self.learners}", "-m", "agon"]
        # also for one learner among several GPUs, which would copy the model to all
        train = [*(launcher if self.gpus > 1 else ["agon"]), "train", self.config, *self.overrides]
        where = ["--name", self.name, "--out", str(self.out), "--resume"]
        return [*train, *(self._cluster(address) if address else ()), *where]

    def _cluster(self, address: str) -> Sequence[str]:
        return (
            *("cluster.engine=ray", f"cluster.address={address}", f"sampler.network={self.network}"),
            *(f"cluster.samplers={self.samplers}", f"cluster.gpus={self.gpus_per_engine}"),
        )
