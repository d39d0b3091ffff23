"""vLLM as the sampler: in this process, or behind an HTTP server."""
