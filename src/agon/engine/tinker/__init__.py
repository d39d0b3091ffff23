"""Sampler and learner on a Tinker service: hosted, or a SkyRL server of your own."""
