"""What the test of the house reads: the syntax trees of the package, its imports, and its measures."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "fsm_agent"


@frozen
class Module:
    """One source file.

    Attributes:
        name: dotted, such as ``fsm_agent.core.step``.
        path: relative to the repository, with slashes.
        text: the source.
        tree: its syntax tree.
    """

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the package, such as ``core``; empty for the package itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else ""

    @property
    def lines(self) -> int:
        """Number of lines, docstrings not counted: what is explained well may be long."""
        return self.text.count("\n") - sum(_docstring(node) for node in ast.walk(self.tree))


@frozen
class Import:
    """One imported module, and where; ``lazy`` if only when a function runs, ``typing`` if only for the type checker."""

    module: str
    line: int
    lazy: bool
    typing: bool


@cache
def modules(folder: Path = PACKAGE) -> tuple[Module, ...]:
    """Read all source files below a folder of the repository, sorted by path."""
    return tuple(_read(path) for path in sorted(folder.rglob("*.py")))


def _read(path: Path) -> Module:
    relative = path.relative_to(REPOSITORY)
    parts = list(relative.with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    text = path.read_text(encoding="utf-8")
    return Module(".".join(parts), relative.as_posix(), text, ast.parse(text))


def imports(module: Module) -> Iterator[Import]:
    """Give every import of a module, relative ones made absolute; ``from a import b`` gives ``a`` and ``a.b``."""
    package = module.name if module.path.endswith("__init__.py") else module.name.rpartition(".")[0]
    yield from _imports(module.tree, package, lazy=False, typing=False)


def _imports(node: ast.AST, package: str, *, lazy: bool, typing: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, lazy, typing)
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(child, package)
            yield Import(base, child.lineno, lazy, typing)
            for alias in child.names:
                yield Import(f"{base}.{alias.name}", child.lineno, lazy, typing)
        else:
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            checked = typing or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            yield from _imports(child, package, lazy=inside, typing=checked)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def rooms(module: Module) -> set[str]:
    """Give the parts of the package that a module imports from, its own left out."""
    found = {one.module.split(".")[1] for one in imports(module) if one.module.startswith("fsm_agent.")}
    return found - {module.room}


def functions(module: Module) -> Iterator[tuple[str, int]]:
    """Give every function with its length in lines, from ``def`` to its end, its docstring not counted."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, _span(node) - _docstring(node)


def _span(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _docstring(node: ast.AST) -> int:
    """Length of the docstring, 0 without one."""
    body = getattr(node, "body", [])
    has = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
    return _span(body[0]) if has else 0


def undocumented(module: Module) -> Iterator[str]:
    """Give every public class, function and method without a docstring; a property's setter needs none."""
    yield from _undocumented(module.tree.body, "")


def _undocumented(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            decorators = [ast.unparse(decorator) for decorator in getattr(node, "decorator_list", [])]
            exempt = any(word.endswith((".setter", "overload", "override")) for word in decorators)
            if not exempt and ast.get_docstring(node) is None:
                yield f"{prefix}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _undocumented(node.body, f"{prefix}{node.name}.")


def mutable_fields(module: Module) -> Iterator[str]:
    """Give the annotated fields of public classes that hold a list, a set or a dict."""
    mutable = re.compile(r"\b(?:list|set|dict|bytearray|deque)\b")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and mutable.search(ast.unparse(field.annotation)):
                    yield f"{node.name}.{ast.unparse(field.target)}"


def calls(module: Module) -> Iterator[tuple[str, int]]:
    """Give the plain names that a module calls, with their lines."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno


ORDERED = ("tuple", "list", "iter", "enumerate", "zip", "map", "filter")
"""Built-ins that keep the order of what they are given. all(), any(), sorted(), sum(), min(), max() have none to lose."""


def iterated_sets(module: Module) -> Iterator[int]:
    """Give the lines that walk over what is plainly a set: a literal, ``set()``, ``frozenset()``, or a name bound to one."""
    yield from _walks(module.tree, frozenset())


def _walks(scope: ast.AST, outer: frozenset[str]) -> Iterator[int]:
    """Look through one scope; functions inside it know its names, but not the other way round."""
    inside = list(_inside(scope))
    known = outer | frozenset(name for node in inside for name in _set_names(node))
    for node in inside:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _walks(node, known)
        yield from (source.lineno for source in _walked(node) if _is_set(source, known))


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Give the nodes of a scope; of functions in it only the node itself."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _inside(child)


def _walked(node: ast.AST) -> list[ast.expr]:
    """Give what a node walks over in order."""
    match node:
        case ast.For() | ast.AsyncFor():
            return [node.iter]
        case ast.ListComp() | ast.DictComp() | ast.GeneratorExp():
            return [generator.iter for generator in node.generators]
        case ast.Call(func=ast.Name(id=name)) if name in ORDERED:
            return list(node.args)
        case ast.Starred():
            return [node.value]
        case _:
            return []


def _set_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign() if _is_set(node.value, frozenset()):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), annotation=note) if _is_set_type(note):
            yield name
        case ast.arg(arg=name, annotation=note) if note is not None and _is_set_type(note):
            yield name


def _is_set_type(annotation: ast.expr) -> bool:
    return ast.unparse(annotation).startswith(("set[", "frozenset["))


def _is_set(node: ast.expr, known: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in ("set", "frozenset")
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, known) or _is_set(right, known)
        case ast.Name(id=name):
            return name in known
        case _:
            return False
