"""Engines and verifiers on the nodes of a Ray cluster (docs/scale.md)."""
