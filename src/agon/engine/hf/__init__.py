"""Completions from transformers in this process: tiny models on a CPU."""
