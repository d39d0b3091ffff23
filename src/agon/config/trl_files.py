"""What files of TRL say of a run: a script or notebook, a YAML file for TRL's parser, a command line. None is executed.

In a script, names and arithmetic over literals are followed; what else computes a value is listed as computed.
"""

from __future__ import annotations

import ast
import json
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agon.errors import InputError

KINDS = "name a script, a notebook, a YAML file or a command line"


@dataclass(slots=True)
class TRLRun:
    """What a file says of a run; values that are not literals are in `computed`."""

    fields: dict[str, Any] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)
    rewards: list[str] = field(default_factory=list)
    """Reward functions: as Agon names them (`module:function`) where they are imported, else as they are written."""
    remarks: dict[str, str] = field(default_factory=dict)
    """What is lost besides, and why."""
    assumed: dict[str, str] = field(default_factory=dict)
    """Fields that have a default of another library, and whose."""


def read(path: Path) -> TRLRun:
    """Read a file; InputError if it says nothing of a run."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {error}", fix=KINDS) from None
    if path.suffix in (".py", ".ipynb"):
        return _Script(_cells(text, path) if path.suffix == ".ipynb" else text, path).run
    fields = _yaml(text, path) if path.suffix in (".yaml", ".yml", ".json") else _command_line(text, path)
    run = TRLRun()
    if config := fields.pop("config", None):
        file = path.parent / str(config)
        if file.is_file():
            fields = _yaml(file.read_text(encoding="utf-8"), file) | fields
        else:
            run.remarks["config"] = f"there is no {file}; its fields are missing here"
    rewards = fields.pop("reward_funcs", [])
    named = [rewards] if isinstance(rewards, str) else list(rewards)
    run.rewards = [":".join(str(name).rsplit(".", 1)) for name in named]
    for name, value in fields.items():
        if isinstance(value, str) and "$" in value:
            run.computed.append(name)
        elif value is not None:
            run.fields[name] = value
    return run


# -- scripts ----------------------------------------------------------------------------------------------------------

_COMPUTED: Any = object()
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow},
}
_CALLS: Mapping[str, Callable[..., Any]] = {"int": int, "float": float, "round": round, "min": min, "max": max}
_DTYPES = ("bfloat16", "float16", "float32")
_LORA = {"r": "lora_r", "target_modules": "lora_target_modules"}
_LOADED = {
    **{"model_name": "model", "pretrained_model_name_or_path": "model", "revision": "model_revision"},
    **{"fast_inference": "use_vllm", "gpu_memory_utilization": "vllm_gpu_memory_utilization"},
}
"""Arguments of `from_pretrained` under the names that TRL's command line has for them."""
_ASIDE = {"token", "device_map", "trust_remote_code", "use_cache", "max_lora_rank", "quantization_config"}
"""Arguments of `from_pretrained` that say nothing about learning."""
_TOKENIZERS = re.compile("Tokenizer|Processor|Peft|Config|Dataset|SequenceClassification")


