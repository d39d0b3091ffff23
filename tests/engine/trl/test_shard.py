"""A base in two parts learns, scores and fails as a whole one does; real processes, which talk through gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.engine.trl.learner import TRLLearner
from agon.errors import ConfigError
from tests.engine.helpers.bases import random_base

from .helpers import model_config, train_config

ROOT = Path(__file__).resolve().parents[3]
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
WORK = """
import json, os, sys, time
from pathlib import Path
from agon.engine.trl.learner import TRLLearner
from agon.errors import AgonError
from agon.interrupt import Interrupt
from agon.protocols import Tokens
from agon.training.processes import Processes
from agon.types import Policy
from tests.engine.helpers.memory import peak
from tests.engine.trl.helpers import both, masked, model_config, rows, stream, train_config

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
rank = int(os.environ["RANK"])

def make(shard):
    settings = train_config(shard=shard, tokens_per_pass=50, gradient_checkpointing=True, beta=0.02)
    return TRLLearner(model_config(name=str(folder)), settings, total_steps=4)

def streams(step):
    if step == 1 and rank == 1:  # it has nothing to learn from, and takes part
        return [stream(policy, [masked(rows(policy, step))]) for policy in Policy]
    return both(step, groups=1 + rank, logprobs=True)

def learnt(learner):
    return [learner.update(streams(step)).metrics for step in range(3)], [learner.hash(policy) for policy in Policy]

def held(weight):
    # on a CPU a part is a view of the mapped file, of which only its own pages are read
    local = weight.to_local()
    start = local.untyped_storage().data_ptr()
    ranges = [line.split() for line in open("/proc/self/maps") if line.rstrip().endswith(".safetensors")]
    mapped = any(int(words[0].split("-")[0], 16) <= start < int(words[0].split("-")[1], 16) for words in ranges)
    return local.numel() * local.element_size() if mapped else local.untyped_storage().nbytes()

found = {}
with peak() as taken:
    split = make("base")
found["taken"] = taken[0]
base = [weight for name, weight in split.pair.model.named_parameters() if ".lora_" not in name]
found["whole"] = sum(weight.numel() * weight.element_size() for weight in base)
found["part"] = sum(map(held, base))
whole = make("none")
found["equal"] = learnt(split) == learnt(whole)

processes = Processes(rank, 2, Interrupt(), split.store())
split.join(processes)
tokens = [Tokens((1, 2, 3), (4, 5, 6, 7) * (1 + n)) for n in range(6)]
with processes.phase("check"):
    if rank == 0:
        found["scores"] = all(split.score(p, tokens) == whole.score(p, tokens) for p in (None, *Policy))
assert split.gather(rank) == [0, 1], "no collective is left over"

def fail(micro):
    raise ValueError("made up")

if rank == 1:
    split.trainer._micro_step = fail
began = time.monotonic()
try:
    with processes:
        split.update(streams(3), processes.phase)
except (AgonError, ValueError) as error:
    found["error"] = str(error)
found["seconds"] = time.monotonic() - began
(out / f"{rank}.json").write_text(json.dumps(found))
"""


@pytest.mark.slow
def test_a_base_in_parts_is_the_whole_one_to_the_bit_and_no_process_waits_for_one_that_failed(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 12, "head_dim": 64}
    random_base(**sizes).save_pretrained(tmp_path / "base", max_shard_size="20MB")
    (tmp_path / "work.py").write_text(WORK)
    words = [sys.executable, *LAUNCH, str(tmp_path / "work.py"), str(tmp_path / "base"), str(tmp_path)]
    exact = {"MALLOC_MMAP_THRESHOLD_": "262144"}  # glibc would reuse what it had freed, and keep what was freed here
    quiet = os.environ | exact | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": f"{ROOT}:{_path()}"}
    done = subprocess.run(words, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["equal"]
        assert found.get("scores", True)
        assert found["part"] <= found["whole"] // 2
        assert found["taken"] < 0.75 * found["whole"], "bytes at the peak of loading"
        assert "made up" in found["error"]
        assert found["seconds"] < 20


def _path() -> str:
    return os.environ.get("PYTHONPATH", "")


def test_one_process_alone_is_told_how_to_start_several() -> None:
    with pytest.raises(ConfigError, match="only one") as refused:
        TRLLearner(model_config(name="agon:tiny"), train_config(shard="base"), total_steps=1)
    assert "torchrun" in refused.value.fix
    assert "train.shard=none" in refused.value.fix
