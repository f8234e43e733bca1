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
    r"|Operator_(Eq|NotEq)_(Lt|Gt|LtE|GtE|Is|IsNot)$|Operator_(Add|Sub|Mul|FloorDiv|Mod)_(Div|Mod)$"
)
"""Operators that change no behaviour, or only make type errors: annotations, bits, identity of what is compared by value."""


@frozen
class CodeMutant:
    """One change of one module.

    Attributes:
        path: of the module, below the core.
        operator: cosmic-ray's name of the change.
        occurrence: which place of that operator.
        line: where it is.
    """

    path: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        """A name that stays the same as long as the module does."""
        return f"code {self.path}:{self.line} {self.operator.removeprefix('core/')} {self.occurrence}"


@cache
def _source(path: str) -> str:
    return (CORE / path).read_text(encoding="utf-8")


def _inside(source: str) -> set[int]:
    """Give the lines that are part of a function's body."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            lines.update(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
    return lines


def code_mutants() -> Iterator[CodeMutant]:
    """Give every mutant of the functions of the core that decide."""
    names = sorted(name for name in operator_names() if not _LEFT_OUT.search(name))
    for path in sorted(place.relative_to(CORE).as_posix() for pattern in MUTATED for place in CORE.glob(pattern)):
        source = _source(path)
        tree, lines = parso.parse(source), _inside(source)
        nodes = list(ast_nodes(tree))
        for name in names:
            operator = get_operator(name)()
            places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, (line, _) in enumerate(places):
                if line in lines:
                    yield CodeMutant(path, name, occurrence, line)


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
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename == file:
            new = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(function.__code__.co_freevars):
                function.__code__ = new
                found = True
    return found
