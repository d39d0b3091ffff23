"""A pair over two bases: a sampler and a learner for each policy."""
