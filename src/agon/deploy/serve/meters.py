"""Prometheus metrics of one gateway process. Label values are ours: a model that is not served counts as `other`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import generate_latest

from agon.deploy.serve.answering import Stage
from agon.deploy.serve.chat_request import MODELS
from agon.deploy.serve.replicas import Replica

SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300, 600)


class Meters:
    def __init__(self) -> None:
        self.registry = into = CollectorRegistry()
        ProcessCollector(registry=into)
        self.requests = Counter("agon_requests", "Requests by model and status", ["model", "status"], registry=into)
        self.seconds = Histogram("agon_request_seconds", "Whole answers", ["model"], buckets=SECONDS, registry=into)
        self.stage_seconds = Histogram("agon_stage_seconds", "Stages", ["stage"], buckets=SECONDS, registry=into)
        self.first = Histogram(
            "agon_stage_first_token_seconds", "To the first ids", ["stage"], buckets=SECONDS, registry=into
        )
        self.tokens = Counter("agon_stage_tokens", "Tokens by stage", ["stage", "kind"], registry=into)
        self.resumed = Counter("agon_stage_resumed", "Stages that another server continued", ["stage"], registry=into)
        self.fallbacks = Counter("agon_fallbacks", "Answers that are the draft's own", registry=into)
        self.left = Counter("agon_clients_left", "Clients that left before the answer", registry=into)
        self.in_flight = Gauge("agon_in_flight", "Requests at work or waiting", registry=into)
        self.waiting = Gauge("agon_waiting", "Stages that wait for a server", registry=into)
        self.up = Gauge("agon_replica_up", "Whether a server is used", ["replica"], registry=into)

    def answered(self, model: str, status: int, seconds: float) -> None:
        name = model if model in MODELS else "other"
        self.requests.labels(name, str(status)).inc()
        self.seconds.labels(name).observe(seconds)

    def stage(self, stage: Stage) -> None:
        self.tokens.labels(stage.name, "prompt").inc(len(stage.prompt.ids))
        self.tokens.labels(stage.name, "completion").inc(len(stage.ids))
        self.resumed.labels(stage.name).inc(stage.resumed)
        if stage.first is not None:
            self.first.labels(stage.name).observe(stage.first)
        if stage.finish:
            self.stage_seconds.labels(stage.name).observe(stage.seconds)

    def replica(self, replica: Replica) -> None:
        self.up.labels(str(replica.number)).set(replica.up)

    def text(self) -> bytes:
        return generate_latest(self.registry)
