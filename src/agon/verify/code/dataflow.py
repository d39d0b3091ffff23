"""What a program does with its input, read from its syntax tree without running it.

    names        every dotted name that is used, imports resolved: `from os import _exit as e` makes `e()` an `os._exit`
    reads_input  whether standard input is read at all
    blind_loops  loops that print what cannot depend on the input

An over-approximation: a value depends on the input if it could. So few loops are blind, and those that are, are.
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
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Dataflow:
    """One program."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = list(ast.walk(tree))
        self.aliases = dict(_imports(self.nodes))
        self.aliases |= dict(self._renamed())

    def _renamed(self) -> Iterator[tuple[str, str]]:
        """`read = sys.stdin.read`: names that are given to what has one already."""
        for node in self.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = self.name(node.value)
                if name and "$" not in name and not name.startswith("."):
                    yield node.targets[0].id, name

    def name(self, node: ast.AST) -> str:
        """The dotted name of an expression, or nothing: `__import__("os")._exit` is `os._exit`."""
        if isinstance(node, ast.Name):
            own = node.id if node.id in BUILTINS else f"${node.id}"  # a variable called `dis` is not the module
            return self.aliases.get(node.id, own)
        if isinstance(node, ast.Attribute):
            return f"{self.name(node.value)}.{node.attr}"
        if isinstance(node, ast.Call) and node.args:
            called, first = self.name(node.func), node.args[0]
            if called in ("__import__", "importlib.import_module"):
                return str(first.value) if isinstance(first, ast.Constant) else ""
            if called == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
                return f"{self.name(first)}.{node.args[1].value!s}"
        return ""

    @cached_property
    def names(self) -> frozenset[str]:
        found = {self.name(node) for node in self.nodes if isinstance(node, ast.Name | ast.Attribute | ast.Call)}
        return frozenset(found | set(self.aliases.values()))

    @cached_property
    def calls(self) -> tuple[tuple[str, ast.Call], ...]:
        return tuple((self.name(node.func), node) for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def reads_input(self) -> bool:
        return any(map(self._is_input, self.nodes))

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
        for part in ast.walk(node):
            if self._is_input(part) or (isinstance(part, ast.Name) and part.id in self._tainted):
                return True
        return False

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
                tainted.update(_stored(own, statement))
            for part in own:
                self._spread_in_comprehensions(part, tainted)
            self._spread(_bodies(statement), tainted, under=inside)

    def _spread_in_comprehensions(self, node: ast.AST, tainted: set[str]) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.comprehension) and self.depends(part.iter):
                tainted.update(_names(part.target))


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


def _stored(own: Iterable[ast.AST], statement: ast.stmt) -> Iterator[str]:
    """Names that a statement may change: assigned, passed to a call, or the object of a method; and loop targets."""
    if isinstance(statement, ast.For | ast.AsyncFor):
        yield from _names(statement.target)
    for part in (part for node in own for part in ast.walk(node)):
        if isinstance(part, ast.Call):
            yield from (name for name in _names(part) if name not in BUILTINS)
        elif isinstance(part, ast.Name | ast.Subscript | ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield from _names(part)


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))
