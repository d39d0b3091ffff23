"""What a program does with its input, read from its syntax tree without running it.

    names        every dotted name that is used, imports resolved: `from os import _exit as e` makes `e()` an `os._exit`
    reads_input  whether standard input is read at all
    blind_loops  loops that print what cannot depend on the input

An over-approximation: a value depends on the input if it could. So few loops are blind, and those that are, are. The
work is bounded, because a program may be written to take long: `TooLong` is raised when it would take more.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from functools import cached_property

STDIN = ("input", "sys.stdin", "sys.__stdin__", "os.read", "os.readv", "fileinput")
STANDARD = {0, 1, "/dev/stdin", "/dev/stdout", "/dev/fd/0", "/dev/fd/1"}
"""What may be opened: standard input and output by number or name."""
BUILTINS = frozenset(dir(builtins)) | {"__file__", "__builtins__", "exit", "quit"}
ROUNDS = 6
"""How often dependence is passed on; a program that needs more is taken to depend on its input everywhere."""
STEPS = 150_000
"""Nodes that are visited, each as often as it is; modules of the standard library of up to 20,000 characters take a
seventh of that, and all of it takes about half a second."""
PARTS = 8
"""Of a dotted name; a longer one is no name that anybody looks for, and what it begins with has a node of its own."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class TooLong(Exception):
    """Reading a program takes more than STEPS."""


