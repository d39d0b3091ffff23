"""What a stranger may send: adapters, pairs, runs, bases and chat templates that want more than to be measured.

Each case changes a copy of something good and names the commands that a user would type about it. What they are after
can be seen: `ran` appears when code of theirs runs, `secret` must be neither sent nor copied, `outside` not touched.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from _lib import ROOT
from agon.config import load_config
from agon.data import splits
from agon.engine.render import Renderer
from agon.engine.shipped import folder_of
from agon.game.prompts import PROMPTS_HASH
from agon.rundir import RunDir
from agon.rundir.adapter import SETTINGS, WEIGHTS
from agon.rundir.files import weights_hash
from agon.rundir.manifest import SplitFacts
from agon.rundir.pair import PairInfo
from agon.rundir.records import RunState
from agon.types import Policy
from tests.engine.helpers.servers import VERSIONS, adapters
from tests.rundir.test_adapter import BROKEN, STRANGE
from tests.rundir.test_pair import HOSTILE

CONFIG = ROOT / "configs" / "tabletop" / "agon.yaml"
SIZES = [
    *("data.train.take=4", "data.dev.take=2", "data.held_out.take=2", "train.problems_per_step=1", "game.group_size=2"),
    *("train.max_completion_tokens=8", "eval.max_completion_tokens=8", "eval.points=0", "train.tokens_per_pass=40"),
]
SECRET = "the-key-of-this-machine"
EVIL = "evil_stranger"
"""A module that can be imported, and must not be."""

Commands = list[list[str]]


@dataclass(frozen=True, slots=True)
class Case:
    """`make` prepares a folder of its own and returns the commands to try."""

    kind: str
    name: str
    make: Callable[[Path], Commands]


@dataclass(frozen=True, slots=True)
class Sender:
    """Good things to spoil, and what a stranger is after."""

    root: Path
    url: str
    """Where they would like to have things sent."""

    @property
    def ran(self) -> Path:
        return self.root / "ran"

    @property
    def secret(self) -> Path:
        return self.root / "secret.csv"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    def prepare(self) -> None:
        """Make the good ones, once."""
        rows = "".join(f"{SECRET} {n},{n}\n" for n in range(9))
        self.secret.write_text(f"question,answer\n{rows}")
        (self.outside / ".tmp-mine").mkdir(parents=True)
        for name in ("file", ".tmp-mine/file", ".old-mine", "step_000001.parquet"):
            (self.outside / name).write_text("precious, and no end of line")
        (self.root / "modules").mkdir()
        (self.root / "modules" / f"{EVIL}.py").write_text(self.code("def judge(problem, completion): return True\n"))
        config = load_config(CONFIG, [*SIZES, "train.max_steps=1"])
        run = RunDir.create(self.root, "good", config, SplitFacts(hashes=splits(config.data).hashes))
        folders = adapters(self.root / "adapters")
        template = Renderer.load(str(folder_of("agon:tiny"))).hash
        facts = {
            "prompts_hash": PROMPTS_HASH,
            "chat_template_hash": template,
            "base_hash": weights_hash(folder_of("agon:tiny")),
        }
        info = PairInfo(versions=VERSIONS, base="agon:tiny", direction="ba", arm="agon", **facts)
        run.write_pair(folders[Policy.A], folders[Policy.B], info)

    def code(self, more: str = "") -> str:
        return f"open({str(self.ran)!r}, 'w').close()\n{more}"

    def pickle(self) -> bytes:
        return pickle.dumps(Payload(str(self.ran)))

    def run(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.root / "good", folder / "run", symlinks=True))

    def base(self, folder: Path) -> Path:
        return Path(shutil.copytree(folder_of("agon:tiny"), folder / "base"))

    def adapter(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.root / "adapters" / "a", folder / "adapter"))


class Payload:
    """Leaves a mark where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


# -- adapters and pairs -----------------------------------------------------------------------------------------------

TEXTS = {
    "empty settings": b"",
    "settings that are a list": b"[]",
    "settings without end": b"[" * 99_999,
    "an infinite scale": b'{"peft_type": "LORA", "lora_alpha": 1e400}',
}
MISFITS = {"a different rank": {"r": 7}, "no such layer": {"target_modules": ["no_such"]}}


