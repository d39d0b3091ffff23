"""Machines: the only home of torch, transformers, peft, trl and vllm. An engine never imports `agon.game`."""