class Dataflow:
    """One program."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self._steps = 0
        self.nodes = list(self.walk(tree))
        self.aliases = dict(_imports(self.nodes))
        self._names = self._named()
        self.aliases |= dict(self._renamed())
        self._names = self._named()

    def walk(self, node: ast.AST) -> Iterator[ast.AST]:
        """A node and all below it, as `ast.walk` gives them."""
        for part in ast.walk(node):
            self._steps += 1
            if self._steps > STEPS:
                raise TooLong
            yield part

    def _renamed(self) -> Iterator[tuple[str, str]]:
        """`read = sys.stdin.read`: names that are given to what has one already."""
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = self.name(node.value)
                if name and "$" not in name and not name.startswith("."):
                    yield node.targets[0].id, name

    def name(self, node: ast.AST) -> str:
        """The dotted name of an expression, or nothing: `__import__("os")._exit` is `os._exit`."""
        return self._names.get(node, "")

    def _named(self) -> dict[ast.AST, str]:
        """Every expression that can have a name, inner ones first: no recursion, and one step for each."""
        names: dict[ast.AST, str] = {}
        for node in reversed(self.nodes):
            if isinstance(node, ast.Name):
                own = node.id if node.id in BUILTINS else f"${node.id}"  # a variable called `dis` is not the module
                names[node] = self.aliases.get(node.id, own)
            elif isinstance(node, ast.Attribute):
                names[node] = _dotted(names.get(node.value, ""), node.attr)
            elif isinstance(node, ast.Call) and node.args:
                called, first = names.get(node.func, ""), node.args[0]
                if called in ("__import__", "importlib.import_module") and isinstance(first, ast.Constant):
                    names[node] = str(first.value)
                elif called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                    names[node] = _dotted(names.get(first, ""), str(node.args[1].value))
        return names

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset({*self._names.values(), *self.aliases.values()})

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        return tuple((self.name(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def reads_input(self) -> bool:
        return bool(self._inputs)

    def opens_standard(self, call: ast.Call) -> bool:
        """Whether an `open` is of standard input or output."""
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Call):
            return self.name(first.func) in ("sys.stdin.fileno", "sys.stdout.fileno")
        return isinstance(first, ast.Constant) and first.value in STANDARD

    def blind_loops(self) -> list[ast.For | ast.While]:
        """Loops that print, under no condition and with no value that could depend on the input."""
        return list(self._blind(self.tree.body))

    def _blind(self, body: Iterable[ast.stmt]) -> Iterator[ast.For | ast.While]:
        for statement in body:
            if self._is_decided_by_input(statement):
                continue
            if isinstance(statement, ast.For | ast.While) and any(map(self._prints_blindly, statement.body)):
                yield statement
            elif not isinstance(statement, ast.ClassDef | Function):
                yield from self._blind(_bodies(statement))

    def _prints_blindly(self, statement: ast.stmt) -> bool:
        if self._is_decided_by_input(statement):
            return False
        if isinstance(statement, ast.Expr):
            call = statement.value
            printed = isinstance(call, ast.Call) and self.name(call.func) in ("print", "sys.stdout.write")
            return printed and not self.depends(call)
        return any(map(self._prints_blindly, _bodies(statement)))

    def _is_decided_by_input(self, statement: ast.stmt) -> bool:
        control = _control(statement)
        return control is not None and self.depends(control)

    def depends(self, node: ast.AST) -> bool:
        """Whether a value could depend on the input."""
        return any(
            part in self._inputs or (isinstance(part, ast.Name) and part.id in self._tainted)
            for part in self.walk(node)
        )

    @cached_property
    def _inputs(self) -> frozenset[ast.AST]:
        return frozenset(filter(self._is_input, self.nodes))

    def _is_input(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and self.name(node.func) in ("open", "io.open", "os.fdopen"):
            return self.opens_standard(node)
        name = self.name(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        return any(name == source or name.startswith(f"{source}.") for source in STDIN)

    @cached_property
    def _tainted(self) -> set[str]:
        """Names whose value could depend on the input: parameters, and whatever something that depends flows into."""
        tainted = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        self.__dict__["_tainted"] = tainted  # `depends` reads it while it grows
        for _ in range(ROUNDS):
            before = len(tainted)
            self._spread(self.tree.body, tainted, under=False)
            if len(tainted) == before:
                return tainted
        return {node.id for node in self.nodes if isinstance(node, ast.Name)}

    def _spread(self, body: Iterable[ast.stmt], tainted: set[str], *, under: bool) -> None:
        for statement in body:
            control, inside = _control(statement), under or self._is_decided_by_input(statement)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and self.depends(statement):
                tainted.add(statement.name)
            own = [statement] if not list(_bodies(statement)) else [control] if control is not None else []
            if inside or any(self.depends(part) for part in own):
                tainted.update(self._stored(own, statement))
            for part in own:
                self._spread_in_comprehensions(part, tainted)
            self._spread(_bodies(statement), tainted, under=inside)

    def _spread_in_comprehensions(self, node: ast.AST, tainted: set[str]) -> None:
        for part in self.walk(node):
            if isinstance(part, ast.comprehension) and self.depends(part.iter):
                tainted.update(self._variables(part.target))

    def _stored(self, own: Iterable[ast.AST], statement: ast.stmt) -> Iterator[str]:
        """Names that a statement may change: loop targets, and those assigned, passed to a call or called upon."""
        if isinstance(statement, ast.For | ast.AsyncFor):
            yield from self._variables(statement.target)
        for part in (part for node in own for part in self.walk(node)):
            if isinstance(part, ast.Call):
                yield from (name for name in self._variables(part) if name not in BUILTINS)
            elif isinstance(part, ast.Name | ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
                yield from self._variables(part)

    def _variables(self, node: ast.AST) -> Iterator[str]:
        return (part.id for part in self.walk(node) if isinstance(part, ast.Name))


def _dotted(name: str, attribute: str) -> str:
    return f"{name}.{attribute}" if name.count(".") < PARTS else ""


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _control(statement: ast.stmt) -> ast.expr | None:
    """What decides whether, and how often, the body of a statement runs."""
    if isinstance(statement, ast.If | ast.While):
        return statement.test
    if isinstance(statement, ast.For | ast.AsyncFor):
        return statement.iter
    return statement.subject if isinstance(statement, ast.Match) else None


def _bodies(statement: ast.stmt) -> Iterator[ast.stmt]:
    """The statements inside a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield from part.body
