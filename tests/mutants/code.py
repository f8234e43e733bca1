"""Mutants of functions: cosmic-ray finds and makes them, and they are put into the running process.

A mutant is compiled, and the code objects of the functions that it changes are exchanged in place, so that every name and
every declaration that holds such a function has the mutant. What stands outside of functions is not mutated here: the
declaration is the business of :mod:`.table`.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType

import parso
from attrs import frozen
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

CORE = Path(__file__).resolve().parents[2] / "fsm_agent" / "core"
MUTATED = (
    "guards/*.py",
    "moves/*.py",
    "step.py",
    "scheduling.py",
    "loops.py",
    "translate.py",
)
_LEFT_OUT = re.compile(
    r"RemoveDecorator|ExceptionReplacer|Variable|BitOr|Pow|Shift|BitAnd|BitXor|Invert|UAdd|USub"
    r"|Operator_(Eq_Is|NotEq_IsNot|Is_(?!IsNot)|IsNot_(?!Is$))"
    r"|Operator_(Eq|NotEq)_(Lt|Gt|LtE|GtE)$|Operator_(Eq|NotEq|Lt|Gt|LtE|GtE)_(Is|IsNot)$|Operator_(Add|Sub|Mul|FloorDiv|Mod)_(Div|Mod)$"
)
"""Operators that change no behaviour, or only make type errors: annotations, bits, identity of what is compared by value."""


@frozen
class CodeMutant:
    """One change of one module.

    Attributes:
        path: of the module, below the core.
        operator: cosmic-ray's name of the change.
        occurrence: which place of that operator in the module.
        function: the qualified name of the function that it changes.
        line: where it is.
        lines: the first and last line of the statement that it changes.
        text: that line.
        place: which of the changes of the same kind in lines of the same text and function.
    """

    path: str
    operator: str
    occurrence: int
    function: str
    line: int
    lines: tuple[int, int]
    text: str
    place: int

    @property
    def name(self) -> str:
        """A name that stays the same as long as the line does, wherever in its function the line stands."""
        return f"code {self.path}:{self.function} {self.operator.removeprefix('core/')} {self.place} | {self.text}"


@cache
def _source(path: str) -> str:
    return (CORE / path).read_text(encoding="utf-8")


def _spans(source: str) -> dict[int, tuple[str, tuple[int, int]]]:
    """Give for each line of a function's body the function, and the statement that it is part of."""
    spans: dict[int, tuple[str, tuple[int, int]]] = {}

    def enter(node: ast.AST, name: str, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                at = f"{name}.{child.name}" if name else child.name
                enter(child, at, inside or isinstance(child, ast.FunctionDef))
                continue
            if inside and isinstance(child, ast.stmt | ast.match_case):
                body = getattr(child, "body", None)
                first = child.pattern.lineno if isinstance(child, ast.match_case) else child.lineno
                last = body[0].lineno - 1 if isinstance(body, list) else child.end_lineno or first
                for line in range(first, max(first, last) + 1):
                    spans[line] = (name, (first, max(first, last)))
            enter(child, name, inside)

    enter(ast.parse(source), "", False)
    return spans


def modules() -> list[str]:
    """Give the modules whose functions are mutated."""
    return sorted(place.relative_to(CORE).as_posix() for pattern in MUTATED for place in CORE.glob(pattern))


def code_mutants() -> Iterator[CodeMutant]:
    """Give every mutant of the functions of the core that decide."""
    names = sorted(name for name in operator_names() if not _LEFT_OUT.search(name))
    for path in modules():
        source = _source(path)
        texts = source.splitlines()
        tree, spans = parso.parse(source), _spans(source)
        nodes = list(ast_nodes(tree))
        for name in names:
            operator = get_operator(name)()
            places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            alike: dict[tuple[str, str], int] = {}
            for occurrence, (line, _) in enumerate(places):
                if line not in spans:
                    continue
                function, lines = spans[line]
                text = texts[line - 1].strip()
                place = alike[function, text] = alike.get((function, text), -1) + 1
                yield CodeMutant(path, name, occurrence, function, line, lines, text, place)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def install(mutant: CodeMutant) -> bool:
    """Put a mutant into this process; False if it changes nothing that runs."""
    source = _source(mutant.path)
    mutated = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    if mutated is None or mutated == source:
        return False
    file = str(CORE / mutant.path)
    before = {(one.co_qualname, one.co_firstlineno): one for one in _codes(compile(source, file, "exec"))}
    changed = {
        (one.co_qualname, one.co_firstlineno): one
        for one in _codes(compile(mutated, file, "exec"))
        if before.get((one.co_qualname, one.co_firstlineno)) != one
    }
    found = False
    for function in _functions().get(file, ()):
        new = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if new is not None and len(new.co_freevars) == len(function.__code__.co_freevars):
            function.__code__ = new
            found = True
    return found


@cache
def _functions() -> dict[str, list[FunctionType]]:
    """Find every function of the core in this process, by its file."""
    found: dict[str, list[FunctionType]] = {}
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(str(CORE)):
            found.setdefault(function.__code__.co_filename, []).append(function)
    return found


def prepare() -> None:
    """Look up once, before processes are forked, what each of them needs."""
    _functions()
    for path in modules():
        _source(path)
