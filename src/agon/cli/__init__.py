"""The command line. A command is a line of COMMANDS and a module with `add_arguments(parser)` and `run(args) -> int`.

Other packages add commands by entry points of the group `agon.commands`: the name is the command, the value a module
with the same two functions, HELP (one line) and GROUP (a heading of `agon --help`). `agon audit` of agon-judge and
`agon diagnose` of agon-lens come so. A name of ours is never replaced.

Exit codes: 0 fine; 1 the run failed; 2 bad input, nothing started; 130 interrupted. Bad input is answered in two lines,
what happened and what to type next, never with a traceback. A command's module is imported only when it is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from agon.errors import Explained, InputError, naming_extras

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

    from agon.cli.parser import Parser


class Command(NamedTuple):
    """A module and its one line of help."""

    module: str
    help: str
    package: str = "agon.cli."

    def load(self) -> Any:
        from importlib import import_module

        return import_module(self.package + self.module)


COMMANDS: dict[str, dict[str, Command]] = {
    "prepare": {
        "doctor": Command("doctor", "check this machine and suggest fixes"),
        "init": Command("init", "write a commented config to start from, for your own data too"),
        "data": Command("data", "check problems and their reference answers, split them, see how hard they are"),
        "plan": Command("plan", "check a config; estimate memory, hours and cost; writes nothing"),
    },
    "run": {
        "demo": Command("demo", "train GRPO and a pair on a CPU and compare them; no download"),
        "train": Command("train", "train a pair, or resume a run"),
        "eval": Command("eval", "measure a run, a pair or a model on held-out problems; resumable"),
        "matrix": Command("matrix", "train and evaluate several methods and seeds at one budget; resumable"),
    },
    "inspect": {
        "report": Command("report", "write one HTML page about one run or many; without a run, list the runs here"),
        "view": Command("view", "read a run, or the log of any GRPO trainer, answer by answer in one HTML file"),
        "compare": Command("compare", "compare results problem by problem, with paired tests"),
    },
    "deploy": {
        "ask": Command("ask", "put a question to a pair, and watch both policies write"),
        "serve": Command("serve", "serve a pair as one model, with OpenAI's API, on vLLM"),
        "export": Command("export", "export a pair as adapters or merged models, with a model card"),
    },
}

ENTRY_POINTS = "agon.commands"
"""Where other packages add commands."""
INTERRUPTED = 130
INSTEAD = {"resume": "agon train RUN --resume"}
"""What to type for a command that does not exist but may be looked for."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return reporting_errors(partial(_run, words))


def reporting_errors(work: Callable[[], int]) -> int:
    """Run a command; turn errors into a message on stderr and an exit code."""
    try:
        with naming_extras():
            code = work()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            with suppress(OSError):  # Ctrl-C also ends a `tee` that reads us
                print(interrupt, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # the reader has seen enough; without this the interpreter complains when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not isinstance(error, Explained):
            raise
        tell(error)
        return error.exit_code


def _run(words: list[str]) -> int:
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in {"-h", "--help"}:
        print(usage())
        return 0
    if words[0] in {"-V", "--version"}:
        from importlib.metadata import version

        print(f"agon {version('agon-rl')}")
        return 0
    # pydantic looks through every installed package for plugins, which takes longer than reading a config
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if words[0] == "audit":
        from agon.cli.audit_config import words_for

        words = words_for(words)
    try:
        args = parser_of(words[0]).parse(words[1:])
    except SystemExit as end:  # --help
        return int(end.code or 0)
    code: int = find(words[0]).load().run(args)
    return code


def find(name: str) -> Command:
    """The command of that name, or an error that names the nearest one."""
    ours = {word: command for group in COMMANDS.values() for word, command in group.items()}
    if name in ours:
        return ours[name]
    added = _added()
    for entry in added.select(name=name):
        try:
            return _load(entry)[1]
        except (Exception, SystemExit) as error:
            raise InputError(_broken(entry, error), fix=f"reinstall {_home(entry)}, or uninstall it") from error
    from difflib import get_close_matches

    known = [*ours, *added.names]
    near = [INSTEAD[name]] if name in INSTEAD else [f"agon {word}" for word in get_close_matches(name, known, n=1)]
    hint = f"did you mean `{near[0]}`? " if near else ""
    raise InputError(f"there is no command {name!r}", fix=f"{hint}`agon --help` lists all of them")


def commands() -> tuple[dict[str, dict[str, Command]], list[str]]:
    """All commands by heading, ours first; and a note on each that another package names but that cannot be used."""
    groups, notes = {title: dict(group) for title, group in COMMANDS.items()}, []
    ours = {name for group in COMMANDS.values() for name in group}
    for entry in sorted(_added(), key=lambda entry: entry.name):
        if entry.name in ours:
            notes.append(f"{_home(entry)} names a command {entry.name}, which is one of ours")
            continue
        try:
            title, command = _load(entry)
        except (Exception, SystemExit) as error:
            notes.append(_broken(entry, error))
        else:
            groups.setdefault(title, {})[entry.name] = command
    return groups, notes


def _added() -> EntryPoints:
    """The commands that other packages name."""
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def _load(entry: EntryPoint) -> tuple[str, Command]:
    """The heading and the command of an entry point; raises whatever its module raises."""
    from importlib import import_module

    module = import_module(entry.value)
    for name in ("add_arguments", "run"):
        getattr(module, name)
    return module.GROUP, Command(entry.value, module.HELP, package="")


def _broken(entry: EntryPoint, error: BaseException) -> str:
    return f"the command {entry.name} of {_home(entry)} cannot be loaded: {type(error).__name__}: {error}"


def _home(entry: EntryPoint) -> str:
    """The package that names an entry point."""
    return entry.dist.name if entry.dist else "another package"


def parser_of(name: str) -> Parser:
    """The argument parser of one command."""
    from agon.cli.parser import Parser

    command = find(name)
    parser = Parser(prog=f"agon {name}", description=f"{command.help[0].upper()}{command.help[1:]}.")
    command.load().add_arguments(parser)
    return parser


def usage() -> str:
    """The screen of `agon --help`."""
    lines = ["usage: agon COMMAND [...]", ""]
    lines += ["Train two LoRA policies that read each other's drafts, look into any GRPO log, or audit a reward."]
    groups, notes = commands()
    for title, group in groups.items():
        lines += ["", f"{title}:", *(f"  {name:<10}{command.help}" for name, command in group.items())]
    lines += ["", *(f"note: {note}" for note in notes)] if notes else []
    return "\n".join([*lines, "", "`agon COMMAND --help` shows its options; `agon --version` prints the version."])


def tell(error: Explained) -> None:
    """What happened, and what to type next."""
    print(_paint("error:", "31"), error.message, file=sys.stderr)
    if error.fix:
        print(_paint("fix:", "32"), error.fix, file=sys.stderr)


def _paint(word: str, colour: str) -> str:
    plain = bool(os.environ.get("NO_COLOR")) or not sys.stderr.isatty()
    return word if plain else f"\033[1;{colour}m{word}\033[0m"
