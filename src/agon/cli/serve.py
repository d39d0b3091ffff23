"""`agon serve`: the pair behind an OpenAI-compatible API, on a vLLM of its own or on servers that run already."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from agon.cli.parser import say_waiting, seconds, whole_number
from agon.errors import InputError
from agon.urls import host_of

KEYS = "AGON_SERVE_KEYS"
PORT = whole_number(1, 65535)
COUNT = whole_number(1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pair", type=Path, metavar="RUN|PAIR", help="a run directory, or a folder with a pair")
    help = "a running vLLM server, instead of starting one; may be given several times"
    parser.add_argument("--backend", action="append", default=[], type=_backend, metavar="URL", help=help)
    help = "with --backend: what the servers call the adapters (default: their versions)"
    parser.add_argument("--names", metavar="a=M,b=M", default="", help=help)
    parser.add_argument("--host", default="127.0.0.1", help=f"beyond 127.0.0.1 keys are required, in {KEYS}")
    parser.add_argument("--port", type=PORT, default=8000, metavar="N", help="port to listen on (default: 8000)")
    help = "seconds for a whole answer, both stages (default: 600)"
    parser.add_argument("--deadline", type=seconds, default=600.0, metavar="S", help=help)
    help = "seconds of silence after which a server that has work is given up (default: 20)"
    parser.add_argument("--stall", type=seconds, default=20.0, metavar="S", help=help)
    parser.add_argument("--slots", type=COUNT, default=64, metavar="N", help="stages at once per server (default: 64)")
    help = "answers that may wait beyond the slots; more get 429 (default: 256)"
    parser.add_argument("--queue", type=whole_number(0), default=256, metavar="N", help=help)
    parser.add_argument(
        "--per-key", type=COUNT, metavar="N", help="answers at once for one API key (default: no limit)"
    )
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), help="of the vLLM that is started")
    parser.add_argument(
        "--max-model-len", type=COUNT, metavar="N", help="tokens of context of the vLLM that is started"
    )
    parser.add_argument("--vllm-port", type=PORT, metavar="N", help="its port (default: the gateway's plus 1)")
    help = "print the `vllm serve` command and exit"
    parser.add_argument("--print-command", action="store_true", help=help)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; running answers are finished."""
    from agon.cli.eval import model_names
    from agon.deploy.serve.admission import Keys
    from agon.deploy.serve.gateway_settings import GatewaySettings
    from agon.deploy.serve.request_log import log_to
    from agon.deploy.serve.served_pair import ServedPair
    from agon.deploy.serve.serving import Address, build_gateway, check_bind, serve, without_torch
    from agon.deploy.serve.vllm_command import VllmProcess, VllmSettings, shown, vllm_command, vllm_key
    from agon.engine.http_client import KEY

    if args.backend and args.print_command:
        raise InputError(
            "--backend uses servers that run already", fix="leave one of --backend and --print-command out"
        )
    port = args.vllm_port or args.port + 1
    _check_port(port, args.port)
    say_waiting(f"loading {args.pair}")
    without_torch()
    pair = ServedPair.load(args.pair, weights=not args.backend)
    command: list[str] = []
    if args.backend:
        urls, key = args.backend, os.environ.get(KEY, "").strip()
    else:
        urls, key = [f"http://127.0.0.1:{port}"], vllm_key()
        command = vllm_command(pair, VllmSettings(port=port, dtype=args.dtype, context=args.max_model_len))
    if args.print_command:
        print(shown(command))
        return 0
    keys = Keys(word.strip() for word in os.environ.pop(KEYS, "").split(","))  # no process of ours inherits them
    address = Address(args.host, args.port)
    check_bind(address, keys)
    given = model_names(args.names)
    names = {policy: given.get(policy.value, version) for policy, version in pair.folder.info.versions.items()}
    limits = GatewaySettings(
        deadline=args.deadline, stall=args.stall, slots=args.slots, queue=args.queue, per_key=args.per_key
    )
    log_to(sys.stderr, starting=bool(command))
    gateway = build_gateway(pair, urls, names, limits, key)
    serve(gateway, keys, address, [VllmProcess(command, key)] if command else [])
    return 0


def _check_port(port: int, gateway: int) -> None:
    if port == gateway or port > 65535:
        raise InputError(f"vLLM cannot listen on port {port}", fix="choose another with --vllm-port")


def _backend(url: str) -> str:
    """The URL of a server."""
    if not host_of(url):
        raise InputError(f"--backend {url} is not the URL of a server", fix="write --backend http://HOST:PORT")
    return url