def adapter_cases(sender: Sender) -> dict[str, Callable[[Path], Path]]:
    """Adapters by name; each function makes one."""

    def settings(said: dict[str, Any], folder: Path) -> Path:
        made = sender.adapter(folder)
        edit(made / SETTINGS, **said)
        return made

    def raw(file: str, data: bytes, folder: Path) -> Path:
        made = sender.adapter(folder)
        (made / file).write_bytes(data)
        return made

    return {
        **{f"settings: {name}": partial(settings, said) for name, said in {**STRANGE, **MISFITS}.items()},
        **{f"weights: {name}": partial(raw, WEIGHTS, data) for name, data in BROKEN.items()},
        **{f"file: {name}": partial(raw, SETTINGS, data) for name, data in TEXTS.items()},
        "a pickle named safetensors": lambda folder: raw(WEIGHTS, sender.pickle(), folder),
        "weights that are not finite": lambda folder: not_finite(sender.adapter(folder)),
    }


def not_finite(folder: Path) -> Path:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / WEIGHTS)
    next(iter(tensors.values()))[0, 0] = float("nan")
    save_file(tensors, folder / WEIGHTS)
    return folder


def pair_cases(sender: Sender) -> list[Case]:
    def make(spoil: Callable[[Path], None], folder: Path) -> Commands:
        pair = Path(shutil.copytree(sender.root / "good" / "pair", folder / "pair"))
        spoil(pair)
        return [["eval", str(pair), "--config", str(CONFIG), *SIZES, "--out", str(folder / "out")]]

    odd: dict[str, Callable[[Path], Any]] = {
        "an arm that is a list": lambda pair: edit(pair / "agon.json", arm=["agon"]),
        "a base without a name": lambda pair: edit(pair / "agon.json", base=""),
        "a base that is a folder of this machine": lambda pair: edit(pair / "agon.json", base=str(sender.outside)),
        "facts that are a pipe": lambda pair: pipe(pair / "agon.json"),
        "weights that are a pipe": lambda pair: pipe(pair / "a" / WEIGHTS),
    }
    spoilers = {name: spoil for name, (spoil, _) in HOSTILE.items()} | odd
    return [Case("pair", name, partial(make, spoil)) for name, spoil in spoilers.items()]


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


# -- runs -------------------------------------------------------------------------------------------------------------