class _Script:
    """The calls of a script that configure a run, in the order in which they are written."""

    def __init__(self, text: str, path: Path) -> None:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InputError(f"{path} is not Python: {error}", fix=KINDS) from None
        self.run = TRLRun()
        self._names: dict[str, list[ast.expr | None]] = {}
        self._known: dict[str, Any] = {}
        self._imports: dict[str, str] = {}
        self._folder = path.parent
        self._trainers = {"GRPOTrainer"}
        self._depth = 0
        self._configured = False
        nodes = sorted(ast.walk(tree), key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        for node in nodes:
            self._note(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                self._change(node.targets[0], node.value)
        if not self._configured:
            raise InputError(
                f"{path} has no GRPOConfig(...) and no GRPOTrainer(...)",
                fix="name the script that writes it, or the YAML file that TRL's parser reads",
            )

    def _note(self, node: ast.AST) -> None:
        """Remember what a name is assigned or imported from; None where that is not one expression."""
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value:
            self._assign(node.target, node.value)
        elif isinstance(node, ast.AugAssign | ast.For):
            self._assign(node.target, None)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            self._imports |= {name.asname or name.name: f"{node.module}:{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            self._imports |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("GRPOTrainer") for base in node.bases):
            self._trainers.add(node.name)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._names.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
            for n, each in enumerate(target.elts):
                self._assign(each, values[n] if values else None)

    def _call(self, call: ast.Call) -> None:
        name = self._called(call)
        owner = ast.unparse(call.func).rpartition(".")[0]
        given = self._keywords(call)
        if name == "GRPOConfig":
            self._configured = True
            init = given.pop("model_init_kwargs", {})
            self._take(init if isinstance(init, dict) else {"model_init_kwargs": init})
            self._take(given)
        elif name in ("TrlParser", "HfArgumentParser") and "GRPOConfig" in ast.unparse(call):
            self.run.remarks["GRPOConfig"] = "its fields come from a command line or a YAML file: convert that as well"
        elif name == "LoraConfig" or (name == "get_peft_model" and owner.startswith("Fast")):
            whose, size = ("PEFT", 8) if name == "LoraConfig" else ("Unsloth", 16)
            self._assume({"lora_r": size, "lora_alpha": size}, whose)
            self._take({_LORA.get(key, key): value for key, value in given.items()})
        elif name == "BitsAndBytesConfig":
            self._take({key: given[key] for key in ("load_in_4bit", "load_in_8bit") if key in given})
        elif name == "from_pretrained" and not _TOKENIZERS.search(owner):
            given = {"model": self._value(call.args[0])} | given if call.args else given
            if owner.startswith("Fast"):
                self._assume({"load_in_4bit": True}, "Unsloth")
            self._take({_LOADED.get(key, key): value for key, value in given.items() if key not in _ASIDE})
        elif name in self._trainers:
            self._configured = True
            self._trainer(call, given)
        elif name == "load_dataset":
            self._dataset(call, given)

    def _called(self, call: ast.Call) -> str:
        """The last name of what is called, as its module has it."""
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return self._imports.get(name, name).rpartition(":")[2]

    def _trainer(self, call: ast.Call, given: Mapping[str, Any]) -> None:
        model = given.get("model", self._value(call.args[0]) if call.args else None)
        if isinstance(model, str):  # else it was loaded before
            self._take({"model": model})
        named = (keyword.value for keyword in call.keywords if keyword.arg == "reward_funcs")
        asked = next(named, call.args[1] if call.args[1:] else None)
        while isinstance(asked, ast.Name) and len(values := self._names.get(asked.id, [])) == 1 and values[0]:
            asked = values[0]
        listed = asked.elts if isinstance(asked, ast.List | ast.Tuple) else [asked] if asked else []
        self.run.rewards = [self._named(text) for text in map(ast.unparse, listed)]

    def _named(self, text: str) -> str:
        """A function as a config names it, if it was imported: by its file, where that is beside the script."""
        module, dot, name = text.rpartition(".")
        found = f"{self._imports[module]}:{name}" if dot and module in self._imports else self._imports.get(text, text)
        module, colon, name = found.partition(":")
        file = f"{module.replace('.', '/')}.py"
        return f"{self._folder / file}:{name}" if colon and (self._folder / file).is_file() else found

    def _dataset(self, call: ast.Call, given: Mapping[str, Any]) -> None:
        name = given.get("path", self._value(call.args[0]) if call.args else None)
        file = given.get("data_files")
        if name in ("json", "csv", "parquet") and isinstance(file, str):
            name = file
        if "dataset_name" not in self.run.fields:
            self._take({"dataset_name": name})

    def _change(self, target: ast.Attribute, value: ast.expr) -> None:
        """`args.learning_rate = 1e-5` after `args = GRPOConfig(...)`."""
        values = self._names.get(target.value.id, []) if isinstance(target.value, ast.Name) else []
        if any(isinstance(made, ast.Call) and self._called(made) == "GRPOConfig" for made in values):
            self._take({target.attr: self._value(value)})

    def _keywords(self, call: ast.Call) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for keyword in call.keywords:
            value = self._value(keyword.value)
            if keyword.arg:
                given[keyword.arg] = value
            elif isinstance(value, dict):
                given |= {str(name): each for name, each in value.items()}
            else:
                given[f"**{ast.unparse(keyword.value)}"[:60]] = _COMPUTED
        return given

    def _assume(self, defaults: Mapping[str, Any], whose: str) -> None:
        """Defaults that apply where the script says nothing else."""
        self.run.fields |= defaults
        self.run.assumed |= dict.fromkeys(defaults, f"{whose}'s default")

    def _take(self, given: Mapping[str, Any]) -> None:
        for key, value in given.items():
            self.run.fields.pop(key, None)
            self.run.assumed.pop(key, None)
            if value is None:
                continue
            if value is not _COMPUTED:
                self.run.fields[key] = value
                self.run.computed = [name for name in self.run.computed if name != key]
            elif key not in self.run.computed:
                self.run.computed.append(key)

    def _value(self, node: ast.expr) -> Any:
        """A literal, or what names and arithmetic make of literals."""
        self._depth += 1
        try:
            return self._worked_out(node) if self._depth < 50 else _COMPUTED
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return _COMPUTED
        finally:
            self._depth -= 1

    def _worked_out(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self._known:
                self._known[node.id] = _COMPUTED  # meanwhile: what is made of itself is computed
                values = [self._value(each) if each else _COMPUTED for each in self._names.get(node.id, [None])]
                self._known[node.id] = values[0] if all(value == values[0] for value in values) else _COMPUTED
            return self._known[node.id]
        if isinstance(node, ast.Attribute):
            return node.attr if node.attr in _DTYPES else _COMPUTED
        if isinstance(node, ast.List | ast.Tuple):
            return _whole([self._value(each) for each in node.elts])
        if isinstance(node, ast.Dict):  # a value that is computed stays one of its entries
            made: dict[Any, Any] = {}
            for key, each in zip(node.keys, node.values, strict=True):
                made |= {self._value(key): self._value(each)} if key else self._value(each)
            return made
        if isinstance(node, ast.Subscript):
            return self._value(node.value)[self._value(node.slice)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left), self._value(node.right)
            if isinstance(node.op, ast.Add) and type(left) is type(right) and type(left) in (str, list):
                return left + right
            numbers = isinstance(left, int | float) and isinstance(right, int | float)
            small = not isinstance(node.op, ast.Pow) or (numbers and abs(left) < 1e6 and abs(right) < 10)
            return _OPERATORS[type(node.op)](left, right) if numbers and small else _COMPUTED
        if isinstance(node, ast.JoinedStr):
            parts = [self._value(p.value if isinstance(p, ast.FormattedValue) else p) for p in node.values]
            plain = not any(isinstance(p, ast.FormattedValue) and p.format_spec for p in node.values)
            return "".join(map(str, parts)) if plain and _COMPUTED not in parts else _COMPUTED
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "dict" and not node.args:
                return self._keywords(node)
            values = _whole([self._value(each) for each in node.args])
            if node.func.id in _CALLS and values is not _COMPUTED:
                return _CALLS[node.func.id](*values)
        return _COMPUTED


def _whole(values: list[Any]) -> Any:
    return _COMPUTED if any(value is _COMPUTED for value in values) else values


def _cells(text: str, path: Path) -> str:
    """The code of a notebook, without its shell and magic lines."""
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path} is not a notebook: {error!r}", fix=KINDS) from None
    kept = [source for source in sources if not source.lstrip().startswith("%%")]
    return "\n".join(re.sub(r"^(\s*)[!%].*$", r"\1pass", source, flags=re.MULTILINE) for source in kept)


# -- YAML and command lines -------------------------------------------------------------------------------------------


def _yaml(text: str, path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {error}", fix=KINDS) from None
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no fields", fix="write one `name: value` of GRPOConfig per line")
    return {str(key): _number(value) for key, value in found.items()}


def _command_line(text: str, path: Path) -> dict[str, Any]:
    """`--name value` pairs; a name without a value is true. Of a launcher's own options, the number of processes."""
    try:
        plain = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text.replace("\\\n", " "))  # a shell's default
        lines = [shlex.split(line, comments=True) for line in plain.splitlines()]
    except ValueError as error:
        raise InputError(f"{path} is not a command line: {error}", fix="name a .py or a .yaml file") from None
    values_of = dict(_variables([word for line in lines for word in line]))
    commands: list[list[str]] = [[]]
    for word in [word for line in lines for word in (*line, ";")]:
        if word in (";", "&", "&&", "|"):
            commands.append([])
        else:
            commands[-1].append(re.sub(r"\$\{?(\w+)\}?", lambda found: values_of.get(found[1], found[0]), word))
    # a script may start a server as well: the last command that trains
    words = max(enumerate(commands), key=lambda numbered: (_trains(numbered[1]), numbered[0]))[1]
    starts = [n for n, word in enumerate(words) if word.endswith((".py", "scripts.grpo"))]
    script = starts[0] if starts else -1
    found: dict[str, Any] = {}
    for n, word in enumerate(words):
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--") or (n < script and name not in PROCESSES):
            continue
        values = [value] if equals else []
        for later in words[n + 1 :] if not equals else []:
            if later.startswith("--"):
                break
            if not re.match(r"[0-9&]?[<>]", later):  # where a shell sends the output
                values.append(later.removesuffix(","))
        parsed = [_word(one) for one in (values[:1] if n < script else values)]
        if name.startswith("no_") and not parsed:
            name, parsed = name.removeprefix("no_"), [False]
        found[PROCESSES.get(name, name)] = parsed[0] if len(parsed) == 1 else parsed or True
    if not found:
        raise InputError(f"{path} has no --name value", fix="name a .py, a .yaml, or a file with TRL's command line")
    return found


PROCESSES = {"num_processes": "num_processes", "nproc_per_node": "num_processes"}
"""Options of `accelerate launch` and `torchrun` that say on how many devices a run is."""


def _trains(words: list[str]) -> int:
    """Whether a command looks like training: 2 with the name of a trainer or a script, 1 with options alone."""
    named = any(word.endswith(".py") or "grpo" in word for word in words if not word.startswith("--"))
    return any(word.startswith("--") for word in words) * (1 + named)


def _variables(words: list[str]) -> Iterator[tuple[str, str]]:
    """`NAME=value` words of a shell script."""
    for word in words:
        if re.match(r"[A-Za-z_]\w*=", word):
            name, _, value = word.partition("=")
            yield name, value


def _word(text: str) -> Any:
    """A word of a command line: what it is in YAML, or text."""
    try:
        return _number(yaml.safe_load(text))
    except yaml.YAMLError:
        return text


def _number(value: Any) -> Any:
    """YAML reads 1e-6 as text; TRL reads it as a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
