"""The pair behind an OpenAI-compatible API: a gateway that runs the cascade on vLLM servers."""
