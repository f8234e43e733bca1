"""Values and functions as Python source that runs wherever it is pasted.

What can be imported by its name is; a law of a script, of a test or of a function is taken over by its source, together with
what it uses.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

import attrs

from ..laws import Law


class Source:
    """Writes values as Python source, and remembers what has to stand before it."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}
        self._modules: set[str] = set()
        self._defined: dict[str, str] = {}
        self._lacking: dict[str, str] = {}

    def of(self, value: Any) -> str:
        """Write one value; fields that have their default are left out."""
        if isinstance(value, Enum):
            self.add(type(value))
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, tuple):
            inner = ", ".join(self.of(item) for item in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if attrs.has(type(value)):
            self.add(type(value))
            parts = []
            for item in attrs.fields(type(value)):
                held = getattr(value, item.name)
                if item.default is attrs.NOTHING or held != item.default:
                    parts.append(f"{item.name}={self.of(held)}")
            return f"{type(value).__name__}({', '.join(parts)})"
        return repr(value)

    def add(self, kind: type, name: str = "") -> None:
        """Remember an import."""
        self.need(kind.__module__, name or kind.__name__)

    def need(self, module: str, name: str) -> None:
        """Remember an import by name."""
        self._names.setdefault(module, set()).add(name)

    def law(self, law: Law) -> None:
        """Make a law known by its name: by an import, or by its own source."""
        module = law.check.__module__
        held = getattr(sys.modules.get(module), law.name, None)
        if isinstance(held, Law) and held.check is law.check and _may_be_imported(module):
            self.need(module, law.name)
        else:
            self._define(law.name, law.check)

    def head(self) -> str:
        """Write what has to stand before: imports, sorted, and what was taken over."""
        lines = [f"import {module}" for module in sorted(self._modules)]
        lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._names.items())]
        lines += [f"# Define {name} here: {why}." for name, why in self._lacking.items()]
        blocks = ["\n".join(lines), *self._defined.values()]
        return "\n\n\n".join(block for block in blocks if block)

    def _define(self, name: str, thing: Callable[..., Any]) -> None:
        """Take over the source of a function or class, after that of what it uses."""
        if name in self._defined or name in self._lacking:
            return
        try:
            text = textwrap.dedent(inspect.getsource(thing)).strip()
            tree = ast.parse(text)
        except (OSError, TypeError, SyntaxError):
            self._lacking[name] = "its source cannot be read where it was written"
            return
        self._lacking[name] = ""  # until it is done, so that two that use each other come to an end
        space = _space(thing)
        for used in dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)):
            if used != name and used in space:
                self._use(used, space[used])
        del self._lacking[name]
        self._defined[name] = text

    def _use(self, name: str, value: Any) -> None:
        """Make a name known that a function uses."""
        if isinstance(value, ModuleType):
            self._modules.add(value.__name__ if value.__name__ == name else f"{value.__name__} as {name}")
            return
        home, own = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if isinstance(home, str) and own and _may_be_imported(home) and getattr(sys.modules.get(home), own, None) is value:
            self.need(home, own if own == name else f"{own} as {name}")
        elif isinstance(value, Law):
            self.law(value)
        elif isinstance(value, FunctionType | type):
            self._define(name, value)
        elif _is_plain(value):
            self._defined[name] = f"{name} = {self.of(value)}"
        elif name not in self._defined:
            self._lacking[name] = "it could not be taken over"


def _may_be_imported(module: str) -> bool:
    """Tell whether another file can import a module: not the script that runs, nor a file of tests."""
    return module in sys.modules and module != "__main__" and not module.rpartition(".")[2].startswith(("test_", "conftest"))


def _space(thing: Callable[..., Any]) -> dict[str, Any]:
    """Give the names that a function or class can see."""
    if isinstance(thing, FunctionType):
        inner = inspect.getclosurevars(thing).nonlocals
        known = {**thing.__globals__, **inner}
    else:
        known = vars(sys.modules[thing.__module__]) if thing.__module__ in sys.modules else {}
    return {name: value for name, value in known.items() if getattr(builtins, name, known) is not value}


def _is_plain(value: Any) -> bool:
    """Tell whether a value can be written down."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    if isinstance(value, Enum) or attrs.has(type(value)):
        return _may_be_imported(type(value).__module__)
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False
