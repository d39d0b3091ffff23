"""Machines: the only home of torch, transformers, peft, trl and vllm. An engine never imports `agon.game`."""

import warnings

# TRL warns seven times about the version of a vLLM that it is never asked to use here
warnings.filterwarnings("ignore", message="TRL currently supports vLLM versions")