def change_config(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    raw = yaml.safe_load((run / "config.yaml").read_text())
    change(raw)
    (run / "config.yaml").write_text(yaml.safe_dump(raw))


def server_and_file(sender: Sender, run: Path) -> None:
    """Ask to have a local file sent to an address of theirs."""

    def change(raw: dict[str, Any]) -> None:
        raw["sampler"] |= {"engine": "vllm", "urls": [sender.url], "network": "0.0.0.0/0"}
        for part in ("train", "dev", "held_out"):
            raw["data"][part] = {"path": str(sender.secret), "take": 2}

    change_config(run, change)
    manifest = json.loads((run / "manifest.json").read_text())
    edit(run / "manifest.json", data=manifest["data"] | {"hashes": {}})


def secret_beside_adapter(sender: Sender, run: Path) -> None:
    (run / "pair" / "a" / "secret").symlink_to(sender.secret)
    (run / "pair" / "a" / "more").write_text("more")


def pickled_checkpoint(sender: Sender, run: Path) -> None:
    def write(folder: Path) -> None:
        for policy in Policy:
            shutil.copytree(sender.root / "adapters" / policy.value, folder / policy.value)
        (folder / "trainer_state").mkdir()
        for name in ("optimizer.pt", "rng_state.pth", "state.bin", "state.safetensors", "state.json"):
            (folder / "trainer_state" / name).write_bytes(sender.pickle())

    RunDir.open(run).save(0, write, RunState(versions=VERSIONS, first=VERSIONS))


def text(name: str, content: str | bytes, run: Path) -> None:
    """Replace a file of the run."""
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    (run / name).write_bytes(content.encode() if isinstance(content, str) else content)


FORGED = json.dumps({"schema": 1, "measures": {"outcomes": {"p": [7]}}, "complete": "no", "seed": float("nan")})


def run_spoilers(sender: Sender) -> dict[str, Callable[[Path], Any]]:
    """What may be wrong with a run."""
    return {
        "a verifier of their own": lambda run: change_config(run, lambda raw: raw.update(verifier=f"{EVIL}:judge")),
        "a server and a local file": partial(server_and_file, sender),
        "a config that extends a local file": partial(text, "config.yaml", f"extends: {sender.secret}\n"),
        "a config with Python tags": partial(text, "config.yaml", f"x: !!python/name:{EVIL}.judge"),
        "a config without end": partial(text, "config.yaml", "[" * 99_999),
        "a base with code": lambda run: change_config(
            run, lambda raw: raw["model"].update(name=str(code_base(sender, run)))
        ),
        "a secret linked beside its adapter": partial(secret_beside_adapter, sender),
        "a checkpoint of pickles": partial(pickled_checkpoint, sender),
        "a result of no kind": partial(text, "evals/held_out/cascade.json", FORGED),
        "a result without end": partial(text, "evals/held_out/cascade.json", "[" * 99_999),
        "bouts that are no table": partial(text, "bouts/step_000000.parquet", sender.pickle()),
        "bouts of an evaluation that are none": partial(text, "evals/held_out/ab.jsonl", '{"step": NaN}\n[]\n'),
        "steps that are none": partial(text, "steps.jsonl", '{"step": 1e999}\n{"step": []}\nnull\n'),
        "points that are none": partial(text, "points.json", '[{"step": "x"}]'),
        "a manifest of huge numbers": partial(text, "manifest.json", f'{{"schema": 1, "seeds": {"9" * 9999}}}'),
    }


def run_cases(sender: Sender) -> list[Case]:
    def make(spoil: Callable[[Path], Any], folder: Path) -> Commands:
        run = sender.run(folder)
        spoil(run)
        name, out = str(run), str(folder / "out")
        return [
            *([word, name] for word in ("view", "report")),
            ["eval", name, "--out", f"{out}-eval", "--system", "a", "--limit", "1"],
            ["compare", name, str(sender.root / "good")],
            ["export", name, "--to", "peft", "-o", out],
            ["train", name, "--resume"],
        ]

    return [Case("run", name, partial(make, spoil)) for name, spoil in run_spoilers(sender).items()]


# -- bases and templates ----------------------------------------------------------------------------------------------


def code_base(sender: Sender, folder: Path) -> Path:
    """A base of a kind that only its own code knows."""
    base = sender.base(folder)
    (base / f"{EVIL}.py").write_text(sender.code())
    mapping = {"AutoConfig": f"{EVIL}.C", "AutoModelForCausalLM": f"{EVIL}.M", "AutoTokenizer": [f"{EVIL}.T", None]}
    edit(base / "config.json", model_type="evil", auto_map=mapping)
    edit(base / "tokenizer_config.json", tokenizer_class="EvilTokenizer", auto_map=mapping)
    return base


def pickled_base(sender: Sender, folder: Path) -> Path:
    base = sender.base(folder)
    (base / "model.safetensors").unlink()
    (base / "pytorch_model.bin").write_bytes(sender.pickle())
    return base


def with_text(sender: Sender, name: str, content: bytes, folder: Path) -> Path:
    base = sender.base(folder)
    (base / name).write_bytes(content)
    return base


TEMPLATES = {
    "divides by zero": "{{ 1/0 }}",
    "adds a text and a number": "{{ 'a'+1 }}",
    "asks for what is not there": "{{ messages[9].x.y }}",
    "calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "does not parse": "{% if %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "writes without end": "{% for i in range(99999) %}{{ messages }}{% endfor %}",
    "raises to powers": "{{ 10**10**10 }}",
    "repeats a text": "{{ 'x' * 10000000000 }}",
    "reaches for classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "reaches for the system": "{{ cycler.__init__.__globals__.os.system('touch {ran}') }}",
    "reads a file": "{% include '{secret}' %}{{ messages }}",
    "drops the messages": "nothing",
    "repeats the messages": "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}",
}


def base_cases(sender: Sender) -> list[Case]:
    def exported(spoil: Callable[[Path], Path], folder: Path) -> Commands:
        run = sender.run(folder)
        commands = make(spoil, folder)
        edit(run / "pair" / "agon.json", base=str(folder / "base"))
        return [*commands, ["export", str(run), "--to", "merged", "-o", str(folder / "merged")]]

    def make(spoil: Callable[[Path], Path], folder: Path) -> Commands:
        base = str(spoil(folder))
        sizes = [*SIZES, "eval.samples=1"]
        return [
            ["eval", base, "--config", str(CONFIG), *sizes, "--limit", "1", "--out", str(folder / "out")],
            ["train", str(CONFIG), *sizes, "train.max_steps=1", f"model.name={base}", "--out", str(folder / "runs")],
        ]

    def templated(text: str, folder: Path) -> Path:
        base = sender.base(folder)
        text = text.replace("{ran}", str(sender.ran)).replace("{secret}", str(sender.secret))
        (base / "chat_template.jinja").write_text(text)
        edit(base / "tokenizer_config.json", chat_template=text)
        return base

    spoilers: dict[str, Callable[[Path], Path]] = {
        "code of its own": partial(code_base, sender),
        "pickled weights": partial(pickled_base, sender),
        "a config that is none": partial(with_text, sender, "config.json", b"[]"),
        "weights that are none": partial(with_text, sender, "model.safetensors", b"\x00" * 64),
        "a pickle named safetensors": partial(with_text, sender, "model.safetensors", sender.pickle()),
        "a tokenizer that is none": partial(with_text, sender, "tokenizer.json", b'{"model": 3}'),
    }
    templates = [Case("template", name, partial(make, partial(templated, text))) for name, text in TEMPLATES.items()]
    return [*(Case("base", name, partial(exported, spoil)) for name, spoil in spoilers.items()), *templates]


# -- links and odd names ----------------------------------------------------------------------------------------------

LINKS = {
    **dict.fromkeys((".lock", "steps.jsonl", "timings.jsonl", "points.json", "match.html", "config.yaml"), "file"),
    **dict.fromkeys(("bouts", "checkpoints", "evals", "pair", "published", "report", "export-peft"), "."),
    **dict.fromkeys(("evals/held_out", "evals/held_out-1", "checkpoints/step_000000", "pair/a", ".tmp-x"), "."),
    **dict.fromkeys(("evals/held_out-1/a.jsonl", "evals/held_out-1/a.json", "bouts/step_000000.parquet"), "file"),
    **dict.fromkeys((".old-pair", "bouts/.tmp-y", "checkpoints/.old-step_000001"), "."),
}
"""Links in a run, and where in `outside` they lead."""
NAMES = ("\n", "\udcff", "-rf", "x" * 255, "..x", "$(touch x)", "*", "\x1b[2J", "step_000001.parquet", "MANIFEST.json")
PIPES = ("steps.jsonl", "evals/held_out-1/a.jsonl", "bouts/step_000000.parquet", "checkpoints/step_000000")


def folder_cases(sender: Sender) -> list[Case]:
    def make(spoil: Callable[[Path], Any], folder: Path) -> Commands:
        run = sender.run(folder)
        spoil(run)
        name = str(run)
        return [
            ["train", name, "--resume"],
            ["eval", name, "--limit", "1", "--system", "a"],
            ["view", name],
            ["report", name],
            ["export", name, "--to", "peft"],
        ]

    def link(where: str, to: str, run: Path) -> None:
        (run / where).parent.mkdir(parents=True, exist_ok=True)
        if (run / where).is_dir():
            shutil.rmtree(run / where)
        (run / where).unlink(missing_ok=True)
        (run / where).symlink_to(sender.outside / to)

    def odd(name: str, run: Path) -> None:
        for part in (".", "bouts", "checkpoints", "evals", "evals/held_out-1", "pair"):
            (run / part).mkdir(parents=True, exist_ok=True)
            (run / part / name).write_text("odd")

    def piped(where: str, run: Path) -> None:
        (run / where).parent.mkdir(parents=True, exist_ok=True)
        pipe(run / where)

    spoilers = {f"link: {where}": partial(link, where, to) for where, to in LINKS.items()}
    spoilers |= {f"name: {name[:20]!r}": partial(odd, name) for name in NAMES}
    spoilers |= {f"pipe: {where}": partial(piped, where) for where in PIPES}
    return [Case("folder", name, partial(make, spoil)) for name, spoil in spoilers.items()]
